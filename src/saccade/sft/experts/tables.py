"""Reading a table off the lines that OCR gives, and working out what the questions of tables ask.

The wordings are those of the worlds `table-arithmetic` and `form-page`; a question of another one has no answer here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from statistics import median
from typing import Any, Final

TextRow = list[str]
_NUMBER: Final = re.compile(r"\$?-?\d[\d,]*(?:\.\d+)?%?")
Rows = Sequence[TextRow]


def number_in(text: str) -> float | None:
    """The number that a text is, with its signs of thousands and of money left out; None if it is none."""
    bare = text.replace(" ", "")
    return float(re.sub(r"[$,%]", "", bare)) if _NUMBER.fullmatch(bare) else None


def text_rows(lines: Sequence[Mapping[str, Any]]) -> list[TextRow]:
    """The texts of lines (`text`, `box`) in rows from top to bottom, each from left to right."""
    rows: list[list[Mapping[str, Any]]] = []
    for line in sorted(lines, key=lambda item: item["box"][1] + item["box"][3]):
        middle = (line["box"][1] + line["box"][3]) / 2
        last = rows[-1][-1]["box"] if rows else None
        if last is not None and last[1] < middle < last[3]:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [[str(item["text"]) for item in sorted(row, key=lambda item: item["box"][0])] for row in rows]


def answer_of(question: str, rows: Rows) -> str | None:
    """What a question about a table comes to; None where the rows do not say it, or the wording is unknown."""
    for pattern, work_out in _QUESTIONS:
        if found := re.search(pattern, question):
            try:
                return work_out(rows, *found.groups())
            except (LookupError, ValueError, ZeroDivisionError):
                return None
    return None


def _value(rows: Rows, label: str) -> float:
    """The number in the row of a label. Raises LookupError if there is none."""
    return _numbers_of(rows, label)[-1]


def _numbers_of(rows: Rows, label: str) -> list[float]:
    valued = {row[0]: row for row in rows if len(row) > 1 and _numbers(row)}
    close = get_close_matches(label, valued, 1, 0.7)
    return _numbers(valued[close[0]])


def _numbers(row: TextRow) -> list[float]:
    return [value for value in map(number_in, row[1:]) if value is not None]


def _column(rows: Rows) -> list[float]:
    return [value for row in rows for value in _numbers(row)]


def _shown(value: float) -> str:
    return f"{value:.6g}"


def _two(work_out: Callable[[float, float], float]) -> Callable[..., str]:
    return lambda rows, a, b: _shown(work_out(_value(rows, a), _value(rows, b)))


def _of_all(rows: Rows, kind: str) -> str:
    values = _column(rows)
    return _shown(
        {"mean": sum(values) / len(values), "range": max(values) - min(values), "median": median(values)}[kind]
    )


def _most(rows: Rows, word: str) -> str:
    values = {row[0]: _numbers(row)[-1] for row in rows if _numbers(row)}
    return (max if word == "most" else min)(values, key=lambda label: values[label])


def _part(rows: Rows, label: str) -> str:
    return str(Fraction(int(_value(rows, label)), int(sum(_column(rows)))))


def _chance(rows: Rows, label: str, column: str) -> str:
    head = next(row for row in rows if column in row and not _numbers(row))
    return str(Fraction(int(_numbers_of(rows, label)[head.index(column) - 1]), int(sum(_column(rows)))))


def _price(rows: Rows, pieces: str, first: str, second: str) -> str:
    return f"{int(pieces) * _value(rows, first) + _value(rows, second):.2f}"


def _field(rows: Rows, label: str) -> str:
    named = {row[0].casefold(): row[1] for row in rows if len(row) == 2}
    return named[get_close_matches(label.casefold(), named, 1, 0.8)[0]]


def _of_goods(work_out: Callable[[float, float], str]) -> Callable[..., str]:
    """With the pieces and the price of a line of goods."""
    return lambda rows, label: work_out(*_numbers_of(rows, label))


def _lines(rows: Rows) -> str:
    head = next(place for place, row in enumerate(rows) if "pieces" in map(str.casefold, row))
    return str(len(rows) - head - 1)


def _at_least(rows: Rows, limit: str) -> str:
    return str(sum(value >= int(limit) for value in _column(rows)))


_QUESTIONS: Final[tuple[tuple[str, Callable[..., str]], ...]] = (
    (r"do (.+) and (.+) have together", _two(lambda a, b: a + b)),
    (r"are there for (.+) than for (.+)\?", _two(lambda a, b: a - b)),
    (r"the (mean|range|median) of", _of_all),
    (r"per year between (.+) and (.+)\?", _two(lambda a, b: b - a)),
    (r"at least (\d+)", _at_least),
    (r"has the (most|fewest)", _most),
    (r"belongs to the row (.+) and the column (.+)\? Give", _chance),
    (r"belongs to (.+)\? Give", _part),
    (r"What is the (.+) on this page\?", _field),
    (r"Which (.+) does the page give\?", _field),
    (r"lines of goods does the page list", _lines),
    (r"many pieces of (.+) does the page list", _of_goods(lambda pieces, price: _shown(pieces))),
    (r"one piece of (.+) cost", _of_goods(lambda pieces, price: f"{price:.2f}")),
    (r"all listed pieces of (.+) cost", _of_goods(lambda pieces, price: f"{pieces * price:.2f}")),
    (r"do (\d+) pieces of (.+) and one of (.+) cost", _price),
)
