"""What a source of tasks gives a run: tasks that can be made, of which a seed chooses `n` and a shard takes its part.

Which tasks are chosen depends on the seed and their names alone, so every model gets the same ones, and a larger `n`
adds to those of a smaller one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from saccade.dialects.base import Dialect
from saccade.episode.task_media import Unshown
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.tasks.frames import FrameSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Item:
    """One task that can be made."""

    id: str
    make: Callable[[MediaStore], Task]
    """Gives the task and puts its media into a store; may be called in any thread."""
    grader: str = ""
    """Id of the grader that the source wants; empty: the one that the task names, or that of the answer's type."""


class ItemSource(Protocol):
    """Tasks for runs."""

    @property
    def note(self) -> str:
        """What a person should know of what is taken and what is not; empty for nothing."""

    def unshown(self, dialect: Dialect, frames: FrameSettings) -> Sequence[Unshown]:
        """Its tasks with pictures or videos that the dialect cannot show, as far as is known before they are made."""

    async def items(self, settings: EvalSettings, out: Path, store: MediaStore) -> Sequence[Item]:
        """The tasks of the run in folder `out`, in the source's order; rows that give none go to its failures.

        Raises:
            RecordError, DataError: the tasks cannot be read.
        """


def of_shard(items: Sequence[T], settings: EvalSettings, chosen: frozenset[int]) -> list[T]:
    """The items at the chosen places that are the shard's: every n-th of all places, whatever is chosen."""
    number, shards = settings.shards
    return [item for place, item in enumerate(items) if place in chosen and place % shards == number]
