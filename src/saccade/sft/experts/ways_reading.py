"""Use tools that read: words, tables, charts."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from saccade.sft.experts.plays import ExpertPart, Move
from saccade.sft.experts.seen import Seen
from saccade.sft.experts.tables import TextRow, answer_of, number_in, text_rows
from saccade.sft.experts.tool_ways import Consulted, Consulting, ToolStrategy, is_world, named_picture, result_of, use
from saccade.sft.experts.windows import around

_MEASURED: Final = 0.01
"""By how much of a chart's largest value one that was measured may differ from the step of the axis that it means."""
_CHARTS: Final = ("chart-bar", "chart-line", "chart-pie")
_ROWS: Final = ("field", "pieces", "price", "cost")
"""Kinds of questions about a form that one row of it answers."""
_OF_LABELS: Final = (
    r"for (.+) larger than for (.+)\?",
    r"for (.+) and (.+)\?",
    r"share of (.+) larger than that of (.+)\?",
    r"for (.+) in this chart\?",
    r"for (.+)\?",
    r"whole is (.+)\?",
)
Values = Mapping[str, float]
"""Label -> value of the series that is asked about."""


def _word(part: ExpertPart) -> Consulting:
    seen = yield from use(part, "ocr", named_picture(part))
    return Consulted(str(result_of(seen)["text"]), 1)


def _cut_word(part: ExpertPart) -> Consulting:
    seen = yield from _cut_and_read(part)
    return Consulted(str(result_of(seen)["text"]), 2)


def _cut_row(part: ExpertPart) -> Consulting:
    seen = yield from _cut_and_read(part)
    return Consulted(answer_of(part.scene.task.question, text_rows(result_of(seen)["lines"])), 2)


def _cut_and_read(part: ExpertPart) -> Generator[Move, Seen, Seen]:
    """Cut the evidence out, and read the picture that comes back."""
    scene = part.scene
    name, box, _ = scene.evidence[0]
    picture = scene.pictures[name]
    cut = around(scene.rng, box, (picture.width, picture.height))
    yield from use(part, "crop", {"image": scene.shown_as[name], "box": list(cut), "scale": 2})
    # The next number: the pictures of the question come first.
    return (yield from use(part, "ocr", {"image": f"{scene.opening.label}{scene.opening.pictures}"}, "then"))


def _table(part: ExpertPart) -> Consulting:
    seen = yield from use(part, "ocr", {**named_picture(part), "min_confidence": 0.3})
    return Consulted(answer_of(part.scene.task.question, text_rows(result_of(seen)["lines"])), 1)


def _chart(part: ExpertPart) -> Consulting:
    scene = part.scene
    seen = yield from use(part, "chartocr", {**named_picture(part), "task": "scg"})
    rows = rows_of(seen.text)
    found = charted(scene.task.question, scene.task.choices, rows)
    if found is not None and number_in(scene.answer) is not None and number_in(found) is not None:
        largest = max(abs(number_in(row[-1]) or 0.0) for row in rows)
        if abs(float(found) - float(scene.answer)) <= _MEASURED * largest:
            found = scene.answer  # the step of the axis that is nearest to what was measured
    return Consulted(found, 1)


def rows_of(text: str) -> list[TextRow]:
    """The rows of the table that `chartocr` writes: label, series if there are several, value."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]
    return [row for row in rows if number_in(row[-1]) is not None]


def charted(question: str, choices: Sequence[str], rows: Sequence[TextRow]) -> str | None:
    """What a question about a chart comes to with these values; None where they do not say it."""
    several = sorted({row[1] for row in rows if len(row) == 3})
    series = next((name for name in several if re.search(rf"\bof {re.escape(name)}\b", question)), "")
    if several and not series:
        return None
    values = {row[0]: number_in(row[-1]) or 0.0 for row in rows if not several or row[1] == series}
    if not values:
        return None
    if asked := re.search(r"(?:above|larger than) ([\d.]+)%?\?", question):
        return str(sum(value > float(asked[1]) for value in values.values()))
    if asked := re.search(r"\b(largest|smallest)\b", question):
        label = (max if asked[1] == "largest" else min)(values, key=lambda name: values[name])
        return next(iter(get_close_matches(label, choices, 1)), label)
    return _of_labels(question, values)


def _of_labels(question: str, values: Values) -> str | None:
    for pattern in _OF_LABELS:
        if asked := re.search(pattern, question):
            found = [value for name in asked.groups() if (value := _looked_up(values, name)) is not None]
            if len(found) < len(asked.groups()):
                return None
            return f"{found[0] if len(found) == 1 else abs(found[0] - found[1]):.4g}"
    return None


def _looked_up(values: Values, name: str) -> float | None:
    """The value of a label, or of one that reads nearly the same, as tools misread letters."""
    close = get_close_matches(name, values, 1, 0.6)
    return values[close[0]] if close else None


STRATEGIES: Final = (
    ToolStrategy("a word", ("ocr",), is_world("rotated-dark-text", kinds=("rotated",)), _word),
    ToolStrategy("a word, cut out", ("crop", "ocr"), is_world("rotated-dark-text", kinds=("rotated",)), _cut_word),
    ToolStrategy("a table", ("ocr",), is_world("table-arithmetic"), _table),
    ToolStrategy("a form", ("ocr",), is_world("form-page"), _table),
    ToolStrategy("a row of a form", ("crop", "ocr"), is_world("form-page", kinds=_ROWS), _cut_row),
    ToolStrategy("a chart", ("chartocr",), is_world(*_CHARTS), _chart),
)
