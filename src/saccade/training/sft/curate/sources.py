"""Open the sources of curation: trajectories of runs in order, with media from any of them, and tasks of any source.

A task that nobody played is a trajectory without turns: filters that look at questions and pictures decide about it,
and what is left is a source of tasks again. An id that an earlier run has already gets the name of its run's folder
before it, so that ids stay apart.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

from saccade.episode.run_folder import MEDIA, REJECTED, TRAJECTORIES, kept_nothing, note_empty
from saccade.errors import DataError, MediaError, MissingMediaError, RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.task_set import TaskPool, open_tasks


class SourceRuns:
    """One run folder or source of tasks, or more, read in the order in which they are named."""

    def __init__(self, names: Sequence[str | Path]) -> None:
        """Opens the sources of tasks; their media are put into a temporary folder when they are read.

        Raises:
            RecordError: one is named twice.
            SettingsError, RegistryError, DataError: as `open_tasks`, for what is no run folder; or runs and tasks are
                named together.
        """
        self.names = tuple(map(str, names))
        if len({Path(name).resolve() for name in self.names}) < len(self.names):
            raise RecordError("a run folder is named twice; name each once")
        for name in self.names:
            if kept_nothing(Path(name)):
                listed = f" Its {REJECTED} lists what was played and not wanted." * (Path(name) / REJECTED).exists()
                raise SettingsError(
                    f"{name} is a run that kept no trajectory, so there is nothing to curate.{listed} The command that "
                    "made it says why when it is run again; leave it out, or make it with other settings."
                )
        self._tasks = {name: open_tasks([name]) for name in self.names if not _is_run(name)}
        if self._tasks and len(self._tasks) < len(self.names):
            raise SettingsError(
                f"{next(iter(self._tasks))} holds tasks and no episodes, and other names are runs: trajectories and "
                "tasks are not curated together. Name one kind."
            )
        for name in self.names:
            if name not in self._tasks:
                note_empty(Path(name) / TRAJECTORIES)
        runs = [MediaStore(Path(name) / MEDIA) for name in self.names if _is_run(name)]
        self._made: MediaStore | None = None
        if self._tasks:
            scratch = tempfile.mkdtemp(prefix="saccade-curate-")
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
            self._made = MediaStore(scratch)
        self._stores: tuple[MediaStore, ...] = (*runs, *(() if self._made is None else (self._made,)))
        self.renamed = 0
        self.broken: list[str] = []
        """Why rows of sources gave no task."""

    @property
    def of_tasks(self) -> bool:
        """Whether these are tasks that nobody has played."""
        return bool(self._tasks)

    def lines(self) -> tuple[str, ...]:
        """Return lines about the tasks of each source that are taken and those that are not."""
        return tuple(line for tasks in self._tasks.values() for line in tasks.lines())

    def count(self) -> int:
        """Return trajectories and tasks, for a progress bar; of files of trajectories their lines."""
        total = sum(map(len, self._tasks.values()))
        for name in self.names:
            if name not in self._tasks:
                with (Path(name) / TRAJECTORIES).open("rb") as file:
                    total += sum(1 for _ in file)
        return total

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield all trajectories, in order.

        Raises `RecordError`: one cannot be read, or an id comes twice in one run.
        """
        self.renamed = 0
        self.broken = [str(problem) for tasks in self._tasks.values() for problem in tasks.problems]
        seen: set[str] = set()
        for name in self.names:
            for trajectory in self._of(name):
                if trajectory.id in seen:
                    trajectory = self._with_other_name(trajectory, name, seen)
                seen.add(trajectory.id)
                yield trajectory

    def _of(self, name: str) -> Iterator[Trajectory]:
        if name in self._tasks:
            yield from self._unplayed(self._tasks[name])
        else:
            yield from read_lines(Path(name) / TRAJECTORIES, Trajectory)

    def _unplayed(self, tasks: TaskPool) -> Iterator[Trajectory]:
        assert self._made is not None
        for name in tasks.ids:
            try:
                yield Trajectory(id=name, task=tasks.make(name, self._made))
            except (DataError, MediaError) as error:
                self.broken.append(str(error))

    def _with_other_name(self, trajectory: Trajectory, run: str, seen: set[str]) -> Trajectory:
        self.renamed += 1
        name = f"{Path(run).resolve().name}/{trajectory.id}"
        if name in seen or len(name) > 200:
            raise RecordError(
                f"the trajectory {trajectory.id} comes twice in {run}, or in two runs of that name. "
                "Give every trajectory an id of its own."
            )
        return trajectory.model_copy(update={"id": name})

    def get_bytes(self, sha256: str) -> bytes:
        """Return the stored bytes. Raises `MissingMediaError`."""
        return self._holder(sha256).get_bytes(sha256)

    def path(self, sha256: str) -> Path:
        """Return the file that holds them. Raises `MissingMediaError`."""
        return self._holder(sha256).path(sha256)

    def _holder(self, sha256: str) -> MediaStore:
        for store in self._stores:
            if sha256 in store:
                return store
        raise MissingMediaError(
            f"none of the runs {', '.join(self.names)} holds the media {sha256}. "
            "Copy the run's media folder along with its records."
        )


def _is_run(name: str) -> bool:
    return (Path(name) / TRAJECTORIES).is_file()
