"""Files of text as tables: JSON lines, TSV and CSV by the offset of a row, a JSON list as rows that stay in memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import DataError
from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.benchmarks.row_files import LONGEST_CELL, SourceRow, parsed, read_rows, reading
from saccade.tasks.sources.tables import RowPlace, as_row


@dataclass(frozen=True, slots=True)
class LineTable:
    """JSON lines, one object for each row."""

    file: Path

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        """See `RowTable`; blank lines are no rows."""
        at = number = 0
        with reading(self.file), self.file.open("rb") as lines:
            for line in lines:
                if line.strip():
                    yield RowPlace(number, at), self._row(line, number)
                    number += 1
                at += len(line)

    def read(self, place: RowPlace) -> SourceRow:
        row = self._row(line_at(self.file, place.at), place.number)
        if isinstance(row, RowProblem):
            raise DataError(f"{self.file} was changed while it was in use: {row}. Start again.")
        return row

    def _row(self, line: bytes, number: int) -> SourceRow | RowProblem:
        fields = parsed(line)
        if isinstance(fields, str):
            return RowProblem(self.file.name, number, "row", fields)
        return as_row(self.file, number, fields)


def line_at(file: Path, at: int) -> bytes:
    """The line that begins at that byte."""
    with reading(file), file.open("rb") as lines:
        lines.seek(at)
        return lines.readline()


@dataclass(frozen=True, slots=True)
class DelimitedTable:
    """TSV or CSV with a head; cells may hold line breaks in quotes."""

    file: Path
    delimiter: str

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        csv.field_size_limit(LONGEST_CELL)
        with reading(self.file), self.file.open("rb") as binary:
            names = self._head()
            lines = _Counted(binary)
            cells = csv.reader(lines, delimiter=self.delimiter)
            next(cells, None)
            number, at = 0, lines.read
            for row in cells:
                if row:
                    yield RowPlace(number, at), self._row(names, row, number)
                    number += 1
                at = lines.read

    def read(self, place: RowPlace) -> SourceRow:
        with reading(self.file), self.file.open("rb") as binary:
            binary.seek(place.at)
            cells = next(csv.reader(_Counted(binary), delimiter=self.delimiter), [])
            row = self._row(self._head(), cells, place.number)
        if isinstance(row, RowProblem):
            raise DataError(f"{self.file} was changed while it was in use: {row}. Start again.")
        return row

    def _head(self) -> list[str]:
        with self.file.open("rb") as binary:
            return next(csv.reader(_Counted(binary), delimiter=self.delimiter), [])

    def _row(self, names: list[str], cells: list[str], number: int) -> SourceRow | RowProblem:
        if len(cells) != len(names):
            wrong = f"it has {len(cells)} cells where the head has {len(names)}"
            return RowProblem(self.file.name, number, "row", wrong)
        return as_row(self.file, number, dict(zip(names, cells, strict=True)))


class _Counted:
    """The lines of a file as text, and how many bytes were read."""

    def __init__(self, binary: Any) -> None:
        self._binary, self.read = binary, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._binary:
            encoding = "utf-8" if self.read else "utf-8-sig"
            self.read += len(line)
            yield line.decode(encoding)


class HeldTable:
    """A JSON list or object of rows, each kept as its JSON."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._rows: list[bytes] = []

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        self._rows = []
        for number, row in enumerate(read_rows(self.file)):
            held = b"" if isinstance(row, RowProblem) else json.dumps(dict(row.fields)).encode()
            self._rows.append(held)
            yield RowPlace(number, number), row

    def read(self, place: RowPlace) -> SourceRow:
        return SourceRow(self.file.name, place.number, json.loads(self._rows[place.at]))
