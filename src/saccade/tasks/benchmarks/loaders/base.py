"""What a loader is: files in a folder become rows; cards and the rest of the code make tasks of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow


class Loader(Protocol):
    """Reads data sets of one layout."""

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        """The files of the data set in `folder`, in the order in which they are read; none if it is not there."""
        ...

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        """Their rows, always in the same order; a row that cannot be read is a problem in its place.

        Raises:
            DataError: a file as a whole cannot be read.
            UnavailableError: what reads it is not installed.
        """
        ...

    def count(self, files: tuple[Path, ...]) -> int:
        """How many rows there are, for a progress bar. Raises as `rows`."""
        ...


def first_match(folder: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """All files of the first pattern that matches any, sorted by their path."""
    for pattern in patterns:
        files = sorted(path for path in folder.glob(pattern) if path.is_file())
        if files:
            return tuple(files)
    return ()
