"""Questions about charts of categories, one or several values each: value, difference, extreme, count.

A bar chart and a line chart are asked the same things; they differ in how a program finds the marks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.canvas import Box
from saccade.tasks.worlds.chart_frame import ChartScale
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.words import ANIMALS, BOOKS, DAYS, FOODS, MONTHS, PEOPLE, PLACES, THINGS

Kind = Literal["value", "difference", "extreme", "count"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Topic:
    """What a chart is about."""

    title: str
    labels: tuple[str, ...]
    series: tuple[str, ...]
    ordered: bool = False
    """Whether the labels have an order of their own."""


_MONTHS = tuple(month[:3] for month in MONTHS)
_DAYS = tuple(day[:3] for day in DAYS)
_CROWDS = ("Adults", "Children", "Students", "Guests", "Members", "Seniors", "Tourists")
TOPICS: Final = (
    Topic("Sales of a fruit stand", FOODS, ("2019", "2020", "2021", "2022", "2023")),
    Topic("Visitors of a museum", _DAYS, _CROWDS, ordered=True),
    Topic("Rain in a year", _MONTHS, PLACES, ordered=True),
    Topic("Books lent", BOOKS, _CROWDS),
    Topic("Animals seen", ANIMALS, ("Spring", "Summer", "Autumn", "Winter")),
    Topic("Bikes rented", _MONTHS, PLACES, ordered=True),
    Topic("Energy used", THINGS, ("Spring", "Summer", "Autumn", "Winter")),
    Topic("Goals scored", ANIMALS, ("Home", "Away")),
    Topic("Steps walked", _DAYS, PEOPLE, ordered=True),
    Topic("Tickets sold", PLACES, _DAYS),
    Topic("Stamps collected", PEOPLE, ("2019", "2020", "2021", "2022", "2023")),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What stands in a drawn chart. Marks are keyed by (label, series), the series being empty if there is one only."""

    scale: ChartScale
    values: dict[tuple[str, str], int]
    """As n of the scale."""
    marks: dict[tuple[str, str], Box]
    labels: tuple[str, ...]
    series: str
    """The series that is asked about."""


@dataclass(frozen=True, slots=True)
class ChartQuestion:
    """A question with its answer and the end of the program that finds it."""

    question: str
    answer: str
    lines: str
    """Python; `marks` and `values(labels)` are defined before it."""
    answer_type: AnswerType
    choices: tuple[str, ...]
    evidence: tuple[EvidenceBox, ...]


def pick_values(rng: Rng, count: int, scale: ChartScale, apart_px: int, above_px: int = 1) -> list[int]:
    """`count` values up to the top of the scale, at least `above_px` pixels above zero and `apart_px` from each other.

    ValueError if they do not fit.
    """
    apart, lowest = -(-apart_px // scale.px), -(-above_px // scale.px)
    spare = scale.top - lowest - apart * (count - 1)
    if spare < 0:
        raise ValueError(f"{count} values do not fit on a scale of {scale.top} steps, {apart} apart")
    offsets = sorted(rng.integer(0, spare) for _ in range(count))
    return rng.shuffled([lowest + offset + apart * index for index, offset in enumerate(offsets)])


def ask(rng: Rng, kind: Kind, drawn: Drawn) -> ChartQuestion:
    """A question of a kind about one series of a chart."""
    return {"value": _value, "difference": _difference, "extreme": _extreme, "count": _count}[kind](rng, drawn)


def extreme_of(names: str, word: str) -> str:
    """The end of a program that prints which of these names (a variable: name to value) is `largest` or `smallest`."""
    return f'pick = {{"largest": max, "smallest": min}}[{word!r}]\nprint(pick({names}, key={names}.get))'


def _of(series: str) -> str:
    return f" of {series}" if series else ""


def _value(rng: Rng, drawn: Drawn) -> ChartQuestion:
    label = rng.choice(drawn.labels)
    wordings = ("What is the value{of} for {label}?", "How large is the value{of} for {label} in this chart?")
    return _numeric(
        drawn,
        rng.choice(wordings).format(of=_of(drawn.series), label=label),
        drawn.values[label, drawn.series],
        (label,),
        f"found = values([{label!r}])\nprint(found)\nprint(show(found[{label!r}]))",
    )


def _difference(rng: Rng, drawn: Drawn) -> ChartQuestion:
    a, b = sorted(rng.sample(drawn.labels, 2), key=lambda label: -drawn.values[label, drawn.series])
    wordings = (
        "By how much is the value{of} for {a} larger than for {b}?",
        "What is the difference between the values{of} for {a} and {b}?",
    )
    return _numeric(
        drawn,
        rng.choice(wordings).format(of=_of(drawn.series), a=a, b=b),
        drawn.values[a, drawn.series] - drawn.values[b, drawn.series],
        (a, b),
        f"found = values([{a!r}, {b!r}])\nprint(found)\nprint(show(abs(found[{a!r}] - found[{b!r}])))",
    )


def _extreme(rng: Rng, drawn: Drawn) -> ChartQuestion:
    largest = rng.chance(50)
    answer = (max if largest else min)(drawn.labels, key=lambda label: drawn.values[label, drawn.series])
    word = "largest" if largest else "smallest"
    wordings = ("For which category is the value{of} {word}?", "Which category has the {word} value{of}?")
    return ChartQuestion(
        rng.choice(wordings).format(of=_of(drawn.series), word=word),
        answer,
        f"found = values({list(drawn.labels)!r})\nprint(found)\n" + extreme_of("found", word),
        AnswerType.CHOICE,
        drawn.labels,
        _evidence(drawn, (answer,)),
    )


def _count(rng: Rng, drawn: Drawn) -> ChartQuestion:
    of_series = [drawn.values[label, drawn.series] for label in drawn.labels]
    # No mark stands on the threshold.
    free = [n for n in range(min(of_series), max(of_series)) if n not in of_series]
    limit = rng.choice(free)
    above = tuple(label for label in drawn.labels if drawn.values[label, drawn.series] > limit)
    text = drawn.scale.text(limit)
    return ChartQuestion(
        f"For how many categories is the value{_of(drawn.series)} above {text}?",
        str(len(above)),
        f"print(len(marks), 'marks')\nprint(sum(value > {text} for _, value in marks))",
        AnswerType.NUMBER,
        (),
        _evidence(drawn, above),
    )


def _numeric(drawn: Drawn, question: str, n: int, labels: tuple[str, ...], lines: str) -> ChartQuestion:
    return ChartQuestion(question, drawn.scale.text(n), lines, AnswerType.NUMBER, (), _evidence(drawn, labels))


def _evidence(drawn: Drawn, labels: tuple[str, ...]) -> tuple[EvidenceBox, ...]:
    name = f" {drawn.series}" if drawn.series else ""
    return tuple(
        EvidenceBox(image="image_0", xyxy=drawn.marks[label, drawn.series], label=label + name) for label in labels
    )
