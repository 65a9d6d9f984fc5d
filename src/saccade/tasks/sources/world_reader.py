"""Read tasks of a generated world; each is drawn on demand, or in the scan if tags select."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.tasks.benchmarks.values import RowProblem
from saccade.tasks.sources.readers import TaskSummary
from saccade.tasks.worlds.base import SPLITS, Clip, Knobs, Split, World, draw_sample, make_task

WORLD_TASKS: Final = 4096
"""Default number of tasks of a world, which has no end."""
_WITHOUT_ONE = 1000
"""Samples without a wanted tag after which a world is taken to have none."""


@dataclass(frozen=True, slots=True)
class WorldReader:
    """The first tasks of a world's split."""

    world: World[Any]
    split: Split
    knobs: Knobs
    count: int
    start: int = 0
    """Number of the first one."""
    drawn: bool = False
    """Whether samples are drawn in a scan, to say which tags they have."""

    @property
    def label(self) -> str:
        """Return the id of the world."""
        return self.world.id

    def scan(self) -> Iterator[tuple[int, TaskSummary] | RowProblem]:
        """See `SourceReader`. Without `drawn` it knows no tags."""
        if not self.drawn:
            for index in range(self.start, self.start + self.count):
                yield index, TaskSummary(self._id(index))
            return
        for index in range(self.start, self.start + self.count * _WITHOUT_ONE):
            sample = draw_sample(self.world, self.split, index, self.knobs)
            videos = sum(isinstance(item, Clip) for item in sample.media.values())
            count = len(sample.media)
            yield index, TaskSummary(self._id(index), sample.tags, sample.answer_type, media=count, videos=videos)

    def make(self, spot: int, store: MediaStore) -> Task:
        return make_task(self.world, self.split, spot, store, self.knobs)

    def _id(self, index: int) -> str:
        return f"{self.world.id}/{self.split}/{index}"


def as_split(name: str) -> Split:
    """Return the split of worlds with this name. Raises `SettingsError`."""
    if name not in SPLITS:
        raise SettingsError(f"generated worlds have no split {name!r}; they have {', '.join(SPLITS)}")
    return SPLITS[SPLITS.index(name)]
