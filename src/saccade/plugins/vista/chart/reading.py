"""A whole chart: its kind, its texts with their parts in it, its axes, legend and marks with values.

Knows bars (standing, lying, side by side, stacked), lines over labels and pies, in flat colours on plain paper, on
linear and logarithmic axes. A kind, a value or a label is given only where independent signs agree: bars end
differently on one base line that lies where the axis says, labels stand evenly, a curve is one stroke, a pie is a disc.
Not known: two value axes, several plots, 3D, hatching, areas, points without a line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import atan2, degrees, dist
from statistics import median
from typing import Final, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from saccade.plugins.vista.chart.marks import (
    INK,
    POWER,
    SURE,
    ChartKind,
    ChartLegendEntry,
    ChartMark,
    ColourShape,
    NumberAxis,
    Place,
    common_colours,
    find_curve,
    find_shapes,
    mask_of_colour,
    middle,
    number_axis,
    number_of,
    on_ticks,
    paper_colour,
    read_pie,
    read_points,
    same_colour,
)
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import PixelBox, Rgb
from saccade.tools.measure import PixelArray

# Labels of categories or of an axis: texts in a row or a column that stand evenly.

_UNEVEN: Final = 0.04
"""Part of the distance of two labels by which one may be out of its place."""
_SLANTED: Final = 8.0
"""Degrees from which a text is slanted."""


def places_of(lines: Sequence[TextLine], along: Literal["x", "y"]) -> list[Place]:
    """Return the labels of a row (`x`) or column (`y`) with what they mark; empty where their distances vary.

    An upright label marks its middle, a slanted one its middle or its upper end, whichever of them are even.
    """
    slanted = along == "x" and any(_slant(line) > _SLANTED for line in lines)
    anchors: list[Callable[[TextLine], float]] = [lambda line: middle(line, along)]
    if slanted:
        anchors.append(lambda line: float(max(line.box[2], line.box[0])))
    found = [_even([Place(line, anchor(line)) for line in lines]) for anchor in anchors]
    if slanted and len(found[0]) == len(found[1]) and found[0] and abs(found[0][0].at - found[1][0].at) > 4:
        return []  # of equal length: nothing tells at which end they stand
    return max(found, key=len)


def _slant(line: TextLine) -> float:
    """Degrees between a text and the nearest of upright and lying."""
    (x0, y0), (x1, y1) = line.corners[:2]
    turn = degrees(atan2(y1 - y0, x1 - x0)) % 90
    return min(turn, 90 - turn)


def _even(places: Sequence[Place]) -> list[Place]:
    """Return the places moved to the even row that nearly all of them stand in; empty if there is none."""
    places = sorted(places, key=lambda place: place.at)
    if len(places) < 2:
        return []
    steps = [b.at - a.at for a, b in pairwise(places)]
    pitch = median(steps)
    if pitch < 8:
        return []
    best: list[tuple[int, Place]] = []
    for first in places:
        numbers = [(round((place.at - first.at) / pitch), place) for place in places]
        near = [(n, place) for n, place in numbers if abs(place.at - first.at - n * pitch) <= max(3.0, _UNEVEN * pitch)]
        best = max(best, near, key=len)
    if len(best) < max(2, 0.7 * len(places)) or len({n for n, _ in best}) < len(best):
        return []
    slope, start = np.polyfit([n for n, _ in best], [place.at for _, place in best], 1)
    return [Place(place.label, float(start + slope * n)) for n, place in best]


# Bars of a chart: rectangles on one base line, standing or lying, or stacked on such a rectangle.
#
# Their values follow from the number axis, or from a number that is printed at the end of the bar.


_LEVEL: Final = 3
"""Pixels by which ends of bars on one base line may differ."""
_SPLIT: Final = 4
"""Pixels of a grid line that runs across a bar."""
_WIDTH: Final = 2
"""Pixels by which bars of one chart differ in width."""
_ASIDE: Final = 0.12
"""Part of the distance of two labels by which a bar may stand otherwise than its series does."""
_BEYOND: Final = 7
"""Pixels beyond the end of a bar that are looked at."""
_BARE: Final = 3
"""Bars side by side that are a chart without an axis; with one, two are."""
_MOSTLY: Final = 0.7
"""Part of all that has the colours of the bars that the bars are, at least."""
_UNLIKE: Final = 0.3
"""Share of rectangles as wide as the bars that may stand elsewhere."""


@dataclass(frozen=True, slots=True)
class BarFrame:
    """How the bars stand."""

    standing: bool
    base: float
    """Row (standing) or column (lying) of the base line."""
    axis: NumberAxis | None

    def ends(self, box: PixelBox) -> tuple[int, int]:
        """Return the ends of a bar along its values, from the base line on for a positive one."""
        return (box[3], box[1]) if self.standing else (box[0], box[2])

    def across(self, box: PixelBox) -> tuple[int, int]:
        return (box[0], box[2]) if self.standing else (box[1], box[3])

    def thickness(self, box: PixelBox) -> int:
        low, high = self.across(box)
        return high - low

    def rests(self, box: PixelBox) -> bool:
        """Return whether one end of a bar is on the base line."""
        return min(abs(end - self.base) for end in self.ends(box)) <= _LEVEL


def read_bars(
    rgb: PixelArray, shapes: Sequence[ColourShape], lines: Sequence[TextLine], legend: Sequence[ChartLegendEntry]
) -> tuple[BarFrame, tuple[ChartMark, ...]] | None:
    """Return the bars with labels, series and values; None if there are not two of different length on one line."""
    hidden = legend_box(legend)
    shown = [shape for shape in shapes if not (hidden and _within(shape.box, hidden))]
    boxes = _joined([shape for shape in shown if shape.kind == "rectangle"])
    found = _frame(rgb, boxes, lines)
    if found is None:
        return None
    frame, bars = found
    colours = {bar.color for bar in bars}
    if sum(bar.area for bar in bars) < _MOSTLY * sum(shape.area for shape in shown if shape.color in colours):
        return None  # parts of an area, of cells or of a photograph
    places = _bar_places(bars, frame, _whole(lines, rgb, hidden))
    series = [_entry(bar.color, legend) for bar in bars]
    labels = _labels(bars, frame, places, [id(one) if legend else 0 for one in series])
    edge = _edge(bars, frame)
    marks = []
    for bar, label, entry in zip(bars, labels, series, strict=True):
        # What reaches under the legend may end there; a colour that the legend lacks belongs to nobody known.
        unsure = (hidden is not None and _touches(bar.box, hidden)) or (len(legend) > 1 and entry is None)
        value = None if unsure or _goes_on(rgb, bar, standing=frame.standing) else _value(bar, frame, lines, edge)
        marks.append(ChartMark("bar", bar.box, bar.color, label, entry, value))
    # Along the categories; of one stack, from the base line on.
    marks.sort(key=lambda mark: (sum(frame.across(mark.box)), abs(frame.ends(mark.box)[0] - frame.base)))
    return frame, tuple(_unambiguous(marks))


def _goes_on(rgb: PixelArray, bar: ColourShape, *, standing: bool) -> bool:
    """Tell whether a bar's colour is found beyond one of its ends: something covers it, and it is longer."""
    left, top, right, bottom = bar.box
    if standing:
        sides = (
            rgb[max(0, top - _BEYOND) : max(0, top - 2), left:right],
            rgb[bottom + 2 : bottom + _BEYOND, left:right],
        )
    else:
        sides = (
            rgb[top:bottom, max(0, left - _BEYOND) : max(0, left - 2)],
            rgb[top:bottom, right + 2 : right + _BEYOND],
        )
    return any(side.size and mask_of_colour(np.ascontiguousarray(side), bar.color).mean() > 0.3 * 255 for side in sides)


