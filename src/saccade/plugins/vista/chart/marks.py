"""Hold a chart that was read: marks with their values, and entries of the legend."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import hypot, inf, log10, pi
from typing import Any, Final, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import PixelBox, Rgb
from saccade.tools.measure import PixelArray

ChartKind = Literal["bar", "line", "pie", "unknown"]


@dataclass(frozen=True, slots=True)
class ChartLegendEntry:
    """A name and the colour that stands before it."""

    text: TextLine
    color: Rgb
    left: int | None = None
    """Where that begins, in pixels."""


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


# The number axis of a chart, from numbers that stand in a row or a column: value = slope × pixel + offset, or ten to
# that power.
#
# The line goes through nearly all of the printed numbers, so one that was misread does not move it; where more do not
# fit, where numbers grow downwards or where a second axis stands in the chart, there is none. Dates are not known.


_NUMBER: Final = re.compile(r"[-−–]?\s?[$€£]?\s?(\d[\d,. ]*\d|\d)\s?([%kKMB]?)\s?[-_.']?")
_POWER: Final = re.compile(r"(?:(\d)\s?[x×]\s?)?10\^?\{?([⁻-]?[⁰¹²³⁴⁵⁶⁷⁸⁹\d])\}?")
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_FACTOR: Final = re.compile(r"[1lI]e([-+−]?)(\d{1,2})|[x×]\s?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_SUFFIX: Final = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}
_LEAST_TICKS: Final = 3
_FITTING: Final = 0.75
"""Share of the numbers of a row or column that must be on the line."""
_OFF: Final = 3.0
"""Pixels by which one may miss it."""
_Numbers = Sequence[tuple[TextLine, float]]


@dataclass(frozen=True, slots=True)
class NumberAxis:
    """An axis of values."""

    along: Literal["x", "y"]
    """Which pixel coordinate the values follow."""
    slope: float
    """Value, or its logarithm, per pixel; negative along y, where values grow upwards."""
    offset: float
    ticks: tuple[TextLine, ...]
    """The numbers that it goes through."""
    log: bool = False

    def value(self, pixel: float) -> float:
        """Return the value at a pixel of its coordinate."""
        level = self.slope * pixel + self.offset
        return float(10.0 ** min(level, 300.0)) if self.log else level

    def through_zero(self, pixel: float) -> NumberAxis:
        """Return the axis with its zero halfway to `pixel`, if that is at most two pixels away: both may miss it."""
        near = not self.log and abs(self.value(pixel) / self.slope) <= 2
        return replace(self, offset=(self.offset - self.slope * pixel) / 2) if near else self


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
    """Return the axis of the numbers in one column (`y`) or row (`x`); None without three, or if two axes differ."""
    numbers = _numbers(lines)
    fits = [axis for group in _aligned(numbers, along) if (axis := _fit(group, along)) is not None]
    best = max(fits, key=lambda axis: len(axis.ticks), default=None)
    if best is None:
        return None
    own = {id(tick) for tick in best.ticks}
    for other in fits:
        apart = not own & {id(tick) for tick in other.ticks}
        if apart and any(
            abs(_pixel(best, tick, value) - middle(tick, along)) > _OFF
            for tick, value in numbers
            if id(tick) in {id(one) for one in other.ticks}
        ):
            return None
    return _scaled(best, lines)


def _numbers(lines: Sequence[TextLine]) -> _Numbers:
    """Return the numbers among the texts; where one is a power of ten in raised digits, `103` is one that lost them."""
    powers = {id(line): match for line in lines if (match := _POWER.fullmatch(line.text.strip()))}
    if any(set(line.text) & set("⁰¹²³⁴⁵⁶⁷⁸⁹⁻^") for line in lines if id(line) in powers):
        split = [(line, powers[id(line)]) for line in lines if id(line) in powers]
        return [(line, int(match[1] or 1) * 10.0 ** int(match[2].translate(_RAISED))) for line, match in split]
    steps = sorted(int(match[2]) for match in powers.values())
    # Whether 101, 102, 103 are hundreds or powers of ten cannot be told from the texts.
    doubtful = len(steps) > 1 and all(b - a == 1 for a, b in pairwise(steps))
    read = ((line, number_of(line.text)) for line in lines if not (doubtful and id(line) in powers))
    return [(line, value) for line, value in read if value is not None]


def _pixel(axis: NumberAxis, tick: TextLine, value: float) -> float:
    """Return where the axis has a value; where the tick stands on a scale of logarithms without it."""
    if axis.log:
        return (log10(value) - axis.offset) / axis.slope if value > 0 else inf
    return (value - axis.offset) / axis.slope


def _scaled(axis: NumberAxis, lines: Sequence[TextLine]) -> NumberAxis:
    """Return the axis times the power of ten that stands at its end, such as `1e6`."""
    ends = [middle(tick, axis.along) for tick in axis.ticks]
    for line in lines:
        match = _FACTOR.fullmatch(line.text.replace(" ", ""))
        at = middle(line, axis.along)
        outside = at < min(ends) if axis.along == "y" else at > max(ends) - abs(ends[0] - ends[1])
        if match and outside and not axis.log:
            power = int((match[3] or f"{match[1] or ''}{match[2]}").translate(_RAISED).replace("−", "-"))
            return replace(axis, slope=axis.slope * 10.0**power, offset=axis.offset * 10.0**power)
    return axis


def _aligned(numbers: _Numbers, along: Literal["x", "y"]) -> list[_Numbers]:
    """Return groups of numbers whose right or left edges (a column) or middles (a row) are in line."""
    sides: tuple[Callable[[TextLine], float], ...] = (lambda line: line.box[2], lambda line: line.box[0])
    places = sides if along == "y" else (lambda line: middle(line, "y"),)
    return [
        [item for item in numbers if abs(place(item[0]) - place(line)) <= 0.5 * (line.box[3] - line.box[1])]
        for line, _ in numbers
        for place in places
    ]


def _fit(numbers: _Numbers, along: Literal["x", "y"]) -> NumberAxis | None:
    if len(numbers) < _LEAST_TICKS or len({value for _, value in numbers}) < len(numbers):
        return None
    places = np.array([middle(line, along) for line, _ in numbers])
    scales = [(False, np.array([value for _, value in numbers]))]
    if all(value > 0 for _, value in numbers):
        scales.append((True, np.log10(scales[0][1])))
    near, log, levels = max(
        ((_through(places, levels), log, levels) for log, levels in scales), key=lambda fit: len(fit[0])
    )
    if len(near) < max(_LEAST_TICKS, _FITTING * len(numbers)):
        return None
    slope, offset = np.polyfit(places[near], levels[near], 1)
    if (slope > 0) != (along == "x"):
        return None
    return NumberAxis(along, float(slope), float(offset), tuple(numbers[k][0] for k in near), log)


def _through(places: NDArray[np.float64], levels: NDArray[np.float64]) -> list[int]:
    """Return the most numbers that one line goes through."""
    best: list[int] = []
    for i, j in combinations(range(len(places)), 2):
        if abs(places[i] - places[j]) < 4 or levels[i] == levels[j]:
            continue
        slope = (levels[j] - levels[i]) / (places[j] - places[i])
        off = np.abs((levels - levels[i]) / slope - (places - places[i]))
        near = [int(k) for k in np.flatnonzero(off <= _OFF)]
        best = max(best, near, key=len)
    return best


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
        outline = np.asarray(_outline(part) + np.array([left, top]), np.int32)
        box = (left, top, left + width, top + height)
        # An outline runs through the middles of the outermost pixels.
        filled = cv2.contourArea(outline) + cv2.arcLength(outline, True) / 2
        shapes.append(ColourShape(_kind(part, area, filled), box, colour, area, outline))
    return shapes


def _outline(part: Any) -> Any:
    outlines, _ = cv2.findContours(part, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return max(outlines, key=cv2.contourArea)[:, 0]


def _kind(part: Any, area: int, filled: float) -> ShapeKind:
    """`filled` is the area within the outline, with what is written on the shape."""
    height, width = part.shape
    if filled >= _SOLID * width * height and area >= 0.5 * filled:
        return "rectangle"
    if max(width, height) < 1.25 * min(width, height) and abs(area / (pi / 4 * width * height) - 1) < 1 - _ROUND:
        return "circle"
    # A polyline fills little of its box, and is as thick everywhere.
    distance = cv2.distanceTransform(np.pad(np.asarray(part, np.uint8), 1), cv2.DIST_L2, 3)
    thickness = 2 * float(distance.max())
    return "line" if thickness < 0.12 * hypot(width, height) and area < 0.3 * width * height else "region"
