"""Reads a run from its folder: trajectories, media, kept requests, and what could not be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from saccade.episode.run_folder import MEDIA, TRAJECTORIES, Unfinished, journals, note_empty, unfinished
from saccade.errors import RecordError, SettingsError
from saccade.evals.requests import RequestTry, read_requests
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.trajectory import Trajectory


@dataclass
class StoredRun:
    """A file of trajectories and the folder of media next to it. `problems` grows while it is read."""

    file: Path
    store: MediaStore | None
    problems: list[str] = field(default_factory=list)
    """Parts that could not be read, for a person."""

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield every trajectory that can be read, in the order of the file, then the episodes that have not ended."""
        ended = set()
        for number, line in enumerate(self._lines(), 1):
            if not line.strip():
                continue
            try:
                read = loads(line, Trajectory)
            except RecordError as error:
                self.problems.append(self._problem(number, line, error))
            else:
                ended.add(read.id)
                yield read
        unread = self.problems.append
        yield from (item.trajectory for item in self._unfinished(unread) if item.trajectory.id not in ended)

    def check_readable(self) -> None:
        """Raises `RecordError` if there is something to show, and nothing of it can be read."""
        probe = StoredRun(self.file, None)
        if next(probe.trajectories(), None) is None and probe.problems:
            raise RecordError(f"{self.file} holds no episode that can be shown. {probe.problems[0]}")

    def _lines(self) -> Iterator[bytes]:
        if self.file.is_file():
            with self.file.open("rb") as lines:
                yield from lines

    def _unfinished(self, unread: Callable[[str], None] = lambda said: None) -> Iterator[Unfinished]:
        if self.file.name == TRAJECTORIES:
            yield from unfinished(self.file.parent, unread)

    def _problem(self, number: int, line: bytes, error: RecordError) -> str:
        if line.endswith(b"\n") or _is_json(line):
            return f"Line {number} of {self.file.name} is not shown: {error}"
        return (
            f"The last line of {self.file.name} was cut short, as when the writer crashed or still writes; all lines "
            "before it are shown."
        )

    def count(self) -> int:
        """Return lines of the file, and episodes that have not ended."""
        return sum(1 for _ in self._lines()) + sum(1 for _ in self._unfinished())


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def open_run(path: Path) -> StoredRun:
    """Return the run in the folder `path`, or in the `.jsonl` file `path` with its media next to it.

    Raises:
        SettingsError: there is no such run.
    """
    file = path / TRAJECTORIES if path.is_dir() else path
    if not file.is_file() and not (path.is_dir() and journals(path)):
        raise SettingsError(
            f"{file} is not there. Give the folder of a run, which holds {TRAJECTORIES}, or a file of such lines."
        )
    if file.is_file():
        note_empty(file)
    media = file.parent / MEDIA
    run = StoredRun(file, MediaStore(media) if media.is_dir() else None)
    if run.store is None and b'"sha256"' in next(run._lines(), b""):
        run.problems.append(f"There is no folder {MEDIA} beside {file.name}: the page has no pictures.")
    return run


def wires_of(run: Path, sample: str, problems: list[str]) -> tuple[RequestTry, ...]:
    """Read the requests of `sample` that the folder `run` keeps; add to `problems` what cannot be read."""
    try:
        return tuple(read_requests(run, sample))
    except RecordError as error:
        problems.append(str(error))
        return ()