def _unambiguous(marks: Sequence[ChartMark]) -> list[ChartMark]:
    """Return the marks, those without a label that share both label and series with another."""
    keys = [(id(mark.label), id(mark.series)) for mark in marks]
    return [
        replace(mark, label=None) if mark.label and keys.count(key) > 1 else mark
        for mark, key in zip(marks, keys, strict=True)
    ]


def _joined(shapes: Sequence[ColourShape]) -> list[ColourShape]:
    """Return the rectangles, those put together that grid lines cut: first what is cut into upper and lower parts.

    From top to bottom, and from left to right, as the second pass leaves them.
    """
    return sorted(_joined_along(_joined_along(shapes, 1), 0), key=lambda item: item.box[1])


def _joined_along(shapes: Sequence[ColourShape], axis: int) -> list[ColourShape]:
    joined: list[ColourShape] = []
    for shape in sorted(shapes, key=lambda item: item.box[axis]):
        for index, other in enumerate(joined):
            if same_colour(shape.color, other.color) and _continues(other.box, shape.box, axis):
                (x0, y0, x1, y1), (left, top, right, bottom) = other.box, shape.box
                box = (min(x0, left), min(y0, top), max(x1, right), max(y1, bottom))
                joined[index] = replace(other, box=box, area=other.area + shape.area)
                break
        else:
            joined.append(shape)
    return joined


