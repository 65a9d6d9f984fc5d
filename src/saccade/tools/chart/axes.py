"""The number axis of a chart, from numbers that stand in a row or a column: value = slope × pixel + offset.

The line goes through as many of the printed numbers as possible, so one that was misread does not move it. Logarithmic
axes and dates are not known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Literal

import numpy as np

from saccade.tools.ocr import TextLine

_NUMBER: Final = re.compile(r"[-−–]?\s?[$€£]?\s?(\d[\d,. ]*\d|\d)\s?([%kKMB]?)\s?[-_.']?")
_SUFFIX: Final = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}
_LEAST_TICKS: Final = 3
_Numbers = Sequence[tuple[TextLine, float]]


@dataclass(frozen=True, slots=True)
class NumberAxis:
    """An axis of values."""

    along: Literal["x", "y"]
    """Which pixel coordinate the values follow."""
    slope: float
    """Value per pixel; negative along y where values grow upwards."""
    offset: float
    ticks: tuple[TextLine, ...]
    """The numbers that it goes through."""

    def value(self, pixel: float) -> float:
        """The value at a pixel of its coordinate."""
        return self.slope * pixel + self.offset

    def through_zero(self, pixel: float) -> NumberAxis:
        """The axis moved so that it is zero at `pixel`, if that is at most two pixels away."""
        return replace(self, offset=-self.slope * pixel) if abs(self.value(pixel) / self.slope) <= 2 else self


def number_of(text: str) -> float | None:
    """The number that a label is, `1,200`, `45%`, `$3.5k`; None for any other text."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    digits = match[1].replace(" ", "")
    # A comma before three last digits groups thousands; any other comma is a decimal one.
    digits = re.sub(r",(?=\d{3}(\D|$))", "", digits).replace(",", ".")
    if digits.count(".") > 1:
        return None
    value = float(digits) * _SUFFIX.get(match[2], 1.0)
    return -value if text.strip()[0] in "-−–" else value


def number_axis(lines: Sequence[TextLine], along: Literal["x", "y"]) -> NumberAxis | None:
    """The axis that goes through most numbers of one column (`y`) or row (`x`); None if fewer than three fit."""
    numbers = [(line, value) for line in lines if (value := number_of(line.text)) is not None]
    best: NumberAxis | None = None
    for group in _aligned(numbers, along):
        axis = _fit(group, along)
        if axis is not None and (best is None or len(axis.ticks) > len(best.ticks)):
            best = axis
    return best


def _aligned(numbers: _Numbers, along: Literal["x", "y"]) -> list[_Numbers]:
    """Numbers whose right edges (of a column) or middles (of a row) are in line, for each of them as the first."""
    groups: list[_Numbers] = []
    for line, _ in numbers:
        height = line.box[3] - line.box[1]
        reach = 0.8 * height if along == "y" else 0.5 * height
        groups.append([item for item in numbers if min(_off(item[0], line, along)) <= reach])
    return groups


def _off(a: TextLine, b: TextLine, along: Literal["x", "y"]) -> tuple[float, ...]:
    if along == "x":
        return (abs(a.box[1] + a.box[3] - b.box[1] - b.box[3]) / 2,)
    # Numbers of a left axis end in line, those of a right one begin in line.
    return tuple(abs(a.box[side] - b.box[side]) for side in (0, 2))


def _fit(numbers: _Numbers, along: Literal["x", "y"]) -> NumberAxis | None:
    places = [middle(line, along) for line, _ in numbers]
    best: list[int] = []
    for i, j in combinations(range(len(numbers)), 2):
        if abs(places[i] - places[j]) < 4 or numbers[i][1] == numbers[j][1]:
            continue
        slope = (numbers[j][1] - numbers[i][1]) / (places[j] - places[i])
        near = [
            k
            for k in range(len(numbers))
            if abs((numbers[k][1] - numbers[i][1]) / slope - (places[k] - places[i])) <= 3.0
        ]
        if len(near) > len(best):
            best = near
    if len(best) < _LEAST_TICKS:
        return None
    slope, offset = np.polyfit([places[k] for k in best], [numbers[k][1] for k in best], 1)
    return NumberAxis(along, float(slope), float(offset), tuple(numbers[k][0] for k in best))


def middle(line: TextLine, along: Literal["x", "y"]) -> float:
    """The middle of a text along x or y, in pixels."""
    first = 0 if along == "x" else 1
    return (line.box[first] + line.box[first + 2]) / 2
