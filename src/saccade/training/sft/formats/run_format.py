"""`saccade`: a run folder, `trajectories.jsonl` next to `media/`. Holds everything.

Tasks that were not played are read too, of a folder of them or another source by its name (`saccade.tasks.sources`),
each as an episode that has not begun, asked in the dialect that the options name. Other formats of tasks are written
from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from saccade.dialects.base import Dialect
from saccade.dialects.question import VideoNotShownError
from saccade.dialects.registry import load_dialect
from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import DataError, MediaError, RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.trajectory import Provenance, Trajectory
from saccade.tasks.sources.task_set import TaskPool, open_tasks
from saccade.training.sft.curate.run import link_into
from saccade.training.sft.curate.stage import Media
from saccade.training.sft.formats.base import ConversionOptions, Refused, TrajectorySource


@dataclass(frozen=True, slots=True)
class RunFormat:
    """The format; see the module's head."""

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        """See `Format`. A run that is broken is refused as a whole, with `RecordError`."""
        file = path if path.is_file() else path / TRAJECTORIES
        if not file.is_file():
            if not options.dialect:
                raise RecordError(
                    f"{path} is no run folder: it has no {TRAJECTORIES}. Name the folder of a run; or, for tasks that "
                    "were not played, the dialect in which they are asked (--dialect)."
                )
            tasks = open_tasks([str(path)])
            return TrajectorySource(_unplayed(tasks, load_dialect(options.dialect), store), store)
        return TrajectorySource(iter(read_lines(file, Trajectory)), _Store(MediaStore(file.parent / MEDIA)))

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        store = MediaStore(folder / MEDIA)
        write_lines(folder / TRAJECTORIES, _with_media(trajectories, media, store))
        return []


@dataclass(frozen=True, slots=True)
class _Store:
    """A store that says so when a file is asked for which it does not hold."""

    store: MediaStore

    def get_bytes(self, sha256: str) -> bytes:
        """Return the stored bytes."""
        return self.store.get_bytes(sha256)

    def path(self, sha256: str) -> Path:
        """Return the file that holds them."""
        if sha256 not in self.store:
            self.store.get_bytes(sha256)  # raises MissingMediaError, and says what to do
        return self.store.path(sha256)


def _unplayed(tasks: TaskPool, dialect: Dialect, store: MediaStore) -> Iterator[Trajectory | Refused]:
    """Yield the tasks, each with its prompt only; then the rows that give none, numbered after the others."""
    for number, name in enumerate(tasks.ids):
        try:
            task = tasks.make(name, store)
            prompt = dialect.open(task).messages
        except VideoNotShownError as error:  # nothing here makes frames of it
            yield Refused(row=number, id=name, reason=f"{error.fact}; a dialect for videos takes it")
        except (DataError, MediaError, RecordError, SettingsError) as error:
            yield Refused(row=number, id=name, reason=str(error))
        else:
            yield Trajectory(id=f"{name}#0", task=task, provenance=Provenance(dialect=dialect.id), prompt=prompt)
    for number, problem in enumerate(tasks.problems, len(tasks)):
        yield Refused(row=number, id=f"{problem.file}:{problem.row}", reason=str(problem))


def _with_media(trajectories: Iterable[Trajectory], media: Media, store: MediaStore) -> Iterator[Trajectory]:
    for trajectory in trajectories:
        for part in trajectory.media():
            link_into(store, media, part.sha256)
        yield trajectory


FORMAT = RunFormat()
