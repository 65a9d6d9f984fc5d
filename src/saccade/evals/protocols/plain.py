"""Findings of any protocol as plain tables, from nothing but their stored form: for protocols of a user's own.

A value that counts (`Rate`), a `Mean` or a number is a line, by the name of its field; a mapping of them has a line for
each key; a list of records is a table with a column for each field. Rows of samples are not shown, nor is what the run
was: the report says that. Ids under `examples` are listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from saccade.evals.protocols.findings import Findings
from saccade.record.codec import dumps

_HIDDEN = frozenset({"schema_version", "about", "rows", "protocol"})
_RATE, _MEAN = frozenset({"count", "of"}), frozenset({"value", "samples", "low", "high"})
_LONGEST = 160
"""Characters of a text in a cell."""

Data: TypeAlias = Mapping[str, object]
"""Findings as JSON holds them."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table: heads, and rows of as many cells."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def plain_data(findings: Findings) -> Data:
    """Return findings as JSON holds them."""
    data = json.loads(dumps(findings))
    assert isinstance(data, dict)
    return data


def plain_lines(findings: Data) -> dict[str, str]:
    """Name -> value of everything that is one line."""
    return dict(_lines("", findings))


def plain_grids(findings: Data) -> tuple[TextTable, ...]:
    """Return the lists of records, each as a table."""
    return tuple(_grid(name, rows) for name, rows in _shown(findings) if _is_list_of_records(rows))


def _shown(data: Data) -> Iterator[tuple[str, object]]:
    return ((name, value) for name, value in data.items() if name not in _HIDDEN)


def _lines(before: str, data: Data) -> Iterator[tuple[str, str]]:
    for name, value in _shown(data):
        words = f"{before}{name.replace('_', ' ')}"
        if isinstance(value, Mapping) and not _is_number(value):
            yield from _lines(f"{words}: ", value)
        elif not _is_list_of_records(value):
            yield words, _text(value)


def _grid(name: str, rows: object) -> TextTable:
    assert isinstance(rows, Sequence)
    heads = tuple(dict.fromkeys(field for row in rows for field in row if field not in _HIDDEN))
    cells = tuple(tuple(_text(row.get(field)) for field in heads) for row in rows)
    return TextTable(name.replace("_", " "), tuple(head.replace("_", " ") for head in heads), cells)


def _is_list_of_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _is_number(value: Data) -> bool:
    return set(value) >= _RATE or set(value) == _MEAN


def _text(value: object) -> str:
    match value:
        case None | [] | "":
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.4g}"
        case {"count": int(count), "of": int(of), **more}:
            share = f"{100 * count / of:.1f} %" if of else "–"
            return f"{share}{_ends(more, 100)}, {count:,} of {of:,}"
        case {"value": int() | float() as mean, "samples": int(samples), **more}:
            return f"{mean:,.4g}{_ends(more, 1)}, {samples:,} samples"
        case list():
            return _cut(", ".join(map(_text, value)))
    return _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _ends(more: Mapping[Any, object], scale: float) -> str:
    low, high = more.get("low"), more.get("high")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return ""
    return f" ({scale * low:,.3g}–{scale * high:,.3g})"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
