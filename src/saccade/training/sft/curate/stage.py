"""Define filters: settings that start a stage, and a stage that decides which trajectories stay.

A filter that looks at one trajectory at a time is a `BatchStage` (it sees them in order); one that waits, such
as for a judge, is an `AskStage`, which has several under way at once; one that must know the whole set is a
`DatasetStage`: it keeps a small note of each trajectory and chooses at the end. A filter never reads a gold answer to a
model that is curated, and never edits what a model wrote; a trajectory that stays may get tags, a split, evidence
boxes, or a gold answer that a person corrected.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from abc import ABC
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from saccade.core.seam import seam
from saccade.core.settings import Settings
from saccade.errors import OwnCodeError
from saccade.record.content import ImagePart
from saccade.record.trajectory import Trajectory


class Media(Protocol):
    """Store of the pictures and videos of the trajectories."""

    def get_bytes(self, sha256: str) -> bytes:
        """Return the stored bytes. Raises `MissingMediaError`."""

    def path(self, sha256: str) -> Path:
        """Return the file that holds them. Raises `MissingMediaError`."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The trajectory stays."""

    trajectory: Trajectory | None = None
    """The same one with another tag, split or evidence; None if it stays as it is."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The trajectory goes."""

    reason: str
    """A few words that many trajectories share: they are counted."""
    detail: str = ""
    """Details of this case."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The filter could not tell: a score was never computed, a judge gave no verdict."""

    reason: str
    detail: str = ""


FilterOutcome: TypeAlias = Keep | Drop | Undecided
"""Decision of a filter about a trajectory."""
KEEP = Keep()
"""The decision to keep a trajectory, with nothing to say."""


@dataclass(frozen=True, slots=True)
class BatchStage:
    """Decides in order, one outcome for each trajectory; how many it is given at a time is not promised."""

    decide: Callable[[Sequence[Trajectory]], Sequence[FilterOutcome]]
    close: Callable[[], None] = field(default=lambda: None)


async def _nothing() -> None:
    """Do nothing: there is nothing to give back."""


@dataclass(frozen=True, slots=True)
class AskStage:
    """Waits for each decision, with several under way; what it raises ends the run when those that run are done."""

    decide: Callable[[Trajectory], Awaitable[FilterOutcome]]
    at_once: int = 8
    close: Callable[[], Awaitable[None]] = field(default=_nothing)


@dataclass(frozen=True, slots=True)
class DatasetStage:
    """Decides when all have been seen."""

    note: Callable[[Trajectory], Any]
    """Note on a trajectory; small, since it is kept for all of them."""
    choose: Callable[[Sequence[Any]], Sequence[FilterOutcome]]
    """An outcome for each note; a `Keep` without a trajectory."""


FilterStage: TypeAlias = BatchStage | AskStage | DatasetStage
"""A filter at work in a pipeline."""


def each(decide: Callable[[Trajectory], FilterOutcome]) -> BatchStage:
    """Make the stage of a rule that looks at one trajectory at a time."""
    one = seam(decide, Keep, Drop, Undecided)
    return BatchStage(lambda batch: [one(trajectory) for trajectory in batch])


@dataclass(frozen=True, slots=True)
class FilterContext:
    """Resources of a stage besides its settings."""

    media: Media
    cache: Path
    """Folder in which judges keep their verdicts."""


class FilterSettings(Settings, ABC):
    """Base of all filters. The first sentence of the docstring is what `saccade curate --list` shows."""

    ABOUT_TASKS: ClassVar[bool] = False
    """Whether it looks only at tasks, and so can filter tasks without any episode."""

    undecided: Literal["leave_out", "keep"] = "leave_out"
    """Whether a trajectory that the filter could not decide about is kept; it is counted as undecided either way."""

    def start(self, around: FilterContext) -> FilterStage:
        """Return the stage for one run over a set: `decide`, unless a filter needs more than one trajectory.

        Raises `SaccadeError`: something that the settings name is not there, or a filter of a user's own has neither.
        """
        if getattr(type(self).decide, "__module__", "") == __name__:
            where = getattr(sys.modules.get(type(self).__module__), "__file__", type(self).__module__)
            raise OwnCodeError(f"{where}: {type(self).__name__} has neither `decide` nor `start`. Give it one of them.")
        return each(self.decide)

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        """Decide about one trajectory, where `start` is as it is here."""
        raise NotImplementedError


def task_pictures(trajectory: Trajectory) -> tuple[ImagePart, ...]:
    """Return the pictures of the task, in their order."""
    return tuple(item.part for item in trajectory.task.media if isinstance(item.part, ImagePart))


_PLACEHOLDER = re.compile(r"<image(?: \d+)?>|<IMAGE_PLACE_HOLDER_\d+>|<video>")
# A number with its decimals and its sign is one word; of other signs only those of arithmetic mean something.
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+|[-+*/=<>%^]")


def normal_text(text: str) -> str:
    """Return the words, numbers and arithmetic signs of `text` in lower case, one blank between; no placeholders."""
    plain = unicodedata.normalize("NFKC", _PLACEHOLDER.sub(" ", text)).casefold()
    return " ".join(_WORD.findall(plain))


CategoryRule: TypeAlias = Literal["source", "dialect", "model", "answer_type", "split", "tag"]


def categories(trajectory: Trajectory, rule: CategoryRule) -> tuple[str, ...]:
    """Return the categories of a trajectory: exactly one, or for `tag` one for each tag; `-` if there is none."""
    match rule:
        case "source":
            named: tuple[str, ...] = (trajectory.task.source,)
        case "dialect":
            named = (trajectory.provenance.dialect,)
        case "model":
            named = (trajectory.provenance.model,)
        case "answer_type":
            named = (trajectory.task.answer_type.value,)
        case "split":
            named = (trajectory.task.split,)
        case "tag":
            named = tuple(dict.fromkeys(trajectory.task.tags))
    return tuple(name or "-" for name in named) or ("-",)
