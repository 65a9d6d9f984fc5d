"""Files of rows as streams: TSV, JSON lines, a JSON list, a JSON object of rows, parquet.

A row that cannot be read is a `RowProblem` in its place; a file that cannot be read at all raises. JSON lists and
objects are in memory as a whole, everything else a few rows at a time.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from saccade.core.plugins import install
from saccade.errors import DataError, UnavailableError
from saccade.tasks.benchmarks.values import RowProblem

_GROUP = 32
"""Rows of a parquet file in memory together; a row can hold a picture of many megabytes."""
LONGEST_CELL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of a source."""

    file: str
    number: int
    fields: Mapping[str, Any]

    def problem(self, field: str, reason: str) -> RowProblem:
        """Return what is wrong with it."""
        return RowProblem(self.file, self.number, field, reason)


def read_rows(file: Path) -> Iterator[SourceRow | RowProblem]:
    """Yield the rows of a file by its suffix: `.tsv`, `.jsonl`, `.json` or `.parquet`, in their order.

    Raises:
        DataError: the file as a whole cannot be read.
        UnavailableError: it is parquet, and pyarrow is not installed.
    """
    for number, raw in enumerate(_READERS.get(file.suffix.lower(), _unknown)(file)):
        if isinstance(raw, str):
            yield RowProblem(file.name, number, "row", raw)
        else:
            place = {"_file": file.stem, "_folder": file.parent.name, "_above": file.parent.parent.name}
            yield SourceRow(file.name, number, {**raw, "_row": number, **place})


def count_rows(file: Path) -> int:
    """Return how many rows `read_rows` gives, broken ones included; of text files found by reading them.

    Raises the same.
    """
    if file.suffix.lower() == ".parquet":
        with open_parquet(file) as table:
            return int(table.metadata.num_rows)
    return sum(1 for _ in _READERS.get(file.suffix.lower(), _unknown)(file))


def load_pyarrow() -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        UnavailableError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UnavailableError(f"parquet files need pyarrow: {install('data')}") from error
    return pyarrow, parquet


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn what libraries raise about a file into a `DataError`."""
    try:
        yield
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise DataError(f"{file} cannot be read: {error}. Download it again, or name another.") from error


def _read_tsv(file: Path) -> Iterator[dict[str, Any] | str]:
    # The limit is the module's own and small; a cell of these files holds a whole picture as base64.
    csv.field_size_limit(LONGEST_CELL)
    with reading(file), file.open(encoding="utf-8-sig", newline="") as text:
        lines = csv.reader(text, delimiter="\t")
        names = next(lines, None)
        if names is None:
            return
        for cells in lines:
            if len(cells) == len(names):
                yield dict(zip(names, cells, strict=True))
            elif cells:
                yield f"it has {len(cells)} cells where the head has {len(names)}"


def _read_jsonl(file: Path) -> Iterator[dict[str, Any] | str]:
    with reading(file), file.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield parsed(line)


def parsed(line: bytes) -> dict[str, Any] | str:
    """Return the row of a JSON line, or what is wrong with it."""
    try:
        row = _loaded(line)
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} of its line ({line[error.start]:#04x}) is no UTF-8. Save the file as UTF-8"
    except (ValueError, RecursionError) as error:
        return f"it is no JSON: {error}"
    return row if isinstance(row, dict) else "it is no JSON object"


def _loaded(line: bytes) -> Any:
    """Read a JSON text: by the fast reader, or by Python's where that refuses it (lone surrogates, NaN)."""
    try:
        return from_json(line)
    except ValueError:
        return json.loads(line)


def _read_json(file: Path) -> Iterator[dict[str, Any] | str]:
    with reading(file):
        data = json.loads(file.read_bytes())
    if isinstance(data, dict) and not all(isinstance(row, dict) for row in data.values()):
        data = next((rows for rows in data.values() if isinstance(rows, list)), None)
    if isinstance(data, dict):
        yield from ({**row, "_key": key} for key, row in data.items())
    elif isinstance(data, list):
        yield from (row if isinstance(row, dict) else "it is no JSON object" for row in data)
    else:
        raise DataError(f"{file} holds neither a list nor an object of rows. Name another file.")


def _read_parquet(file: Path) -> Iterator[dict[str, Any] | str]:
    with open_parquet(file) as table:
        for batch in table.iter_batches(batch_size=_GROUP):
            yield from batch.to_pylist()


@contextmanager
def open_parquet(file: Path) -> Iterator[Any]:
    """An open parquet file."""
    pyarrow, parquet = load_pyarrow()
    with reading(file):
        try:
            with parquet.ParquetFile(file) as table:
                yield table
        except pyarrow.ArrowException as error:
            raise ValueError(str(error)) from error


def _unknown(file: Path) -> Iterator[dict[str, Any] | str]:
    raise DataError(f"{file} is of an unknown kind; rows are read from {', '.join(_READERS)}")


_READERS = {".tsv": _read_tsv, ".jsonl": _read_jsonl, ".json": _read_json, ".parquet": _read_parquet}
