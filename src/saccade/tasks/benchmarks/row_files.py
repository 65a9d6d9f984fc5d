"""Files of rows as streams: TSV, JSON lines, a JSON list, a JSON object of rows, parquet.

A row that cannot be read is a `RowProblem` in its place; a file that cannot be read at all raises. JSON lists and
objects are in memory as a whole, everything else a few rows at a time.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from saccade.core.plugins import install
from saccade.errors import DataError, UnavailableError
from saccade.record.base import clean_text

# Read values of a row by the names in cards, and turn them into texts.
#
# A card names a field in one of these ways; of several names the first that has a value counts.
#
#     question             the field of that name
#     metadata.split       a field inside a field; inside a list of tables that field of each of them, as a list
#     tables/{id}.png      a text with fields put into it; it has a value only if all of them have
#     coco/{id:012}.jpg    the same, the field filled up with zeros to so many signs
#     image_#              the fields image_1, image_2, ... that have a value, as a list (from 1, or from 0)
#
# Loaders add `_row` (number in its file), `_file` (the file's name without its suffix), `_folder` (the name of the
# folder it is in), `_above` (the name of the folder above that) and, where rows have keys, `_key`.

_SHORT = 120


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that gives no task; a benchmark with broken rows is still read, but none is dropped silently."""

    file: str
    """Name of the file that holds it; empty for rows that come from no file."""
    row: int
    """Its number in that file, from 0."""
    field: str
    """The unreadable field of the task or row; `row` if all of it."""
    reason: str

    def __str__(self) -> str:
        """Say it to a person: rows count from 1, without a head and blank lines."""
        return f"{self.file or 'rows'}, row {self.row + 1}, {self.field}: {self.reason.rstrip('.')}"


class FieldError(DataError):
    """A field of a task cannot be read from a row; loaders turn it into a `RowProblem`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def short(value: object) -> str:
    """Shorten a value for a message."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


RowFields = Mapping[str, Any]
"""A row as its source names its fields."""

_SLOT = re.compile(r"\{([^{}]+)\}")
_MOST_NUMBERED = 100
_EMPTIABLE = (bytes, list, tuple, dict)


def first_value(fields: RowFields, names: Sequence[str]) -> Any:
    """Return the value of the first name that has one, or None."""
    for name in names:
        value = fields[name] if name in fields else _named(fields, name)
        if not missing(value):
            return value
    return None


def missing(value: object) -> bool:
    """Tell whether a value is missing: null, an empty text or list, or NaN."""
    if isinstance(value, str):  # first, since most are
        return not value
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (not value and isinstance(value, _EMPTIABLE))


def as_text(value: object, field: str) -> str:
    """Return a value as text: whole numbers without a point, truth as yes or no, lists as a JSON array of texts. Raises
    `FieldError` if it is neither text, number nor a list of these.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list | tuple):
        return json.dumps([_item(item, field) for item in value], ensure_ascii=False)
    return _item(value, field)


def as_list(value: object) -> list[Any]:
    """Return a list as it is; anything else as the only item of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def list_in_text(text: str) -> list[Any] | None:
    """Return the list that a text writes as JSON or as Python does; None if it writes none."""
    return next((value for value in _written(text) if isinstance(value, list)), None)


def mapping_in_text(text: str) -> dict[Any, Any] | None:
    """Return the mapping that a text writes as JSON or as Python does; None if it writes none."""
    return next((value for value in _written(text) if isinstance(value, dict)), None)


def _written(text: str) -> Iterator[object]:
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            yield read(text.strip())


def matches(fields: RowFields, conditions: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether each named field has one of the given values, as texts; an empty one means no value."""
    for name, values in conditions.items():
        value = first_value(fields, (name,))
        try:
            text = "" if value is None else as_text(value, name)
        except FieldError:
            return False
        if not any(text == pattern or ("*" in pattern and fnmatchcase(text, pattern)) for pattern in values):
            return False
    return True


def _item(value: object, field: str) -> str:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    raise FieldError(field, f"{short(value)} is neither text nor number")


def _named(fields: RowFields, name: str) -> Any:
    if name.endswith("#"):
        return _numbered(fields, name[:-1])
    if "{" in name:
        return _filled(fields, name)
    value: Any = fields
    for step in name.split("."):
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            value = [item[step] for item in value if not missing(item.get(step))]
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            return None
    return value


def _numbered(fields: RowFields, stem: str) -> list[Any]:
    values = (fields.get(f"{stem}{number}") for number in range(_MOST_NUMBERED))
    return [value for value in values if not missing(value)]


def _filled(fields: RowFields, template: str) -> str | None:
    slots = {slot: slot.partition(":") for slot in _SLOT.findall(template)}
    values = {slot: first_value(fields, (name,)) for slot, (name, _, _) in slots.items()}
    if any(value is None for value in values.values()):
        return None

    def put(match: re.Match[str]) -> str:
        name, _, width = slots[match[1]]
        return as_text(values[match[1]], name).zfill(int(width) if width.isdecimal() else 0)

    return _SLOT.sub(put, template)


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