def _continues(a: PixelBox, b: PixelBox, axis: int) -> bool:
    side = 1 - axis
    level = abs(a[side] - b[side]) <= 2 and abs(a[side + 2] - b[side + 2]) <= 2
    return level and 0 < b[axis] - a[axis + 2] <= _SPLIT


def _within(box: PixelBox, outer: PixelBox) -> bool:
    return box[0] >= outer[0] and box[1] >= outer[1] and box[2] <= outer[2] and box[3] <= outer[3]


def _touches(a: PixelBox, b: PixelBox) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _entry(colour: Rgb, legend: Sequence[ChartLegendEntry]) -> ChartLegendEntry | None:
    """Return the entry of a colour; None if none or several have it."""
    alike = [entry for entry in legend if same_colour(entry.color, colour)]
    nearest = sorted(alike, key=lambda entry: dist(entry.color, colour))
    clear = len(alike) == 1 or (len(alike) > 1 and dist(nearest[0].color, nearest[1].color) > 20)
    return nearest[0] if clear else None


def _frame(
    rgb: PixelArray, boxes: Sequence[ColourShape], lines: Sequence[TextLine]
) -> tuple[BarFrame, list[ColourShape]] | None:
    """Return how most bars stand, and the bars."""
    best: tuple[BarFrame, list[ColourShape]] | None = None
    most = (1, False)
    for standing in (True, False):
        axis = on_ticks(rgb, number_axis(lines, "y" if standing else "x"))
        for box in boxes:
            frame = BarFrame(standing, box.box[3] if standing else box.box[0], axis)
            bars = _bars(boxes, frame)
            # Bars on one line stand side by side; parts of one stacked bar do not.
            count = (len({frame.across(bar.box)[0] for bar in bars}), axis is not None)
            if count > most and _is_chart(bars, boxes, frame):
                best, most = (frame, bars), count
    if best is None or best[0].axis is None:
        return best
    frame, bars = best
    return replace(frame, axis=best[0].axis.through_zero(frame.base)), bars


def _bars(boxes: Sequence[ColourShape], frame: BarFrame) -> list[ColourShape]:
    """Return the rectangles of the commonest width on the base line, and those that stand on one of them."""
    resting = [shape for shape in boxes if frame.rests(shape.box)]
    if not resting:
        return []
    widths = [frame.thickness(shape.box) for shape in resting]
    usual = max(widths, key=lambda width: (sum(abs(width - other) <= _WIDTH for other in widths), width))
    bars = [shape for shape, width in zip(resting, widths, strict=True) if abs(width - usual) <= _WIDTH]
    for lower in bars:  # grows while it is read: a stack is as high as it is
        bars += [shape for shape in boxes if shape not in bars and _stands_on(shape.box, lower.box, frame)]
    return bars


def _is_chart(bars: Sequence[ColourShape], boxes: Sequence[ColourShape], frame: BarFrame) -> bool:
    """Tell whether rectangles are bars: columns of different ends, none of their kind elsewhere, at a base.

    Patches of a legend, cells of a table or a heat map and markers end alike; boxes of a box plot stand anywhere.
    """
    columns: dict[int, list[int]] = {}
    for bar in bars:
        side = frame.across(bar.box)[0]
        place = next((other for other in columns if abs(other - side) <= _WIDTH), side)
        columns.setdefault(place, []).append(frame.ends(bar.box)[1])
    first, *others = [sorted(ends) for ends in columns.values()] or [[]]
    highest = max(map(len, columns.values()), default=0)
    if highest > 1 and len({bar.color for bar in bars}) > highest:
        return False  # stacks repeat their colours
    if all(
        len(first) == len(ends) and max(abs(a - b) for a, b in zip(first, ends, strict=True)) <= 1 for ends in others
    ):
        return False
    usual = frame.thickness(bars[0].box)
    elsewhere = [shape for shape in boxes if shape not in bars and abs(frame.thickness(shape.box) - usual) <= _WIDTH]
    if len(elsewhere) > _UNLIKE * len(bars):
        return False
    if frame.axis is None:
        return len(columns) >= _BARE
    ticks = [middle(tick, frame.axis.along) for tick in frame.axis.ticks]
    outermost = max(ticks) if frame.standing else -min(ticks)
    at_zero = not frame.axis.log and abs(frame.axis.value(frame.base) / frame.axis.slope) <= 2 * _LEVEL
    return at_zero or outermost <= (frame.base if frame.standing else -frame.base) + _LEVEL


