"""The episodes of `saccade bench rollout`: every one looks several times, whatever the model writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from saccade.dialects.base import Dialect, Observation, Opening
from saccade.dialects.registry import load_dialect
from saccade.episode.plan import Plan
from saccade.media.store import MediaStore
from saccade.record.action import Action, Code
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.execution import Execution
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.record.turn import FinishReason
from saccade.sandbox.base import SessionOptions
from saccade.sandbox.limits import Limits
from saccade.tokens.segments import SegmentKind, TokenTrajectory

_CROP = "image.crop((16, 16, 72, 72)).resize((112, 112)).show()"
_SPOKEN = "pyvision-rl-image"
"""The dialect whose prompt is read."""


@dataclass(frozen=True, slots=True)
class RolloutScale:
    """Sizes of a run."""

    tasks: int = 4
    group: int = 8
    turns: int = 4
    tokens: int = 32
    """Most of a turn."""
    judged: bool = False
    """Whether it is long enough to be held against the targets."""


FULL_ROLLOUT = RolloutScale(judged=True)
QUICK_ROLLOUT = RolloutScale(tasks=2, turns=3, tokens=16)


@dataclass(frozen=True)
class Looking(Dialect):
    """A dialect in which every turn cuts the same crop out, whatever was written."""

    id: str = "looking@1"
    stop: tuple[str, ...] = ()
    session: SessionOptions = field(default_factory=SessionOptions)
    sandbox: Limits = field(default_factory=Limits)
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)

    def open(self, task: Task) -> Opening:
        """As a real dialect begins."""
        return Opening(load_dialect(_SPOKEN).open(task).messages, {"image": task.media[0].name}, {}, 1)

    def parse(self, text: str, finish: FinishReason) -> Action:
        return Code(code=_CROP)

    def write(self, action: Action, thought: str = "") -> str:
        """Any action is written as its thought alone."""
        return thought

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """What came back."""
        shown = [picture.image for picture in execution.pictures]
        return Observation(_user("Here:\n", *shown, "\nGo on."), {}, pictures + len(shown))


def before(tokens: TokenTrajectory, turn: int) -> TokenTrajectory:
    """What is read before a turn."""
    places = [at for at, segment in enumerate(tokens.segments) if segment.kind is SegmentKind.SAMPLED]
    return TokenTrajectory(tokens.id, tokens.segments[: places[turn]])


def looking_plans(scale: RolloutScale, store: MediaStore) -> list[Plan]:
    """Groups of episodes, a noisy picture for each group."""
    sampling = Sampling(temperature=1.0, max_tokens=scale.tokens)
    limits = EpisodeLimits(turns=scale.turns)
    plans = []
    for number in range(scale.tasks):
        image = Image.effect_noise((224, 224 + 28 * (number % 2)), 64).convert("RGB")
        media = (NamedMedia(name="image", part=store.put_image(image)),)
        task = Task(id=f"look-{number}", question="What is written on the sign?", media=media)
        plans += [Plan(task, Looking(), sampling, limits, task.id, rollout) for rollout in range(scale.group)]
    return plans


def _user(*parts: Any) -> Message:
    texts = [part if isinstance(part, ImagePart) else TextPart(text=str(part)) for part in parts]
    return Message(role="user", parts=tuple(texts))
