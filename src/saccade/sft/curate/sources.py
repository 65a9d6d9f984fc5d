"""What is curated: the trajectories of runs, or the tasks of any source, with their media.

A task that nobody has played is a trajectory without turns, so that filters about tasks take it as any other.

An id that an earlier run has already gets the name of its run's folder before it, so that ids stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import DataError, MediaError, MissingMediaError, RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import Media
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import open_tasks


class CurateSource(Media, Protocol):
    """What is curated."""

    of_tasks: bool
    """Whether these are tasks that nobody has played."""
    renamed: int
    """Trajectories whose id another one had."""
    left_out: list[str]
    """Why rows gave no task."""

    @property
    def names(self) -> tuple[str, ...]:
        """As a report names them."""

    def count(self) -> int:
        """How many there are, for a progress bar."""

    def trajectories(self) -> Iterator[Trajectory]:
        """All of them, in order. Raises `RecordError` if one cannot be read."""

    def close(self) -> None:
        """Give back what it holds."""


@contextmanager
def curate_source(names: Sequence[str | Path]) -> Iterator[CurateSource]:
    """The runs, or the sources of tasks, of these names.

    Raises:
        SettingsError: some are runs and some are not, or a name means nothing.
    """
    runs = [Path(name) for name in names if (Path(name) / TRAJECTORIES).is_file()]
    if runs and len(runs) < len(names):
        other = next(name for name in names if Path(name) not in runs)
        raise SettingsError(
            f"{runs[0]} is a run and {other} is not: trajectories and tasks are not curated together. Name one kind."
        )
    source: CurateSource = SourceRuns(runs) if runs else SourceTasks([str(name) for name in names])
    try:
        yield source
    finally:
        source.close()


class SourceTasks:
    """Tasks of any source; media wait in a folder of their own until it is known which tasks are kept."""

    of_tasks = True

    def __init__(self, names: Sequence[str]) -> None:
        """Raises as `open_tasks`."""
        self._pool = open_tasks(names, SourceDefaults(world_tasks=None))
        self._names = tuple(names)
        self._folder = TemporaryDirectory(prefix="saccade-curate-")
        self._store = MediaStore(self._folder.name)
        self.renamed = 0
        self.left_out = [str(problem) for problem in self._pool.problems]

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def count(self) -> int:
        return len(self._pool.ids)

    def trajectories(self) -> Iterator[Trajectory]:
        self.left_out = [str(problem) for problem in self._pool.problems]
        for name in self._pool.ids:
            try:
                task = self._pool.make(name, self._store)
            except (DataError, MediaError, RecordError) as error:
                self.left_out.append(str(error))
            else:
                yield Trajectory(id=task.id, task=task)

    def get_bytes(self, sha256: str) -> bytes:
        """The stored bytes. Raises `MissingMediaError`."""
        return self._store.get_bytes(sha256)

    def path(self, sha256: str) -> Path:
        """The file that holds them. Raises `MissingMediaError`."""
        return self._store.path(sha256)

    def close(self) -> None:
        self._folder.cleanup()


class SourceRuns:
    """One run folder or more, read in the order in which they are named."""

    of_tasks = False

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises `RecordError` for a folder without trajectories, or one that is named twice."""
        self.folders = tuple(folders)
        for folder in folders:
            if not (folder / TRAJECTORIES).is_file():
                raise RecordError(f"{folder} is no run folder: it has no {TRAJECTORIES}. Name the folder of a run.")
        if len({folder.resolve() for folder in folders}) < len(self.folders):
            raise RecordError("a run folder is named twice; name each once")
        self._stores = tuple(MediaStore(folder / MEDIA) for folder in folders)
        self.renamed = 0
        self.left_out: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.folders))

    def close(self) -> None:
        """There is nothing to give back."""

    def count(self) -> int:
        """Lines in the files of trajectories, for a progress bar."""
        total = 0
        for folder in self.folders:
            with (folder / TRAJECTORIES).open("rb") as file:
                total += sum(1 for _ in file)
        return total

    def trajectories(self) -> Iterator[Trajectory]:
        """All trajectories, in order.

        Raises:
            RecordError: one cannot be read, or an id comes twice in one run.
        """
        self.renamed = 0
        seen: set[str] = set()
        for folder in self.folders:
            for trajectory in read_lines(folder / TRAJECTORIES, Trajectory):
                if trajectory.id in seen:
                    self.renamed += 1
                    name = f"{folder.resolve().name}/{trajectory.id}"
                    if name in seen or len(name) > 200:
                        raise RecordError(
                            f"the trajectory {trajectory.id} comes twice in {folder}, or in two runs of that name. "
                            "Give every trajectory an id of its own."
                        )
                    trajectory = trajectory.model_copy(update={"id": name})
                seen.add(trajectory.id)
                yield trajectory

    def get_bytes(self, sha256: str) -> bytes:
        """The stored bytes. Raises `MissingMediaError`."""
        return self._holder(sha256).get_bytes(sha256)

    def path(self, sha256: str) -> Path:
        """The file that holds them. Raises `MissingMediaError`."""
        return self._holder(sha256).path(sha256)

    def _holder(self, sha256: str) -> MediaStore:
        for store in self._stores:
            if sha256 in store:
                return store
        raise MissingMediaError(
            f"none of the runs {', '.join(map(str, self.folders))} holds the media {sha256}. "
            "Copy the run's media folder along with its records."
        )
