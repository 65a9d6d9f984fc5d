"""What a format of training data is: trajectories in, trajectories out, and a reason for every row that is not.

A format never drops a row silently. What cannot be read, or would not be read back as it was written, is `Refused`
with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import NonNegativeInt

from saccade.media.store import MediaStore
from saccade.record.base import Record, Text
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import Media


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
    """What is written before the paths of pictures, such as the folder where a trainer will find the data."""


@dataclass(frozen=True, slots=True)
class TrajectorySource:
    """Trajectories that can be read, and where their media lie once they were read."""

    rows: Iterator[Trajectory | Refused]
    media: Media


class Format(Protocol):
    """A file format for trajectories, read and written."""

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        """The trajectories of a file or folder; media that are not in a store yet are put into `store`.

        Raises:
            RecordError: there is no such file.
            SettingsError: a dialect is needed and none is given.
            UnavailableError: what reads the file is not installed.
        """

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        """Write to an existing, empty folder; the rows that the format cannot hold, by their number."""
