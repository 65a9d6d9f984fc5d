"""Which trajectories a run will hold: one job for each, with the id that its trajectory will have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from saccade.episode.task_media import check_graders
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.tasks.sources.readers import WorldReader
from saccade.tasks.sources.resolve import SourceDefaults, bare_name, kind_of, with_knobs
from saccade.tasks.sources.settings import SourceSettings, Turns
from saccade.tasks.sources.task_set import OpenSource, TaskPool, expanded, open_tasks
from saccade.tasks.worlds import World, WorldSample, draw_sample, load_world
from saccade.training.sft.synth.settings import SynthSettings


@dataclass(frozen=True, slots=True)
class Job:
    """One trajectory to be made."""

    task_id: str
    """Of the task."""
    sample: int
    """Number among the trajectories of one task."""
    source: int = 0
    """Number of the task's source."""
    place: int = 0
    """Of the task in its source."""

    @property
    def id(self) -> str:
        """The id of the trajectory."""
        return f"{self.task_id}#{self.sample}"

    @property
    def world(self) -> str:
        """Prefix of the id: of a world its id with the version."""
        return self.task_id.partition("/")[0]

    def seed(self, settings: SynthSettings) -> int:
        """Return a seed of its own for the expert, from the run's seed and the dialect."""
        digest = sha256(json.dumps([settings.seed, settings.dialect, self.id]).encode()).digest()
        return int.from_bytes(digest[:8], "little")


class Jobs:
    """All jobs of a run, and their tasks."""

    def __init__(self, settings: SynthSettings) -> None:
        """Opens the sources.

        Raises as `saccade.tasks.sources.task_set.open_tasks`, and `SettingsError` for a grader that cannot be had.
        """
        self._settings = settings
        sources = _each_once(with_knobs(expanded(settings.sources), settings.knobs))
        self.tasks: TaskPool = open_tasks(
            sources, SourceDefaults(settings.split, most=settings.n, start=settings.start)
        )
        check_graders(self.tasks.parts)

    def __len__(self) -> int:
        """Count the jobs."""
        return sum(1 for _ in self._places()) * self._settings.samples

    def __iter__(self) -> Iterator[Job]:
        """Yield from the sources in turn, so that a run that is broken off holds some of each."""
        for row in self._rows():
            for sample in range(self._settings.samples):
                for source, place in row:
                    light = self.tasks.parts[source].lights[place]
                    yield Job(light.id, sample, source, place)

    def lines(self) -> tuple[str, ...]:
        """Say for each source how many tasks are taken, and what is left out and why."""
        return self.tasks.lines()

    def drawn(self, job: Job) -> WorldSample | None:
        """Return the sample that a world draws for the job; None for a task of another source."""
        reader = self._of(job).reader
        if not isinstance(reader, WorldReader):
            return None
        return draw_sample(reader.world, reader.split, self._of(job).spots[job.place], reader.knobs)

    def make(self, job: Job, store: MediaStore) -> Task:
        """Return the task of a job, its media put into `store`. Raises as `TaskPool.make`."""
        return self._of(job).make(job.place, store)

    def _of(self, job: Job) -> OpenSource:
        return self.tasks.parts[job.source]

    def _places(self) -> Iterator[tuple[int, int]]:
        for row in self._rows():
            yield from row

    def _rows(self) -> Iterator[list[tuple[int, int]]]:
        """Yield tasks as (source, place); one of each source in a row, or as their shares say, `n` in all."""
        sizes = [len(part.lights) for part in self.tasks.parts]
        if self.tasks.shares is None or len(sizes) == 1:
            for places in zip_longest(*map(range, sizes)):
                yield [(source, place) for source, place in enumerate(places) if place is not None]
            return
        turns = Turns(self.tasks.shares)
        for number in range(self._settings.n):
            source, place = turns.at(number)
            if place < sizes[source]:
                yield [(source, place)]


def jobs(settings: SynthSettings) -> Iterator[Job]:
    """Yield all jobs; raises as `Jobs`."""
    yield from Jobs(settings)


def job_count(settings: SynthSettings) -> int:
    """Count the jobs."""
    return len(Jobs(settings))


def worlds_of(settings: SynthSettings) -> list[World[Any]]:
    """Return the worlds among the sources."""
    names = [source.name for source in expanded(settings.sources) if kind_of(source.name) == "world"]
    return [load_world(bare_name(name)) for name in names]


def _each_once(sources: tuple[SourceSettings, ...]) -> list[SourceSettings]:
    """Return the sources, a world that is named twice (with its version and without) once."""
    kept: dict[str, SourceSettings] = {}
    for source in sources:
        world = kind_of(source.name) == "world"
        name = load_world(bare_name(source.name)).id if world else source.name
        kept.setdefault(f"{name}:{source.split}:{source.tags}:{source.prefix}", source)
    return list(kept.values())
