"""Make trajectories of tasks, by an expert or a teacher that plays the dialect; and tell what a program does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol, get_args

from saccade.core.settings import settings_toml
from saccade.dialects.base import Dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, limits_with
from saccade.episode.shown import scaled_down
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.record.content import Code, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import Sampling, Trajectory
from saccade.sandbox.base import Sandbox
from saccade.tools.toolbox import Toolbox
from saccade.training.sft.synth.jobs import Job
from saccade.training.sft.synth.prompts import DiscardedError, RecipeTexts, recipe_texts
from saccade.training.sft.synth.settings import AtomicCategory, SynthSettings

TAG: Final = "atomic:"
"""Begins the tag of a category."""
ATOMIC_PROMPTS: Final[dict[AtomicCategory, str]] = {
    "transform": "Use code for one thing alone: to see better. Cut out the region that decides the answer, enlarge, "
    "turn or brighten it, show it, and answer from what you see then.",
    "compute": "Use code for one thing alone: to calculate. Write down as numbers what the picture shows, let Python "
    "do the measuring, algebra or adding up, print the result, and answer by it.",
    "edit": "Use code for one thing alone: to draw. Put boxes, lines, points or numbers onto the picture that make the "
    "answer visible, show the result, check it, and answer by it.",
}
_EDITS = (
    *("rectangle", "rounded_rectangle", "ellipse", "circle", "polygon", "polylines", "line", "arrowedLine", "arc"),
    *("chord", "pieslice", "point", "text", "multiline_text", "putText", "drawContours", "paste", "alpha_composite"),
    *("plot", "scatter", "bar", "annotate", "axhline", "axvline", "axline", "add_patch", "add_artist"),
    *("fill_between", "hlines", "vlines"),
)
_TRANSFORMS = (
    *("crop", "resize", "thumbnail", "rotate", "transpose", "transform", "enhance", "filter", "autocontrast"),
    *("equalize", "equalizeHist", "invert", "expand", "flip", "warpAffine", "warpPerspective", "getRectSubPix"),
    *("GaussianBlur", "cvtColor", "threshold", "Canny", "pyrUp", "rot90", "fliplr", "flipud"),
)
_COMPUTES = (
    *("sum", "len", "min", "max", "abs", "round", "sorted", "sqrt", "hypot", "mean", "median", "std", "atan2", "dot"),
    *("norm", "solve", "count"),
)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def atomic_category(code: str) -> AtomicCategory | None:
    """Return CodeDance's category of one piece of code; None if it is of none, or no Python.

    `transform` cuts out, enlarges, turns or filters a picture; `compute` measures, counts, calculates; `edit` draws on
    a picture or plots. Of several, edit wins before transform before compute. Told by the names of what is called: a
    function of the user's own under another name is not recognised.
    """
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    called = {_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    if called.intersection(_EDITS):
        return "edit"
    if called.intersection(_TRANSFORMS) or any(_cuts_out(node) for node in nodes):
        return "transform"
    counts = any(isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC) for node in nodes)
    return "compute" if counts or called.intersection(_COMPUTES) else None


def atomic_categories(trajectory: Trajectory) -> tuple[AtomicCategory, ...]:
    """Return the categories of all code that the trajectory ran, each once, in the order of the settings."""
    categories = {atomic_category(turn.action.code) for turn in trajectory.turns if isinstance(turn.action, Code)}
    return tuple(name for name in get_args(AtomicCategory) if name in categories)


def labelled(trajectory: Trajectory, asked: AtomicCategory | None = None) -> Trajectory:
    """Return the trajectory, its task tagged with the categories of its code.

    Raises `DiscardedError`: none of them is the one that was asked for.
    """
    categories = atomic_categories(trajectory)
    if asked is not None and asked not in categories:
        raise DiscardedError("other category", f"no code of category {asked}, but {', '.join(categories) or 'none'}")
    tags = tuple(tag for tag in trajectory.task.tags if not tag.startswith(TAG))
    task = trajectory.task.model_copy(update={"tags": (*tags, *(f"{TAG}{name}" for name in categories))})
    return trajectory.model_copy(update={"task": task})


class HintedModel:
    """A model that is given a sentence more than the dialect says; it is in no record, so nobody is trained on it."""

    def __init__(self, model: Model, hint: str) -> None:
        self.name = model.name
        self._model = model
        self._hint = hint

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's reply to the request, with the hint at the end of the user's first message.

        Raises what it raises.
        """
        messages = list(request.messages)
        at = next((number for number, message in enumerate(messages) if message.role == "user"), None)
        if at is not None:
            hint = TextPart(text=f"\n\n{self._hint}")
            messages[at] = messages[at].model_copy(update={"parts": (*messages[at].parts, hint)})
        hinted = Request(
            tuple(messages), request.stop, request.sampling, request.tools, request.context_tokens, request.room
        )
        return await self._model.complete(hinted, media, on_text=on_text)

    async def close(self) -> None:
        """Do nothing: the run closes the model."""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _cuts_out(node: ast.AST) -> bool:
    """Whether it is `image[a:b, c:d]`."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Tuple)
        and sum(isinstance(item, ast.Slice) for item in node.slice.elts) >= 2
    )


class Maker(Protocol):
    """Makes one trajectory for one task."""

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        """Return the trajectory as it was played, not graded.

        Raises `DiscardedError`: something that must not be kept came of it; `SettingsError`: the dialect cannot hold
        the task.
        """


@dataclass(frozen=True)
class SynthResources:
    """Where episodes are played."""

    settings: SynthSettings
    dialect: Dialect
    tools: Toolbox | None
    sandbox: Sandbox
    store: MediaStore

    def plan(self, job: Job, task: Task, sampling: Sampling | None = None) -> Plan:
        """Return the plan of a job."""
        return Plan(
            task,
            self.dialect,
            sampling=sampling or Sampling(),
            given_limits=limits_with(self.dialect.limits, **self.settings.limits.model_dump()),
            group=task.id if self.settings.samples > 1 else "",
            rollout=job.sample,
            settings=self._settings_text,
            shown=scaled_down(task, self.settings.media.shown_pixels, self.store, self.dialect),
        )

    @cached_property
    def texts(self) -> RecipeTexts:
        """Return the texts in which recipes ask."""
        return recipe_texts(self.settings.teacher.prompt_files)

    @cached_property
    def _settings_text(self) -> str:
        return settings_toml(self.settings)

    def atomic_of(self, job: Job) -> AtomicCategory | None:
        """Return the category of code that a job asks for; its samples go through all of them in turn."""
        wanted = self.settings.teacher.atomic
        return wanted[job.sample % len(wanted)] if wanted else None

    async def play(self, plan: Plan, model: Model) -> Trajectory:
        """Play an episode."""
        return await run_episode(plan, model, self.sandbox, self.store, tools=self.tools)


Player = Callable[[Job, Plan, Mapping[str, str]], Model]
"""Makes the model that plays the plan of a job, given the notes of the world's sample."""
Wording = Callable[[Job, Task], Task]
"""Puts the task of a job in other words."""


@dataclass(frozen=True)
class PlayerMaker:
    """Makes trajectories by a model that is made for each task, such as an expert."""

    stage: SynthResources
    player: Player
    wording: Wording | None = None

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        """Play the task; raises what `player` raises too, such as `ExpertStopped` for a task that it cannot play."""
        plan = self.stage.plan(job, task if self.wording is None else self.wording(job, task))
        return await self.stage.play(plan, self.player(job, plan, notes))


@dataclass(frozen=True)
class TeacherMaker:
    """One model for all tasks, asked in the dialect's own prompt (PyVision-RL)."""

    stage: SynthResources
    model: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        sampling = self.stage.settings.teacher.sampling
        seeded = sampling if sampling.seed is None else sampling.model_copy(update={"seed": sampling.seed + job.sample})
        asked = self.stage.atomic_of(job)
        model = self.model if asked is None else HintedModel(self.model, ATOMIC_PROMPTS[asked])
        played = await self.stage.play(self.stage.plan(job, task, seeded), model)
        return played if played.lost else labelled(played, asked)
