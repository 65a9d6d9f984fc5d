"""Which trajectories a run will hold: one job for each, of a task, or of a stored run whose thoughts are rewritten."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any

from saccade.dialects.registry import load_dialect
from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.episode.task_media import check_graders
from saccade.errors import RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
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
        return sum(map(len, self._rows())) * self._settings.samples

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


@dataclass(frozen=True, slots=True)
class _Line:
    run: Path
    start: int


class StoredJobs:
    """One job for each trajectory of some runs; at most `n` of each run, the first ones."""

    def __init__(self, settings: SynthSettings) -> None:
        """Reads every trajectory once; kept is where it is.

        Raises `SettingsError`: a source is no run folder, was made in another dialect, or two runs hold the same
        rollout; `RecordError`: a trajectory cannot be read.
        """
        self._dialect = load_dialect(settings.dialect).id
        self._lines: dict[str, _Line] = {}
        self._jobs: list[Job] = []
        self._said: list[str] = []
        if settings.samples > 1 or settings.start:
            raise SettingsError("recipe `rewrite` takes stored trajectories as they are: leave out samples and start.")
        for number, name in enumerate(settings.sources):
            run = Path(name)
            if not (run / TRAJECTORIES).is_file():
                raise SettingsError(
                    f"recipe `rewrite` gives new thoughts to stored trajectories, and {name} is no run folder: it has "
                    f"no {TRAJECTORIES}. Name the folder of a run."
                )
            self._read(run, number, settings.n)

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def lines(self) -> tuple[str, ...]:
        """Say for each run how many trajectories are taken, and how many are not and why."""
        return tuple(self._said)

    def drawn(self, job: Job) -> WorldSample | None:
        """None: nothing is drawn by a world."""
        return None

    def make(self, job: Job, store: MediaStore) -> Task:
        """Return the task of a job; all media of its trajectory are put into `store`. Raises `MissingMediaError`."""
        trajectory = self.trajectory(job)
        media = MediaStore(self._lines[job.id].run / MEDIA)
        for part in trajectory.media():
            if part not in store:
                store.put_blob(media.get_bytes(part.sha256))
        return trajectory.task

    def trajectory(self, job: Job) -> Trajectory:
        """Return the stored trajectory of a job, under the id of the job."""
        line = self._lines[job.id]
        with (line.run / TRAJECTORIES).open("rb") as file:
            file.seek(line.start)
            return loads(file.readline(), Trajectory).model_copy(update={"id": job.id})

    def _read(self, run: Path, number: int, most: int) -> None:
        rollouts: Counter[str] = Counter()
        left: Counter[str] = Counter()
        start = taken = 0
        with (run / TRAJECTORIES).open("rb") as lines:
            for at, line in enumerate(lines, 1):
                try:
                    trajectory = loads(line, Trajectory)
                except RecordError as error:
                    raise type(error)(f"{run / TRAJECTORIES}, line {at}: {error}") from error
                why = self._refused(run, trajectory) if taken < most else "more than --n"
                if why:
                    left[why] += 1
                else:
                    job = Job(trajectory.task.id, rollouts[trajectory.task.id], number, at - 1)
                    if job.id in self._lines:
                        raise SettingsError(f"{run} and another run both hold {job.id}. Rewrite one run at a time.")
                    self._lines[job.id] = _Line(run, start)
                    self._jobs.append(job)
                    rollouts[trajectory.task.id] += 1
                    taken += 1
                start += len(line)
        out = "; ".join(f"{count} {why}" for why, count in sorted(left.items()))
        self._said.append(f"{run}: {taken} trajectories" + (f" (left out: {out})" if out else ""))

    def _refused(self, run: Path, trajectory: Trajectory) -> str:
        if trajectory.provenance.dialect != self._dialect:
            raise SettingsError(
                f"{run} holds trajectories of dialect {trajectory.provenance.dialect}, not of {self._dialect}. "
                f"Name it: --dialect {trajectory.provenance.dialect}."
            )
        return "" if trajectory.answer is not None else "without an answer"