def _stands_on(upper: PixelBox, lower: PixelBox, frame: BarFrame) -> bool:
    level = all(abs(a - b) <= 2 for a, b in zip(frame.across(upper), frame.across(lower), strict=True))
    near = min(abs(frame.ends(upper)[0] - frame.ends(lower)[1]), abs(frame.ends(upper)[1] - frame.ends(lower)[0]))
    return level and near <= _LEVEL


def _bar_places(bars: Sequence[ColourShape], frame: BarFrame, lines: Sequence[TextLine]) -> list[Place]:
    """Return the labels of the row under, or of the column left of, the bars."""
    ticks = {id(tick) for tick in (frame.axis.ticks if frame.axis else ())}
    rest = [line for line in lines if id(line) not in ticks]
    if frame.standing:
        foot = max(bar.box[3] for bar in bars)
        left, right = min(bar.box[0] for bar in bars), max(bar.box[2] for bar in bars)
        return row_below(rest, foot - 4, (left - 4, right + 4))
    foot = min(bar.box[0] for bar in bars)
    top, bottom = min(bar.box[1] for bar in bars), max(bar.box[3] for bar in bars)
    beside = [line for line in rest if line.box[2] <= foot + 4 and top <= middle(line, "y") <= bottom]
    ends = [line.box[2] for line in beside]
    return places_of([line for line in beside if max(ends) - line.box[2] <= 0.8 * _height(line)], "y")


def row_below(lines: Sequence[TextLine], foot: float, columns: tuple[float, float]) -> list[Place]:
    """Return the labels of the longest row of texts below `foot` that reaches into the columns, the upper of two."""
    below = [line for line in lines if line.box[1] >= foot and columns[0] <= line.box[2] and line.box[0] <= columns[1]]
    reach = 1.2 if any(_slant(line) > _SLANTED for line in below) else 0.6
    rows = [
        places_of([line for line in below if 0 <= line.box[1] - top <= reach * _height(line)], "x")
        for top in sorted({line.box[1] for line in below})
    ]
    return max(rows, key=len, default=[])


def _height(line: TextLine) -> float:
    """Height of the letters, also of a slanted text."""
    a, b, c, _ = line.corners
    return min(dist(a, b), dist(b, c)) or float(line.box[3] - line.box[1])


def _labels(
    bars: Sequence[ColourShape], frame: BarFrame, places: Sequence[Place], groups: Sequence[int]
) -> list[TextLine | None]:
    """Return the label of each bar: those of one series stand equally far from theirs, all series around them."""
    if len(places) < 2:
        return [None] * len(bars)
    pitch = min(b.at - a.at for a, b in pairwise(places))
    centres = [sum(frame.across(bar.box)) / 2 for bar in bars]
    nearest = [min(places, key=lambda place: abs(place.at - centre)) for centre in centres]
    offs = [centre - place.at for centre, place in zip(centres, nearest, strict=True)]
    usual = {group: median(off for off, one in zip(offs, groups, strict=True) if one == group) for group in groups}
    if abs(sum(usual.values()) / len(usual)) > 0.2 * pitch:
        return [None] * len(bars)
    slack = max(3.0, _ASIDE * pitch)
    return [
        place.label if abs(off - usual[group]) <= slack and abs(off) <= 0.5 * pitch else None
        for off, place, group in zip(offs, nearest, groups, strict=True)
    ]


def _edge(bars: Sequence[ColourShape], frame: BarFrame) -> float:
    """Return half the width of the line around bars, in pixels, as it is seen between those of a stack."""
    ends = [sorted(frame.ends(bar.box)) for bar in bars]
    gaps = [
        begin - end
        for (_, end), below in zip(ends, bars, strict=True)
        for (begin, _), above in zip(ends, bars, strict=True)
        if 0 <= begin - end <= _LEVEL and abs(frame.across(above.box)[0] - frame.across(below.box)[0]) <= _WIDTH
    ]
    return median(gaps) / 2 if gaps else 0.0


