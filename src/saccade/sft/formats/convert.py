"""From one format to another: a folder that appears complete or not at all, and every row that was left behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from saccade.media.store import MediaStore
from saccade.record.codec import write_lines
from saccade.record.disk import new_folder
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.base import ConversionOptions, Format, Refused

REFUSED = "refused.jsonl"
_SCRATCH = ".media-read"


@dataclass(frozen=True, slots=True)
class Converted:
    """How a conversion went."""

    read: int
    """Rows of the source."""
    written: int
    refused: tuple[Refused, ...]
    """In order of their rows."""


def convert(
    source: Path,
    target: Path,
    formats: tuple[Format, Format],
    options: ConversionOptions,
    on_row: Callable[[], None] = lambda: None,
) -> Converted:
    """Write what `source` holds to `target`, a new folder, from the first of `formats` to the second.

    Rows that cannot be converted are listed in `refused.jsonl` beside the others, with the reason.

    Raises:
        RecordError: `source` cannot be read, or `target` exists.
        UnavailableError: a format needs what is not installed.
        MissingMediaError: a run names media that its store does not hold.
    """
    reading, writing = formats
    with new_folder(target) as folder:
        scratch = folder / _SCRATCH
        opened = reading.read(source, options, MediaStore(scratch))
        rows = _Rows(opened.rows, on_row)
        unwritten = writing.write(rows.trajectories(), opened.media, folder, options)
        later = [item.model_copy(update={"row": rows.numbers[item.row]}) for item in unwritten]
        refused = tuple(sorted((*rows.refused, *later), key=lambda item: item.row))
        if refused:
            write_lines(folder / REFUSED, refused)
        shutil.rmtree(scratch, ignore_errors=True)
    return Converted(rows.read, rows.read - len(refused), refused)


class _Rows:
    """The rows of a source while they pass."""

    def __init__(self, rows: Iterator[Trajectory | Refused], on_row: Callable[[], None]) -> None:
        self._rows, self._on_row = rows, on_row
        self.read = 0
        self.refused: list[Refused] = []
        self.numbers: list[int] = []
        """Row of each trajectory that was given on."""

    def trajectories(self) -> Iterator[Trajectory]:
        """Those that could be read."""
        for item in self._rows:
            self.read += 1
            self._on_row()
            if isinstance(item, Refused):
                self.refused.append(item)
            else:
                self.numbers.append(self.read - 1)
                yield item
