"""Parquet and Arrow files as tables: a scan reads the columns without media, a row is read whole by its number.

Columns of bytes (a picture, `{bytes, path}`, a list of these) are left out of a scan; of a table inside a row only the
fields of bytes are. Numbers of a Hugging Face `ClassLabel` become its names. A parquet file gives its rows in groups:
to read one row, its group is read up to it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from saccade.errors import DataError
from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow, load_pyarrow, open_parquet, reading
from saccade.tasks.sources.tables import UNREAD, RowPlace, as_row

_LIGHT, _HEAVY = 4096, 16
"""Rows in memory together, without media and with them."""


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
    """The names of the numbers in columns that Hugging Face calls `ClassLabel`."""
    try:
        metadata = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = metadata["info"]["features"]
        return {name: kind["names"] for name, kind in features.items() if kind.get("_type") == "ClassLabel"}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # written by another program


def named(fields: Mapping[str, Any], labels: Mapping[str, list[str]]) -> dict[str, Any]:
    """A row with names in place of the numbers of labels."""
    row = dict(fields)
    for name, names in labels.items():
        number = row.get(name)
        if isinstance(number, int) and 0 <= number < len(names):
            row[name] = names[number]
    return row


def _columns(schema: Any) -> tuple[list[str], list[str]]:
    """The names of the columns and inner fields without bytes, and of the columns that a scan leaves out."""
    light: list[str] = []
    heavy: list[str] = []
    for field in schema:
        inner = _inner_fields(field.type) if _holds_bytes(field.type) else None
        if inner is None:
            light.append(field.name)
        elif _is_picture(inner) or not (leaves := _leaves(field)):
            heavy.append(field.name)
        else:
            light += leaves
    return light, heavy


def _inner_fields(kind: Any) -> dict[str, Any]:
    """The fields of a table inside a row by their names; none of anything else."""
    pyarrow, _ = load_pyarrow()
    return {field.name: field for field in kind} if pyarrow.types.is_struct(kind) else {}


def _is_picture(inner: Mapping[str, Any]) -> bool:
    return "bytes" in inner


def _leaves(field: Any) -> list[str]:
    """The dotted names of what is in a table inside a row, without what holds bytes."""
    names = []
    for name, inner in _inner_fields(field.type).items():
        if not _holds_bytes(inner.type):
            names.append(f"{field.name}.{name}")
    return names


def _holds_bytes(kind: Any) -> bool:
    pyarrow, _ = load_pyarrow()
    types = pyarrow.types
    if types.is_struct(kind):
        return any(_holds_bytes(kind.field(number).type) for number in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _holds_bytes(kind.value_type)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))
