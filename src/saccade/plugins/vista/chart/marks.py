"""Find the marks of a chart with their values: number axis, flat shapes, curves, slices, entries of the legend."""

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


def same_colour(a: Rgb, b: Rgb) -> bool:
    """Return whether two colours are one to the eye of a reader of charts."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 30


# The number axis of a chart, from numbers that stand in a row or a column: value = slope × pixel + offset, or ten to
# that power.
#
# The line goes through nearly all of the printed numbers, so one that was misread does not move it; where more do not
# fit, where numbers grow downwards or where a second axis stands in the chart, there is none. Dates are not known.


_NUMBER: Final = re.compile(r"[-−–]?\s?[$€£]?\s?(\d[\d,. ]*\d|\d)\s?([%kKMB]?)\s?[-_.']?")
POWER: Final = re.compile(r"(?:(\d)\s?[x×]\s?)?10\^?\{?([⁻-]?[⁰¹²³⁴⁵⁶⁷⁸⁹\d])\}?")
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_FACTOR: Final = re.compile(r"[1lI]e([-+−]?)(\d{1,2})|[x×]\s?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_SUFFIX: Final = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}
_LEAST_TICKS: Final = 3
_FITTING: Final = 0.75
"""Share of the numbers of a row or column that must be on the line."""
_OFF: Final = 3.0
"""Pixels by which one may miss it."""
_BESIDE: Final = 5
"""Pixels by which the middle of a number misses the mark of its tick."""
_MARK: Final = 20
"""Pixels from a number within which that mark ends."""
_LEAST_MARK: Final = 3
"""Pixels that it is long."""
INK: Final = 60
"""Least difference from the ground, summed over the channels."""
SURE: Final = 0.9
"""Confidence of OCR from which a text names something."""
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


def on_ticks(rgb: PixelArray, axis: NumberAxis | None) -> NumberAxis | None:
    """Return the axis moved to the marks of its ticks, where most of its numbers have one at the same distance.

    Numbers stand a pixel or two beside them, powers of ten with their raised digits even more.
    """
    if axis is None:
        return None
    offs = []
    for tick in axis.ticks:
        _, top, right, _ = tick.box
        first = max(0, round(middle(tick, axis.along)) - _BESIDE)
        if axis.along == "y":
            strip = rgb[first : first + 2 * _BESIDE + 1, right + 1 : right + _MARK]
        else:
            strip = rgb[max(0, top - _MARK) : max(0, top - 1), first : first + 2 * _BESIDE + 1].swapaxes(0, 1)
        if not strip.size:
            continue
        ground = np.median(strip, axis=0)  # of each column: paper, the axis and the plot
        counts = (np.abs(strip - ground).sum(axis=2) > INK).sum(axis=1)
        rows = np.flatnonzero(counts >= counts.max() - 1)
        if counts.max() >= _LEAST_MARK and rows[-1] - rows[0] <= 2:
            offs.append(first + float(rows.mean()) + 0.5 - middle(tick, axis.along))
    if len(offs) < max(_LEAST_TICKS, _FITTING * len(axis.ticks)) or max(offs) - min(offs) > 2:
        return axis
    return replace(axis, offset=axis.offset - axis.slope * float(np.median(offs)))


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
    powers = {id(line): match for line in lines if (match := POWER.fullmatch(line.text.strip()))}
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
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2

    @property
    def size(self) -> tuple[int, int]:
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


# Curves of line charts at the places of their categories, and slices of pies; each with the evidence that it is one.
#
# A curve is a thin stroke of one colour over most of the labels, with one height for each column; clouds of points,
# areas and frames are none. A pie is a full disc or ring whose colours change with the angle only.


_GAP: Final = 9
"""Pixels between dashes of one stroke, or less."""
_SPAN: Final = 0.75
"""Part of the way from the first to the last label that a curve covers."""
_FAT: Final = 16.0
"""Pixels of a stroke from top to bottom, on average, beyond what its slope explains."""
_REACH: Final = 8
"""Columns from a label within which there is ink to both sides, where dashes leave out its own."""

_LEAST_SHADE: Final = 0.4
_MOST_SHADE: Final = 1.6
"""How far a pixel of a curve is from the ground, where its colour, which may be that of a thin stroke, is 1."""
_STEEP: Final = 0.012
"""Part of the height of the axis by which a curve may move from one column to the next."""
_END: Final = 3
"""Columns by which the middle of a label misses the end of a curve."""


@dataclass(frozen=True, slots=True)
class Place:
    """A label and the column, or the row, that it marks."""

    label: TextLine
    at: float


def find_curve(
    rgb: PixelArray, colour: Rgb, ground: Rgb, window: PixelBox, hidden: PixelBox | None
) -> NDArray[np.bool_] | None:
    """Return where the one curve of a colour is, (height, width) of the picture; None if no stroke is one.

    Args:
        rgb: The picture.
        colour: Of the curve.
        ground: What it is drawn on.
        window: The first and the last label, and the rows between which to look.
        hidden: The legend, whose strokes are no curves.
    """
    left, top, right, bottom = window
    mask = _shades(rgb, colour, ground)
    mask[:top] = mask[bottom:] = 0
    if hidden is not None:
        mask[max(0, hidden[1]) : hidden[3], max(0, hidden[0]) : hidden[2]] = 0
    joined = np.asarray(cv2.dilate(mask, np.ones((_GAP, _GAP), np.uint8)), np.uint8)
    _, parts, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    found = []
    for part in range(1, len(stats)):
        if stats[part][2] >= _SPAN * (right - left):
            ink = (parts == part) & (mask > 0)
            columns = np.flatnonzero(ink[:, max(0, left) : right + 1].any(axis=0))
            if len(columns) and columns[-1] - columns[0] >= _SPAN * (right - left) and _is_stroke(ink):
                found.append(ink)
    return found[0] if len(found) == 1 else None


def _shades(rgb: PixelArray, colour: Rgb, ground: Rgb) -> PixelArray:
    """Return where a picture has a colour, or one between it and the ground as thin strokes have: 0 or 255."""
    way = np.array(colour, np.float32) - np.array(ground, np.float32)
    off = rgb.astype(np.float32) - np.array(ground, np.float32)
    part = off @ way / max(1.0, float(way @ way))
    aside = np.abs(off - part[..., None] * way).max(axis=2)
    return np.where((part >= _LEAST_SHADE) & (part <= _MOST_SHADE) & (aside <= 18), 255, 0).astype(np.uint8)


def _is_stroke(ink: NDArray[np.bool_]) -> bool:
    """Return whether each column has ink in one place, and no more of it than slope and a pen or markers need."""
    columns = np.flatnonzero(ink.any(axis=0))
    part = ink[:, columns]
    tops, ends = part.argmax(axis=0), len(part) - part[::-1].argmax(axis=0)
    extents, heights = ends - tops, part.sum(axis=0)
    slopes = np.abs(np.gradient((tops + ends) / 2)) if len(columns) > 1 else np.zeros(1)
    torn = np.mean(extents - heights > 2 * _GAP)
    return bool(torn <= 0.1 and np.mean(extents - 2 * slopes) <= _FAT)


def read_points(
    ink: NDArray[np.bool_], axis: NumberAxis, places: Sequence[Place], colour: Rgb, entry: ChartLegendEntry | None
) -> list[ChartMark]:
    """Return a point for each label where the curve passes above it, and not so steeply that a pixel aside matters."""
    marks = []
    ends = [middle(tick, "y") for tick in axis.ticks]
    for place in places:
        x = round(place.at)
        if (row := _row_at(ink, x, _STEEP * (max(ends) - min(ends)))) is not None:
            box = (x - 3, round(row) - 3, x + 4, round(row) + 4)
            marks.append(ChartMark("point", box, colour, place.label, entry, axis.value(row + 0.5)))
    return marks


def _row_at(ink: NDArray[np.bool_], x: int, steepest: float) -> float | None:
    """Return the row of a curve at a column; None beyond its ends, and where it is steeper."""
    near = [column for column in range(max(0, x - _REACH), min(ink.shape[1], x + _REACH + 1)) if ink[:, column].any()]
    below, above = [column for column in near if column <= x], [column for column in near if column >= x]
    if not near or (not (below and above) and min(abs(column - x) for column in near) > _END):
        return None  # beyond its end, where the middle of a label may be a little aside
    before, after = (below or above[:1])[-1], (above or below[-1:])[0]
    first, last = _middle(ink[:, before]), _middle(ink[:, after])
    apart = max(1.0, (after - before) / 2, before - x, x - after)
    if max(_leap(ink, before), _leap(ink, after)) * apart > steepest:
        return None
    return first if before == after else first + (last - first) * (x - before) / (after - before)


def _leap(ink: NDArray[np.bool_], column: int) -> float:
    """Rows by which a curve moves from one column to the next."""
    sides = [other for other in (column - 1, column + 1) if 0 <= other < ink.shape[1] and ink[:, other].any()]
    return max((abs(_middle(ink[:, other]) - _middle(ink[:, column])) for other in sides), default=0.0)


def _middle(column: NDArray[Any]) -> float:
    rows = np.flatnonzero(column)
    return float(rows[0] + rows[-1]) / 2


_LEAST_RADIUS: Final = 40
_TURNS: Final = 720
_RINGS: Final = (0.25, 0.4, 0.55, 0.7, 0.85)
"""Where a disc or ring is looked at, as parts of the way from its inner to its outer rim."""
_RADIAL: Final = 0.92
"""Share of directions in which most of those are of one colour."""
_LEAST_TURN: Final = 4
"""Steps of the turn that a slice has at least."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A sector of a pie, angles in steps of the turn, clockwise from the right."""

    color: Rgb
    begin: int
    end: int

    @property
    def share(self) -> float:
        """In percent."""
        return 100 * (self.end - self.begin) / _TURNS


