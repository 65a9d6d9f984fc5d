"""Records of tasks: a file of them with its media store, as `saccade tasks write` makes it, and those of a run folder.

Every record is read in full when the source is opened, so that a broken one is known before anything is played; kept is
only where each one lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json, to_json

from saccade.errors import MissingMediaError, RecordError
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.task import Task
from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.benchmarks.row_files import reading
from saccade.tasks.sources.reader import TaskSummary, light_of
from saccade.tasks.sources.text_tables import line_at

MEDIA = "media"


@dataclass(frozen=True, slots=True)
class RecordReader:
    """A file of records."""

    label: str
    file: Path
    further: tuple[Path, ...] = ()
    """Media stores to look in beside those near the file."""
    of_run: bool = False
    """Whether the lines are trajectories; each task of theirs counts once."""

    def scan(self) -> Iterator[tuple[int, TaskSummary] | RowProblem]:
        at = 0
        seen: set[str] = set()
        with reading(self.file), self.file.open("rb") as lines:
            for number, line in enumerate(lines):
                try:
                    task = self._task(line)
                except RecordError as error:
                    yield RowProblem(self.file.name, number, "record", str(error))
                else:
                    if not self.of_run or task.id not in seen:
                        yield at, light_of(task)
                    seen.add(task.id)
                at += len(line)

    def make(self, spot: int, store: MediaStore) -> Task:
        task = self._task(line_at(self.file, spot))
        for item in task.media:
            if item.part not in store:
                store.put_blob(self._bytes(item.part.sha256, task.id))
        return task

    def _task(self, line: bytes) -> Task:
        if not self.of_run:
            return loads(line, Task)
        try:
            held = from_json(line)
        except ValueError as error:
            raise RecordError(f"it is no JSON: {error}") from error
        if not isinstance(held, dict) or not isinstance(held.get("task"), dict):
            raise RecordError("it is no trajectory: it holds no task")
        return loads(to_json(held["task"]), Task)

    def _bytes(self, sha256: str, name: str) -> bytes:
        folder = self.file.parent
        places = (folder / MEDIA, folder.parent / MEDIA, *self.further)
        for place in places:
            if sha256 in (store := MediaStore(place)):
                return store.get_bytes(sha256)
        raise MissingMediaError(
            f"the media {sha256} of the task {name} lie in none of {', '.join(map(str, places))}. "
            "Copy the media folder along with the records, or name it with --data."
        )
