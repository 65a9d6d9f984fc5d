"""A run as it lies on disk: its trajectories, its media, and what of it could not be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.trajectory import Trajectory


@dataclass
class StoredRun:
    """A file of trajectories and the folder of media beside it. `problems` grows while it is read."""

    file: Path
    store: MediaStore | None
    problems: list[str] = field(default_factory=list)
    """What could not be read, for a person."""

    def trajectories(self) -> Iterator[Trajectory]:
        """Every trajectory that can be read, in the order of the file."""
        with self.file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    yield loads(line, Trajectory)
                except RecordError as error:
                    self.problems.append(self._problem(number, line, error))

    def _problem(self, number: int, line: bytes, error: RecordError) -> str:
        if line.endswith(b"\n") or _is_json(line):
            return f"Line {number} of {self.file.name} is not shown: {error}"
        return (
            f"The last line of {self.file.name} was cut short, as when the writer crashed or still writes; all lines "
            "before it are shown."
        )

    def count(self) -> int:
        """Lines of the file."""
        with self.file.open("rb") as lines:
            return sum(1 for _ in lines)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def open_run(path: Path) -> StoredRun:
    """The run in the folder `path`, or in the `.jsonl` file `path` with its media beside it.

    Raises:
        SettingsError: there is no such run.
    """
    file = path / TRAJECTORIES if path.is_dir() else path
    if not file.is_file():
        raise SettingsError(
            f"{file} is not there. Give the folder of a run, which holds {TRAJECTORIES}, or a file of such lines."
        )
    media = file.parent / MEDIA
    return StoredRun(file, MediaStore(media) if media.is_dir() else None)
