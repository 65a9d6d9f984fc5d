"""Read files of rows: scan all rows without their pictures, then read any row by its place.

    table = LineTable(Path("rows.jsonl"))
    places = [place for place, row in table.scan() if isinstance(row, SourceRow)]
    row = table.read(places[7])

A place is the row's number (from 0) and its position: a byte offset for JSON lines, TSV and CSV, the number again for
parquet and Arrow.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from saccade.errors import DataError
from saccade.tasks.benchmarks.row_files import (
    SourceRow,
    load_pyarrow,
    open_parquet,
    parsed,
    read_rows,
    reading,
)
from saccade.tasks.benchmarks.values import RowProblem


class RowPlace(NamedTuple):
    """The place of a row."""

    number: int
    """Among the rows of its file, from 0."""
    at: int
    """Byte offset; for tables in memory and columns the number again."""


class RowTable(Protocol):
    """The rows of one file."""

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        """Yield all rows in order; a value that holds pictures may be `UNREAD`.

        Raises:
            DataError: the file as a whole cannot be read.
            UnavailableError: what reads it is not installed.
        """

    def read(self, place: RowPlace) -> SourceRow:
        """Read the whole row. Raises `DataError` if the file has changed."""


class _Unread:
    """Placeholder of a value that a scan did not read."""

    def __repr__(self) -> str:
        return "(not read yet)"


UNREAD: Final = _Unread()


@lru_cache(64)
def _about(file: Path) -> tuple[str, str, str, str]:
    return file.name, file.stem, file.parent.name, file.parent.parent.name


def as_row(file: Path, number: int, fields: Mapping[str, Any]) -> SourceRow:
    """Make a row with the fields that `read_rows` adds."""
    name, stem, folder, above = _about(file)
    return SourceRow(name, number, {**fields, "_row": number, "_file": stem, "_folder": folder, "_above": above})


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
    """Read the line that begins at this byte."""
    with reading(file), file.open("rb") as lines:
        lines.seek(at)
        return lines.readline()


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


# Parquet and Arrow: a scan leaves out columns of bytes (a picture, `{bytes, path}`, a list of these) and, in a struct,
# its fields of bytes. To read one parquet row, its row group is read up to it.

_LIGHT, _HEAVY = 4096, 16
"""Rows per batch, without media and with them."""


class ParquetTable:
    """One parquet file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        with open_parquet(self.file) as table:
            light, heavy = _columns(table.schema_arrow)
            labels = class_labels(table.schema_arrow)
            number = 0
            for batch in table.iter_batches(batch_size=_LIGHT, columns=light):
                for fields in batch.to_pylist():
                    cells = {**named(fields, labels), **dict.fromkeys(heavy, UNREAD)}
                    yield RowPlace(number, number), as_row(self.file, number, cells)
                    number += 1

    def read(self, place: RowPlace) -> SourceRow:
        group = bisect_right(self._starts, place.at) - 1
        left = place.at - self._starts[group]
        with open_parquet(self.file) as table:
            for batch in table.iter_batches(batch_size=_HEAVY, row_groups=[group]):
                if left < batch.num_rows:
                    (fields,) = batch.slice(left, 1).to_pylist()
                    return as_row(self.file, place.number, named(fields, class_labels(table.schema_arrow)))
                left -= batch.num_rows
        raise DataError(f"{self.file} was changed while it was in use: it has no row {place.number + 1}. Start again.")

    @cached_property
    def _starts(self) -> list[int]:
        """Number of the first row of each group."""
        with open_parquet(self.file) as table:
            sizes = [table.metadata.row_group(number).num_rows for number in range(table.metadata.num_row_groups)]
        return [0, *accumulate(sizes)][:-1]


class ArrowTable:
    """One file of a data set that `datasets` saved to the disk; mapped into memory, not read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        table = self._table
        light, heavy = _columns(table.schema)
        labels = class_labels(table.schema)
        mixed = {name.partition(".")[0] for name in light if name not in table.schema.names}
        number = 0
        # Of a column that is in memory already, inner fields cannot be left out: then few rows at once.
        plain = [name for name in table.schema.names if name not in heavy]
        for batch in table.select(plain).to_batches(max_chunksize=_HEAVY if mixed else _LIGHT):
            for fields in batch.to_pylist():
                cells = {**named(fields, labels), **dict.fromkeys(heavy, UNREAD)}
                yield RowPlace(number, number), as_row(self.file, number, cells)
                number += 1

    def read(self, place: RowPlace) -> SourceRow:
        (fields,) = self._table.slice(place.at, 1).to_pylist()
        return as_row(self.file, place.number, named(fields, class_labels(self._table.schema)))

    @cached_property
    def _table(self) -> Any:
        pyarrow, _ = load_pyarrow()
        with reading(self.file):
            try:
                return pyarrow.ipc.open_stream(pyarrow.memory_map(str(self.file))).read_all()
            except pyarrow.ArrowException as error:
                raise ValueError(str(error)) from error


def class_labels(schema: Any) -> dict[str, list[str]]:
    """Return the class names of Hugging Face `ClassLabel` columns."""
    try:
        metadata = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = metadata["info"]["features"]
        return {name: kind["names"] for name, kind in features.items() if kind.get("_type") == "ClassLabel"}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # written by another program


def named(fields: Mapping[str, Any], labels: Mapping[str, list[str]]) -> dict[str, Any]:
    """Replace label numbers by their names."""
    row = dict(fields)
    for name, names in labels.items():
        number = row.get(name)
        if isinstance(number, int) and 0 <= number < len(names):
            row[name] = names[number]
    return row


def _columns(schema: Any) -> tuple[list[str], list[str]]:
    """Return the columns and inner fields that a scan reads, and the columns that it leaves out."""
    light: list[str] = []
    heavy: list[str] = []
    for field in schema:
        inner = _inner_fields(field.type) if _holds_bytes(field.type) else None
        if inner is None:
            light.append(field.name)
        elif "bytes" in inner or not (leaves := _leaves(field)):
            heavy.append(field.name)
        else:
            light += leaves
    return light, heavy


def _inner_fields(kind: Any) -> dict[str, Any]:
    """Return the fields of a struct by name; none for other types."""
    pyarrow, _ = load_pyarrow()
    return {field.name: field for field in kind} if pyarrow.types.is_struct(kind) else {}


def _leaves(field: Any) -> list[str]:
    """Return the dotted names of a struct's fields without bytes."""
    inner = _inner_fields(field.type).items()
    return [f"{field.name}.{name}" for name, value in inner if not _holds_bytes(value.type)]


def _holds_bytes(kind: Any) -> bool:
    pyarrow, _ = load_pyarrow()
    types = pyarrow.types
    if types.is_struct(kind):
        return any(_holds_bytes(kind.field(number).type) for number in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _holds_bytes(kind.value_type)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))
