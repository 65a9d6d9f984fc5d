"""Hold a chart that was read: marks with their values, and entries of the legend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import hypot, pi
from typing import Any, Final, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import PixelBox, Rgb
from saccade.tools.look import PixelArray

ChartKind = Literal["bar", "line", "pie", "unknown"]


@dataclass(frozen=True, slots=True)
class ChartLegendEntry:
    """A name and the colour that stands before it."""

    text: TextLine
    color: Rgb


@dataclass(frozen=True, slots=True)
class ChartMark:
    """One bar, point or slice."""

    kind: Literal["bar", "point", "slice"]
    box: PixelBox
    color: Rgb
    label: TextLine | None = None
    """The category it stands at."""
    series: ChartLegendEntry | None = None
    value: float | None = None
    """None where no axis could be read and no number is printed at the mark; of a slice its share in percent."""

    @property
    def center(self) -> tuple[float, float]:
        """The middle of the box."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


def same_colour(a: Rgb, b: Rgb) -> bool:
    """Whether two colours are one to the eye of a reader of charts."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 30


# The number axis of a chart, from numbers that stand in a row or a column: value = slope × pixel + offset.
#
# The line goes through as many of the printed numbers as possible, so one that was misread does not move it.
# Logarithmic axes and dates are not known.


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
        """Return the value at a pixel of its coordinate."""
        return self.slope * pixel + self.offset

    def through_zero(self, pixel: float) -> NumberAxis:
        """Return the axis moved so that it is zero at `pixel`, if that is at most two pixels away."""
        return replace(self, offset=-self.slope * pixel) if abs(self.value(pixel) / self.slope) <= 2 else self


def number_of(text: str) -> float | None:
    """Return the number that a label is, `1,200`, `45%`, `$3.5k`; None for any other text."""
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
    """Return the axis that goes through most numbers of one column (`y`) or row (`x`); None if fewer than three fit."""
    numbers = [(line, value) for line in lines if (value := number_of(line.text)) is not None]
    best: NumberAxis | None = None
    for group in _aligned(numbers, along):
        axis = _fit(group, along)
        if axis is not None and (best is None or len(axis.ticks) > len(best.ticks)):
            best = axis
    return best


def _aligned(numbers: _Numbers, along: Literal["x", "y"]) -> list[_Numbers]:
    """Yield groups of numbers whose right edges (a column) or middles (a row) are in line."""
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
    """Return the middle of a text along x or y, in pixels."""
    first = 0 if along == "x" else 1
    return (line.box[first] + line.box[first + 2]) / 2


# The flat-coloured shapes of a chart: bars, markers, slices, squares of a legend, lines, each with its colour.
#
# A shape is a connected group of pixels of one colour that is thick enough not to be a letter or a grid line.
# Gradients, textures and photographs give many shapes that mean nothing.


ShapeKind = Literal["rectangle", "circle", "region", "line"]

_COLOURS: Final = 24
"""Most colours that are told apart; rarer ones are edges of letters."""
_NEAR: Final = 18
"""Largest difference in a channel of pixels of one colour."""
_LEAST_SHARE: Final = 0.0004
_THICK: Final = 5
"""Least width in pixels of a shape that is no line."""
_SOLID: Final = 0.93
_ROUND: Final = 0.8


@dataclass(frozen=True, slots=True)
class ColourShape:
    """One group of connected pixels of one colour."""

    kind: ShapeKind
    box: PixelBox
    color: Rgb
    area: int
    """Pixels."""
    outline: NDArray[np.int32]
    """(points, 2), x and y."""

    @property
    def center(self) -> tuple[float, float]:
        """The middle of the box."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the box."""
        return self.box[2] - self.box[0], self.box[3] - self.box[1]


def common_colours(rgb: PixelArray) -> tuple[Rgb, ...]:
    """Return the colours that cover most of a picture, the commonest first; near ones count as the commoner of them."""
    packed = rgb.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    values, counts = np.unique(packed, return_counts=True)
    least = max(40.0, _LEAST_SHARE * packed.size)
    colours: list[Rgb] = []
    for index in np.argsort(-counts.astype(np.int64))[: 20 * _COLOURS]:
        if counts[index] < least / 4:
            break
        colour = (int(values[index]) >> 16, int(values[index]) >> 8 & 255, int(values[index]) & 255)
        if all(max(abs(a - b) for a, b in zip(colour, other, strict=True)) > _NEAR for other in colours):
            colours.append(colour)
    return tuple(colours[:_COLOURS])


def mask_of_colour(rgb: PixelArray, colour: Rgb) -> PixelArray:
    """Return where a picture has that colour or one hardly different: (height, width), 0 or 255."""
    return np.asarray(cv2.inRange(rgb, np.array(colour) - _NEAR, np.array(colour) + _NEAR), np.uint8)


def find_shapes(rgb: PixelArray) -> tuple[ColourShape, ...]:
    """Return the shapes of all colours but that of the paper, by colour and then from top to bottom."""
    paper = paper_colour(rgb)
    shapes: list[ColourShape] = []
    for colour in common_colours(rgb):
        if colour != paper:
            shapes += _shapes_of(mask_of_colour(rgb, colour), colour)
    return tuple(shapes)


def paper_colour(rgb: PixelArray) -> Rgb:
    """Return the commonest colour along the border of a picture; of a border without any, the median."""
    border = np.concatenate([rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]])[:, None]
    colours = common_colours(np.ascontiguousarray(border))
    if colours:
        return colours[0]
    red, green, blue = (int(level) for level in np.median(border.reshape(-1, 3), axis=0))
    return red, green, blue


def _shapes_of(mask: PixelArray, colour: Rgb) -> list[ColourShape]:
    # Opened, so that a letter or a line that touches a bar is no part of it.
    thick = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(np.asarray(thick, np.uint8), connectivity=4)
    shapes = []
    for left, top, width, height, area in (tuple(map(int, row)) for row in stats[1:count]):
        if min(width, height) < _THICK:
            continue
        part = np.ascontiguousarray(thick[top : top + height, left : left + width])
        outline = _outline(part) + np.array([left, top])
        box = (left, top, left + width, top + height)
        shapes.append(ColourShape(_kind(part, area), box, colour, area, outline.astype(np.int32)))
    return shapes


def _outline(part: Any) -> Any:
    outlines, _ = cv2.findContours(part, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return max(outlines, key=cv2.contourArea)[:, 0]


def _kind(part: Any, area: int) -> ShapeKind:
    height, width = part.shape
    if area >= _SOLID * width * height:
        return "rectangle"
    if max(width, height) < 1.25 * min(width, height) and abs(area / (pi / 4 * width * height) - 1) < 1 - _ROUND:
        return "circle"
    # A polyline fills little of its box, and is as thick everywhere.
    distance = cv2.distanceTransform(np.pad(np.asarray(part, np.uint8), 1), cv2.DIST_L2, 3)
    thickness = 2 * float(distance.max())
    return "line" if thickness < 0.12 * hypot(width, height) and area < 0.3 * width * height else "region"
