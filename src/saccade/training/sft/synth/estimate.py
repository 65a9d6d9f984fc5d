"""Estimate the cost of a run before the first request.

Three tasks are looked at. A token is taken for four characters or for 784 pixels (at most 4,096 for a picture, and as
many for a video), a reply for `teacher.expect_tokens`, an episode for three turns at most. Providers count otherwise,
so this is for planning, and `teacher.dollars` is what holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.hosted import HostedModel
from saccade.record.content import ImagePart, MediaPart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.training.sft.synth.prompts import RecipeText, question_of, recipe_texts

LOOKED_AT = 3
_CHARACTERS, _PIXELS, _MEDIA = 4, 784, 4096
_TURNS, _SHOWN = 3, 300
"""Turns of an episode, and tokens of what comes back in one."""
_PROMPT = 800
"""Tokens of a dialect's own prompt."""


@dataclass(frozen=True, slots=True)
class RequestSize:
    """Requests to one of the models for one job, with all their tokens."""

    role: str
    """`teacher` or `writer`."""
    requests: int
    prompt_tokens: int
    sampled_tokens: int


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The sums of a run."""

    jobs: int
    requests: int
    prompt_tokens: int
    sampled_tokens: int
    dollars: float | None
    """None if the price of a model is not known."""
    unpriced: tuple[str, ...] = ()
    """Names of the models without a price."""

    def line(self, limit: float | None) -> str:
        """Say it in words."""
        size = (
            f"about {self.requests:,} requests for {self.jobs:,} jobs, {_thousands(self.prompt_tokens)} tokens read "
            f"and {_thousands(self.sampled_tokens)} written"
        )
        if self.dollars is None:
            cost = f"the price of {' and '.join(self.unpriced)} is not known"
        else:
            cost = f"about {self.dollars:.2f} dollars"
        above = self.dollars is not None and limit is not None and self.dollars > limit
        held = "no limit (teacher.dollars)" if limit is None else f"limit {limit:g} dollars"
        return f"{size}: {cost}; {held}" + (", which will not be enough for all" if above else "")


def job_size(recipe: str, work: Task | Trajectory, reply: int, turns: int) -> tuple[RequestSize, ...]:
    """Return the requests of one job; `reply` is the tokens of one reply, `turns` the most that the limits allow."""
    task = work.task if isinstance(work, Trajectory) else work
    asked = _text(question_of(task)) + sum(_media(item.part) for item in task.media)
    turns = min(turns, _TURNS)
    episode = sum(_PROMPT + asked + turn * (reply + _SHOWN) for turn in range(turns))
    solve = RequestSize("teacher", turns, episode, turns * reply)
    densify = asked + _own("densify") + turns * (reply + _SHOWN)
    match recipe:
        case "reason":
            return (RequestSize("teacher", 1, asked + _own("reason"), reply),)
        case "codify":
            writes = 2 * asked + _own("codify") + _own("conclude") + _PROMPT + 3 * reply + _SHOWN
            return (
                RequestSize("teacher", 1, asked + _own("reason"), reply),
                RequestSize("writer", 2, writes, 2 * reply),
            )
        case "densify":
            return (solve, RequestSize("writer", 1, densify, turns * reply))
        case "rewrite" if isinstance(work, Trajectory):
            said = sum(_text(turn.text) + (_SHOWN if turn.observation else 0) for turn in work.turns)
            return (RequestSize("teacher", 1, asked + _own("densify") + said, len(work.turns) * reply),)
        case "question":
            return (RequestSize("teacher", 1, asked + _SHOWN, reply),)
    return (solve,)


def _own(name: RecipeText) -> int:
    return _text(recipe_texts({}).text(name))


def estimated(jobs: int, looked_at: Sequence[tuple[RequestSize, ...]], models: dict[str, Model]) -> CostEstimate:
    """Extrapolate from the jobs that were looked at to all; `models` are the teacher and the writer by their roles."""
    sizes = [size for job in looked_at for size in job]
    scale = jobs / max(1, len(looked_at))
    unpriced, dollars = dict[str, None](), 0.0
    for size in sizes:
        model = models[size.role]
        price = model.price if isinstance(model, HostedModel) else None
        if price is None:
            unpriced[model.name] = None
        else:
            dollars += (size.prompt_tokens * price.input + size.sampled_tokens * price.output) / 1_000_000
    return CostEstimate(
        jobs,
        round(scale * sum(size.requests for size in sizes)),
        round(scale * sum(size.prompt_tokens for size in sizes)),
        round(scale * sum(size.sampled_tokens for size in sizes)),
        None if unpriced else scale * dollars,
        tuple(unpriced),
    )


def scratch_store() -> tuple[TemporaryDirectory[str], MediaStore]:
    """Return a store for the media of the tasks that are looked at, and the folder to remove afterwards."""
    folder = TemporaryDirectory(prefix="saccade-estimate-")
    return folder, MediaStore(folder.name)


def _text(text: str) -> int:
    return -(-len(text) // _CHARACTERS)


def _media(part: MediaPart) -> int:
    return min(_MEDIA, part.width * part.height // _PIXELS) if isinstance(part, ImagePart) else _MEDIA


def _thousands(tokens: int) -> str:
    return f"{tokens:,}" if tokens < 10_000 else f"{tokens / 1000:,.0f}k"