def read_pie(
    rgb: PixelArray, paper: Rgb, lines: Sequence[TextLine], legend: Sequence[ChartLegendEntry]
) -> tuple[ChartMark, ...]:
    """Return the slices with their shares in percent, and names from the legend or at their rims where all have one."""
    disc = _disc(rgb, paper)
    if disc is None:
        return ()
    (x, y), radius, inner = disc
    slices = _slices(rgb, (x, y), inner, radius, paper)
    if len(slices) < 2 or len({piece.color for piece in slices}) < len(slices):
        return ()
    named = _by_colour(slices, legend) or _by_rim(slices, lines, (x, y), radius)
    marks = []
    for piece, name in zip(slices, named or [None] * len(slices), strict=True):
        turns = np.radians(np.arange(piece.begin, piece.end + 1) * 360 / _TURNS)
        xs = x + np.outer((inner, radius), np.cos(turns))
        ys = y + np.outer((inner, radius), np.sin(turns))
        box = (int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1)
        entry = next((entry for entry in legend if entry.text is name), None)
        marks.append(ChartMark("slice", box, piece.color, name, entry, piece.share))
    return tuple(marks)


def _disc(rgb: PixelArray, paper: Rgb) -> tuple[tuple[float, float], float, float] | None:
    """Middle, radius and inner radius of the one large disc or ring; None if the largest thing is none."""
    drawn = cv2.bitwise_not(mask_of_colour(rgb, paper))
    thick = cv2.morphologyEx(drawn, cv2.MORPH_CLOSE, np.ones((7, 7), np.uint8))
    thick = cv2.morphologyEx(thick, cv2.MORPH_OPEN, np.ones((15, 15), np.uint8))
    outlines, _ = cv2.findContours(np.asarray(thick, np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline: Any = max(outlines, key=cv2.contourArea, default=None)
    if outline is None:
        return None
    left, top, width, height = cv2.boundingRect(outline)
    x, y, radius = left + (width - 1) / 2, top + (height - 1) / 2, (width + height) / 4
    off = np.abs(np.hypot(*(outline[:, 0] - np.array([x, y])).T) - radius)
    if radius < _LEAST_RADIUS or np.quantile(off, 0.97) > max(2.0, 0.03 * radius):
        return None
    reach = np.arange(0.0, 0.97 * radius)
    turns = np.radians(np.arange(0, 360, 15))[:, None]
    column, row = (x + reach * np.cos(turns)).round().astype(int), (y + reach * np.sin(turns)).round().astype(int)
    empty = drawn[row, column] == 0
    # A hole is as deep in every direction; lines between slices are not.
    holes = [int(np.argmin(line)) for line in empty]
    return (x, y), radius, float(np.median(holes)) if max(holes) - min(holes) <= 0.05 * radius + 4 else 0.0


def _slices(rgb: PixelArray, centre: tuple[float, float], inner: float, radius: float, paper: Rgb) -> list[Slice]:
    turns = np.radians(np.arange(_TURNS) * 360 / _TURNS)[:, None]
    reach = inner + np.array(_RINGS) * (radius - inner)
    columns = (centre[0] + reach * np.cos(turns)).round().astype(int)
    rows = (centre[1] + reach * np.sin(turns)).round().astype(int)
    seen = np.ascontiguousarray(rgb[rows, columns])  # (turns, rings, 3)
    palette = [colour for colour in common_colours(seen) if colour != paper]
    if not palette:
        return []
    off = np.abs(seen[:, :, None].astype(int) - np.array(palette)).max(axis=3)
    nearest = np.where(off.min(axis=2) <= 18, off.argmin(axis=2), -1)
    counts = np.stack([(nearest == index).sum(axis=1) for index in range(len(palette))], axis=1)
    colour, agreed = counts.argmax(axis=1), counts.max(axis=1) >= 3
    if agreed.mean() < _RADIAL:
        return []
    sure = np.flatnonzero(agreed)
    starts = [b for a, b in pairwise([sure[-1], *sure]) if colour[a] != colour[b]]
    before = [a for a, b in pairwise([sure[-1], *sure]) if colour[a] != colour[b]]
    edges = [b - ((b - a) % _TURNS - 1) / 2 for a, b in zip(before, starts, strict=True)]  # between two sure directions
    pieces = []
    for place, (start, edge) in enumerate(zip(starts, edges, strict=True)):
        end = edges[(place + 1) % len(edges)]
        begin = round(edge)
        pieces.append(Slice(palette[int(colour[start])], begin, begin + round((end - edge) % _TURNS)))
    return pieces if all(piece.end - piece.begin >= _LEAST_TURN for piece in pieces) else []


def _by_colour(slices: Sequence[Slice], legend: Sequence[ChartLegendEntry]) -> list[TextLine | None] | None:
    if len(legend) != len(slices):
        return None
    names: list[TextLine | None] = []
    for piece in slices:
        alike = [
            entry.text
            for entry in legend
            if max(abs(a - b) for a, b in zip(entry.color, piece.color, strict=True)) <= 18
        ]
        if len(alike) != 1:
            return None
        names += alike
    return names


def _by_rim(
    slices: Sequence[Slice], lines: Sequence[TextLine], centre: tuple[float, float], radius: float
) -> list[TextLine | None] | None:
    """Return the text at the rim of each slice, at its middle; None unless each slice has just one."""
    names: list[list[TextLine]] = [[] for _ in slices]
    for line in (line for line in lines if line.confidence >= SURE):
        left, top, right, bottom = line.box
        x = min(max(centre[0], left), right) - centre[0]
        y = (top + bottom) / 2 - centre[1]
        if not 0.98 * radius < np.hypot(x, y) < 1.3 * radius:
            continue
        turn = np.degrees(np.arctan2(y, x)) * _TURNS / 360
        for piece, found in zip(slices, names, strict=True):
            off = (turn - (piece.begin + piece.end) / 2 + _TURNS / 2) % _TURNS - _TURNS / 2
            if abs(off) <= max(12, min(24, (piece.end - piece.begin) / 4)):
                found.append(line)
    used = [found[0] for found in names if len(found) == 1]
    return list(used) if len(used) == len(slices) == len({id(line) for line in used}) else None
