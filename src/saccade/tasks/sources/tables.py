"""Files of rows that can be read one by one: a scan that leaves pictures where they are, then any row by its place.

    table = open_table(Path("rows.jsonl"))                   # open_table.py
    places = [place for place, row in table.scan() if isinstance(row, SourceRow)]
    row = table.read(places[7])

A place says which row it is (from 0) and where it lies. JSON lines, TSV and CSV are read again at their offset
(`text_tables.py`), parquet and Arrow by their number (`columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow


class RowPlace(NamedTuple):
    """Where a row is."""

    number: int
    """Among the rows of its file, from 0."""
    at: int
    """Where it begins, in bytes; for tables in memory and columns its number again."""


class RowTable(Protocol):
    """The rows of one file."""

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        """All rows in order; a value that holds pictures may be `UNREAD`.

        Raises:
            DataError: the file as a whole cannot be read.
            UnavailableError: what reads it is not installed.
        """

    def read(self, place: RowPlace) -> SourceRow:
        """The whole row there. Raises `DataError` if the file is another one now."""


class _Unread:
    """Stands for a value that a scan did not read."""

    def __repr__(self) -> str:
        return "(not read yet)"


UNREAD: Final = _Unread()


@lru_cache(64)
def _about(file: Path) -> tuple[str, str, str, str]:
    return file.name, file.stem, file.parent.name, file.parent.parent.name


def as_row(file: Path, number: int, fields: Mapping[str, Any]) -> SourceRow:
    """A row with what `read_rows` adds to it."""
    name, stem, folder, above = _about(file)
    return SourceRow(name, number, {**fields, "_row": number, "_file": stem, "_folder": folder, "_above": above})