def _value(bar: ColourShape, frame: BarFrame, lines: Sequence[TextLine], edge: float = 0.0) -> float | None:
    begin, end = (float(place) for place in frame.ends(bar.box))
    begin, end = (begin + edge, end - edge) if end < begin else (begin - edge, end + edge)
    measured = None
    if frame.axis is not None:
        downwards = abs(end - frame.base) < abs(begin - frame.base)
        tip = frame.axis.value(begin if downwards else end)
        rests = min(abs(begin - frame.base), abs(end - frame.base)) <= _LEVEL
        measured = tip if rests else tip - frame.axis.value(begin)
    printed = _printed(bar, frame, lines)
    # A printed number is exact, unless it is that of another mark or misread.
    if printed is not None and (measured is None or abs(printed - measured) <= 0.05 * abs(printed)):
        return printed
    return measured


def _printed(bar: ColourShape, frame: BarFrame, lines: Sequence[TextLine]) -> float | None:
    for line in lines:
        x, y = middle(line, "x"), middle(line, "y")
        if frame.standing:
            near = abs(x - bar.center[0]) <= 6 and -2 <= bar.box[1] - line.box[3] <= 14
        else:
            near = abs(y - bar.center[1]) <= 6 and -2 <= line.box[0] - bar.box[2] <= 14
        if near and (value := number_of(line.text)) is not None:
            return value
    return None


# The legend of a chart: names that have a patch, a dot or a stroke of a colour to their left, all of one size.


