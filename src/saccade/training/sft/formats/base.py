"""Define formats of training data: trajectories in, trajectories out, and a reason for every row that is not.

A format never drops a row silently. What cannot be read, or would not be read back as it was written, is `Refused`
with its reason.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pydantic import NonNegativeInt

from saccade.core.disk import new_folder
from saccade.core.registry import Registry, has_members
from saccade.media.store import MediaStore
from saccade.record.codec import write_lines
from saccade.record.content import Record, Text
from saccade.record.trajectory import Trajectory
from saccade.training.sft.curate.pipeline import Media


class Refused(Record):
    """A row that was not converted."""

    row: NonNegativeInt
    """Its number in the source, from 0."""
    id: Text = ""
    """Its id, where it has one that could be read."""
    reason: Text


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """The options of a conversion."""

    dialect: str | None = None
    """Dialect in which the turns of rows are read that name none, and in which tasks that were not played are asked."""
    images: Path | None = None
    """Folder to which paths of pictures in rows are relative; by default that of the file."""
    root: str = ""
    """Prefix of the paths of pictures, such as the folder where a trainer will find the data."""


@dataclass(frozen=True, slots=True)
class TrajectorySource:
    """Trajectories that can be read, and where their media are once they were read."""

    rows: Iterator[Trajectory | Refused]
    media: Media


class Format(Protocol):
    """A file format for trajectories, read and written."""

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        """Return the trajectories of a file or folder; media that are not in a store yet are put into `store`.

        Raises `RecordError`: there is no such file; `SettingsError`: a dialect is needed and none is given;
        `UnavailableError`: what reads the file is not installed.
        """

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        """Write to an existing, empty folder; the rows that the format cannot hold, by their number."""


# Formats by name. Other packages add theirs by an entry point of the group `saccade.formats`.


FORMATS: Final = Registry[Format](
    "formats",
    {
        "pyvision@1": "saccade.training.sft.formats.pyvision:FORMAT",
        "pyvision-rl@1": "saccade.training.sft.formats.pyvision:PYVISION_RL_FORMAT",
        "saccade@1": "saccade.training.sft.formats.files:FORMAT",
        "sharegpt@1": "saccade.training.sft.formats.chat:FORMAT",
        "swift@1": "saccade.training.sft.formats.chat:SWIFT_FORMAT",
        "thyme@1": "saccade.training.sft.formats.thyme:CONVERTED",
        "thyme-base64@1": "saccade.training.sft.formats.thyme:RAW",
        "verl@1": "saccade.training.sft.formats.pyvision:VERL_FORMAT [data]",
    },
    has_members(name for name in vars(Format) if not name.startswith("_")),
)


def load_format(name: str) -> Format:
    """Load the format that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises `RegistryError`: nothing has that name (suggests the nearest), or it is no format.
    """
    return FORMATS.load(name)


# From one format to another: a folder that appears complete or not at all, and every row that was left behind.


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

    Rows that cannot be converted are listed in `refused.jsonl` next to the others, with the reason. Raises
    `RecordError`: `source` cannot be read, or `target` exists; `UnavailableError`: a format needs what is not
    installed; `MissingMediaError`: a run names media that its store does not hold.
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
        """Yield those that could be read."""
        for item in self._rows:
            self.read += 1
            self._on_row()
            if isinstance(item, Refused):
                self.refused.append(item)
            else:
                self.numbers.append(self.read - 1)
                yield item
