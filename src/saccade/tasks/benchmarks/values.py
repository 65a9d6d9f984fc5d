"""Read values of a row by the names in cards, and turn them into texts.

A card names a field in one of these ways; of several names the first that has a value counts.

    question             the field of that name
    metadata.split       a field inside a field; inside a list of tables that field of each of them, as a list
    tables/{id}.png      a text with fields put into it; it has a value only if all of them have
    coco/{id:012}.jpg    the same, the field filled up with zeros to so many signs
    image_#              the fields image_1, image_2, ... that have a value, as a list (from 1, or from 0)

Loaders add `_row` (number in its file), `_file` (the file's name without its suffix), `_folder` (the name of the folder
it is in), `_above` (the name of the folder above that) and, where rows have keys, `_key`.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from saccade.errors import DataError
from saccade.record.base import clean_text

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