_REACH: Final = 56
"""How far left of a name its patch may begin, in pixels, or four times the height of the name."""
_LEAST_WIDTH: Final = 5
_DASH: Final = 8
"""Largest gap in the stroke of a dashed line, in pixels, or half the height of its name."""
_LEAST_PIXELS: Final = 12
_ALIKE: Final = 4
"""Pixels by which patches of one legend differ in width and in distance from their names."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    entry: ChartLegendEntry
    width: int
    start: int
    """Pixels from where the patch begins to its name."""

    def is_like(self, other: _Candidate) -> bool:
        # Dashes may end before the stroke does.
        widths = abs(self.width - other.width) <= max(_ALIKE, max(self.width, other.width) // 3)
        return widths and abs(self.start - other.start) <= _ALIKE


def find_legend(rgb: PixelArray, lines: Sequence[TextLine], ground: Sequence[Rgb]) -> tuple[ChartLegendEntry, ...]:
    """Return the most names whose patches have one size and one distance, if no two have one colour.

    Args:
        rgb: The picture.
        lines: Its texts, but for those of the axes.
        ground: Colours of paper and plot.
    """
    sure = [line for line in lines if line.confidence >= SURE and line.box[2] - line.box[0] >= 0.4 * _height(line)]
    sure = [line for line in sure if line.box[3] - line.box[1] < 1.5 * _height(line)]  # not slanted
    found = [one for line in sure if (one := _patch(rgb, line, ground)) is not None]
    group = max(([other for other in found if one.is_like(other)] for one in found), key=len, default=[])
    entries = tuple(one.entry for one in group)
    alike = any(same_colour(a.color, b.color) and dist(a.color, b.color) <= 20 for a, b in combinations(entries, 2))
    return () if alike else entries


def legend_box(legend: Sequence[ChartLegendEntry]) -> PixelBox | None:
    """Return the box around a legend with its patches and its frame."""
    if not legend:
        return None
    lefts, tops, rights, bottoms = zip(*(entry.text.box for entry in legend), strict=True)
    left, pad = min([*lefts, *(entry.left for entry in legend if entry.left is not None)]), (bottoms[0] - tops[0]) // 2
    return left - pad, min(tops) - pad, max(rights) + pad, max(bottoms) + pad


def _patch(rgb: PixelArray, line: TextLine, ground: Sequence[Rgb]) -> _Candidate | None:
    left, top, _, bottom = line.box
    height = bottom - top
    start, first = max(0, left - max(_REACH, 4 * height)), max(0, top - 3)
    strip = np.ascontiguousarray(rgb[first : bottom + 3, start : max(start, left - 1)])
    for colour in common_colours(strip) if strip.size else ():
        if any(same_colour(colour, other) for other in ground):
            continue
        mask = mask_of_colour(strip, colour)
        columns = np.flatnonzero(mask.any(axis=0))
        torn = np.flatnonzero(np.diff(columns) > max(_DASH, height // 2))
        nearest = columns[int(np.append(0, torn + 1)[-1]) :]
        part = mask[:, nearest[0] : nearest[-1] + 1] > 0
        rows = np.flatnonzero(part.any(axis=1))
        pixels, width = np.count_nonzero(part), part.shape[1]
        # Something that begins before the strip, or is higher than its name, is no patch but a bar or a slice.
        inside = nearest[0] > 0 and rows[0] > 0 and rows[-1] < len(part) - 1
        # Letters and lines of axes are grey; a grey patch is a full block.
        block = pixels >= 0.9 * width * (rows[-1] - rows[0] + 1) and min(width, rows[-1] - rows[0] + 1) >= _LEAST_WIDTH
        grey = max(colour) - min(colour) <= _GREY
        gap = left - (start + int(nearest[-1]) + 1)
        if pixels >= _LEAST_PIXELS and width >= _LEAST_WIDTH and inside and gap <= 2 * height and (block or not grey):
            return _Candidate(ChartLegendEntry(line, colour, start + int(nearest[0])), width, width + gap)
    return None


# Lines of text that OCR took together although they are labels side by side, cut at the wide gaps between them.


_WIDE: Final = 0.5
"""A gap of so many heights of the line divides labels; between words of one label it is about half of that."""


def split_lines(rgb: PixelArray, lines: Sequence[TextLine]) -> tuple[TextLine, ...]:
    """Return the lines, each cut where more than half its height of ground stands between two of its words."""
    return tuple(part for line in lines for part in _parts(rgb, line))


def _parts(rgb: PixelArray, line: TextLine) -> list[TextLine]:
    words = line.text.split()
    left, top, right, bottom = line.box
    if len(words) < 2 or bottom - top > right - left:
        return [line]
    gaps = _gaps(rgb[top:bottom, left:right])
    # As many gaps as there are spaces: the widest ones, from left to right.
    spaces = sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[: len(words) - 1])
    if len(spaces) < len(words) - 1:
        return [line]
    parts, start, begun = [], left, 0
    for number, (begin, end) in enumerate(spaces, 1):
        if end - begin > _WIDE * (bottom - top) and _fits(words, number, (begin, end), right - left):
            parts.append(_cut(line, words[begun:number], (start, left + begin)))
            start, begun = left + end, number
    return [*parts, _cut(line, words[begun:], (start, right))]


def _fits(words: Sequence[str], number: int, gap: tuple[int, int], width: int) -> bool:
    """Tell whether the texts on both sides of a gap are as wide as their letters need, with nothing else there."""
    before, after = len(" ".join(words[:number])), len(" ".join(words[number:]))
    share = gap[0] / max(1, gap[0] + width - gap[1])
    return min(share / before, (1 - share) / after) * (before + after) > 0.5


def _gaps(part: PixelArray) -> list[tuple[int, int]]:
    """First and one past the last column of each stretch without ink, but for those at the ends."""
    ground = np.median(part.reshape(-1, 3), axis=0)
    ink = (np.abs(part.astype(int) - ground).sum(axis=2) > INK).any(axis=0)
    inked = np.flatnonzero(ink)
    return [(int(a) + 1, int(b)) for a, b in pairwise(inked) if b - a > 1]


def _cut(line: TextLine, words: list[str], columns: tuple[int, int]) -> TextLine:
    left, right = columns
    _, top, _, bottom = line.box
    corners = tuple((float(x), float(y)) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom)))
    return line.model_copy(update={"text": " ".join(words), "box": (left, top, right, bottom), "corners": corners})


_GREY: Final = 24
"""Largest difference of the channels of a grey."""

TextRole = Literal["title", "axis_tick", "category", "legend", "other"]


@dataclass(frozen=True, slots=True)
class ChartReading:
    """Chart that was read."""

    kind: ChartKind
    shapes: tuple[ColourShape, ...]
    axis: NumberAxis | None
    legend: tuple[ChartLegendEntry, ...]
    marks: tuple[ChartMark, ...]
    texts: tuple[tuple[TextLine, TextRole], ...]
    """All lines of text with what they are."""

    @property
    def title(self) -> str:
        """The title; empty if there is none."""
        return next((line.text for line, role in self.texts if role == "title"), "")


def read_chart(rgb: PixelArray, lines: Sequence[TextLine]) -> ChartReading:
    """Read a chart from its pixels and the lines of text that OCR found in it."""
    lines = [_tight(rgb, line) for line in split_lines(rgb, [_without_tick(line) for line in lines])]
    paper, plot = paper_colour(rgb), _plot_colours(rgb)
    height, width = rgb.shape[:2]
    shapes = tuple(  # what is larger than half of the picture is the plot itself
        shape
        for shape in find_shapes(rgb)
        if shape.color not in plot and (shape.size[0] <= width / 2 or shape.size[1] <= height / 2)
    )
    upright = on_ticks(rgb, number_axis(lines, "y"))
    ticks = {id(tick) for axis in (upright, number_axis(lines, "x")) if axis for tick in axis.ticks}
    names = [line for line in lines if id(line) not in ticks]
    legend = find_legend(rgb, names, (paper, *plot)) or find_legend(rgb, lines, (paper, *plot))
    marks: tuple[ChartMark, ...] = read_pie(rgb, paper, lines, legend)
    kind: ChartKind = "pie" if marks else "unknown"
    axis: NumberAxis | None = None
    if not marks and (bars := read_bars(rgb, shapes, lines, legend)):
        kind, axis, marks = "bar", bars[0].axis, bars[1]
    if not marks and upright is not None:
        marks = _curves(rgb, upright, lines, legend, (paper, *plot))
        kind, axis = ("line" if marks else "unknown"), upright
    return ChartReading(kind, shapes, axis, legend, marks, _roles(lines, axis, legend, marks))


def _without_tick(line: TextLine) -> TextLine:
    """Return a label without the mark of the axis that was read as a dash behind it."""
    text = line.text.rstrip(" -–—|_†+")
    return line.model_copy(update={"text": text}) if text else line


def _tight(rgb: PixelArray, line: TextLine) -> TextLine:
    """Return a text with the columns of its ink, a number also with its rows: the axis has it at their middles."""
    left, top, right, bottom = line.box
    part = rgb[top:bottom, left:right].astype(int)
    off = np.abs(part - np.median(part.reshape(-1, 3), axis=0)).sum(axis=2)
    ink = off > max(INK, 0.4 * int(off.max(initial=0)))
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not len(rows):
        return line
    is_power = POWER.fullmatch(line.text.strip()) is not None
    if is_power:  # the tick is at the ten, above which the power stands
        rows = np.flatnonzero(ink[:, : columns[0] + (columns[-1] - columns[0]) // 2].any(axis=1))
    if len(rows) and (is_power or number_of(line.text) is not None):
        top, bottom = top + int(rows[0]), top + int(rows[-1]) + 1
    box = (left + int(columns[0]), top, left + int(columns[-1]) + 1, bottom)
    return line.model_copy(update={"box": box})


def _whole(lines: Sequence[TextLine], rgb: PixelArray, hidden: PixelBox | None) -> list[TextLine]:
    """Return the texts that were surely read, and that neither the edge of the picture nor a legend may have cut."""
    height, width = rgb.shape[:2]
    sure = [line for line in lines if line.confidence >= SURE and not (hidden and _touches(line.box, hidden))]
    return [
        line
        for line in sure
        if all(2 <= x <= width - 2 and 2 <= y <= height - 2 for x, y in line.corners) and not _follows(rgb, line)
    ]


def _follows(rgb: PixelArray, line: TextLine) -> bool:
    """Return whether something stands so near before a lying text that it is a word of it which was not read."""
    left, top, right, bottom = line.box
    height, near = bottom - top, max(0, left - bottom + top)
    if height > right - left or _slant(line) > _SLANTED:
        return False
    part = rgb[top + height // 3 : bottom - height // 4, near:right].astype(int)  # without the frame above
    off = np.abs(part - np.median(part.reshape(-1, 3), axis=0)).sum(axis=2) > 2 * INK
    return bool(off[:, : left - near - 1].any())


def _curves(
    rgb: PixelArray,
    axis: NumberAxis,
    lines: Sequence[TextLine],
    legend: Sequence[ChartLegendEntry],
    ground: Sequence[Rgb],
) -> tuple[ChartMark, ...]:
    """Return the points of the curves: of all colours of the legend, or of the only one that is a curve."""
    ends = [middle(tick, "y") for tick in axis.ticks]
    foot, side = max(ends), max(tick.box[2] for tick in axis.ticks)
    ticks = {id(tick) for tick in axis.ticks}
    hidden = legend_box(legend)
    rest = [line for line in _whole(lines, rgb, hidden) if id(line) not in ticks]
    places = row_below(rest, foot, (side, rgb.shape[1]))
    if not places:
        return ()
    bottom = min(place.label.box[1] for place in places) - 1
    window = (round(places[0].at), 0, round(places[-1].at), bottom)
    if legend:
        curves: list[tuple[Rgb, ChartLegendEntry | None]] = [(entry.color, entry) for entry in legend]
    else:
        curves = [(colour, None) for colour in _inks(rgb, ground)]
    drawn = [(find_curve(rgb, colour, ground[-1], window, hidden), colour, entry) for colour, entry in curves]
    found = [
        (ink, colour, entry)
        for ink, colour, entry in drawn
        if ink is not None and not (entry is None and _is_level(ink))
    ]
    if len(found) > 1 and not legend:
        return ()  # nothing says which is which
    if any(_slant(place.label) > _SLANTED for place in places):
        found = [one for one in found if _ends_at(one[0], places)]
    return tuple(mark for ink, colour, entry in found for mark in read_points(ink, axis, places, colour, entry))


def _is_level(ink: NDArray[np.bool_]) -> bool:
    """Return whether a stroke is as likely a line of the frame or of the grid: it neither rises nor falls."""
    tops = ink.argmax(axis=0)[ink.any(axis=0)]
    return bool(np.mean(np.abs(tops - np.median(tops)) <= _LEVEL) > 0.9)


def _ends_at(ink: NDArray[np.bool_], places: Sequence[Place]) -> bool:
    """Tell whether a curve begins and ends where a label is or could be; ends of slanted labels are uncertain."""
    columns, pitch = np.flatnonzero(ink.any(axis=0)), min(b.at - a.at for a, b in pairwise(places))
    steps = [(end - places[0].at) / pitch for end in (float(columns[0]), float(columns[-1]))]
    return all(abs(step - round(step)) * pitch <= 8 for step in steps)


def _inks(rgb: PixelArray, ground: Sequence[Rgb]) -> list[Rgb]:
    """Return the colours that are no grey and no shade between another one and the ground, as edges of strokes are."""
    inks: list[Rgb] = []
    for colour in sorted(common_colours(rgb), key=lambda colour: -dist(colour, ground[0])):
        shade = any(dist(colour, ink) + dist(colour, other) < dist(ink, other) + 6 for ink in inks for other in ground)
        if max(colour) - min(colour) > _GREY and not shade and not any(same_colour(colour, other) for other in ground):
            inks.append(colour)
    return inks


def _plot_colours(rgb: PixelArray) -> tuple[Rgb, ...]:
    """Pale colours that cover a large part of the picture: what the marks stand on."""
    height, width = rgb.shape[:2]
    found = []
    for colour in common_colours(rgb):
        # Grid lines cut it into cells.
        mask = cv2.morphologyEx(mask_of_colour(rgb, colour), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
        _, _, stats, _ = cv2.connectedComponentsWithStats(np.asarray(mask, np.uint8), connectivity=4)
        _, _, wide, high, area = max(stats[1:], key=lambda row: row[4], default=(0,) * 5)
        if max(colour) - min(colour) <= 40 and area > 0.15 * height * width and wide > width / 2 and high > height / 2:
            found.append(colour)
    return tuple(found)


def _roles(
    lines: Sequence[TextLine], axis: NumberAxis | None, legend: Sequence[ChartLegendEntry], marks: Sequence[ChartMark]
) -> tuple[tuple[TextLine, TextRole], ...]:
    roles: dict[int, TextRole] = {id(tick): "axis_tick" for tick in (axis.ticks if axis else ())}
    roles.update({id(entry.text): "legend" for entry in legend})
    roles.update({id(mark.label): "category" for mark in marks if mark.label is not None and mark.kind != "slice"})
    rest = [line for line in lines if id(line) not in roles]
    tops = [mark.box[1] for mark in marks]
    above = [line for line in rest if not tops or line.box[3] <= min(tops) + 4]
    if above:
        roles[id(min(above, key=lambda line: line.box[1]))] = "title"
    return tuple((line, roles.get(id(line), "other")) for line in lines)
