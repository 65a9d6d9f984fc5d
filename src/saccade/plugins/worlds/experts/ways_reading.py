"""Use tools that read: words, tables, charts."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from statistics import median
from typing import Any, Final

from saccade.plugins.worlds.experts import ways
from saccade.plugins.worlds.experts.plays import ExpertPart, Move, Script, Seen, can_crop, crop
from saccade.plugins.worlds.experts.scene import around
from saccade.plugins.worlds.experts.ways import (
    Consulted,
    Consulting,
    ToolStrategy,
    is_world,
    named_picture,
    result_of,
    use,
)
from saccade.record.content import Answer
from saccade.training.sft.synth.experts import ExpertStopped

# Reading a table off the lines that OCR gives, and working out what the questions of tables ask.
#
# The wordings are those of the worlds `table-arithmetic` and `form-page`; a question of another one has no answer here.


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


# The style of dialects with typed tools: calls of tools that measure, read or solve, and an answer from what they say.
#
# Where the tools lead to no answer, or to one that the expert sees to be wrong, it says so, looks at the evidence
# itself if a turn is left for a crop, and answers what it sees.


_STRATEGIES: tuple[ToolStrategy, ...] = (
    *ways.STRATEGIES,
    *ways.WAYS_SCENES_STRATEGIES,
    *STRATEGIES,
    *ways.WAYS_GEOMETRY_STRATEGIES,
)


def strategies_for(part: ExpertPart, left: int) -> list[ToolStrategy]:
    """List the strategies whose tools are on offer and that answer this question within `left` turns."""
    return [item for item in _STRATEGIES if item.possible(part, left)]


def consult(part: ExpertPart, left: int) -> Script:
    """Call the tools of a strategy that fits, and answer.

    Raises:
        ExpertStopped: no strategy fits, or a call failed.
    """
    scene, strategies = part.scene, strategies_for(part, left)
    if not strategies:
        raise ExpertStopped(f"no tool answers {scene.task.id} in {scene.dialect.id}")
    found = yield from scene.rng.choice(strategies).play(part)
    if found.answer is not None and found.answer.casefold() == scene.answer.casefold():
        yield Move(Answer(text=found.answer), part.thoughts.say("consulted", answer=found.answer))
    elif can_crop(part, left - found.calls):
        yield from crop(part, left - found.calls, part.thoughts.say("doubt"))
    else:
        yield Move(Answer(text=scene.answer), part.thoughts.say("by_eye", answer=scene.answer))
