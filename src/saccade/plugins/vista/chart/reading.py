"""A whole chart: its kind, its texts with their parts in it, its axes, legend and marks with values.

Knows bars (standing, lying, side by side, stacked), lines over categories and pies with a legend, flat colours on plain
paper. Not: slanted labels, logarithmic axes, two value axes, 3D, hatching; what cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from saccade.plugins.vista.chart.marks import (
    ChartKind,
    ChartLegendEntry,
    ChartMark,
    ColourShape,
    NumberAxis,
    common_colours,
    find_shapes,
    mask_of_colour,
    middle,
    number_axis,
    number_of,
    paper_colour,
    same_colour,
)
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import PixelBox, Rgb
from saccade.tools.look import PixelArray

# Bars of a chart: rectangles on one base line, standing or lying, or stacked on such a rectangle.
#
# Their values follow from the number axis, or from a number that is printed at the end of the bar.


_LEVEL: Final = 3
"""Pixels by which ends of bars on one base line may differ."""
_SPLIT: Final = 4
"""Pixels of a grid line that runs across a bar."""


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
        """Return the sides of a bar along the categories."""
        return (box[0], box[2]) if self.standing else (box[1], box[3])


def read_bars(
    shapes: Sequence[ColourShape], lines: Sequence[TextLine], legend: Sequence[ChartLegendEntry]
) -> tuple[BarFrame, tuple[ChartMark, ...]] | None:
    """Return the bars with labels, series and values; None if there are not two of them on one line."""
    boxes = _joined([shape for shape in shapes if shape.kind == "rectangle"])
    boxes = [shape for shape in boxes if not _is_patch(shape, legend)]
    frame = _frame(boxes, lines)
    if frame is None:
        return None
    bars = [shape for shape in boxes if _on_base(shape, frame) or _stacked(shape, boxes, frame)]
    labels = _labels(lines, frame, bars)
    marks = [_mark(bar, frame, labels, lines, legend) for bar in bars]
    # Along the categories; of one stack, from the base line on.
    marks.sort(key=lambda mark: (sum(frame.across(mark.box)), abs(frame.ends(mark.box)[0] - frame.base)))
    return frame, tuple(marks)


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


def _is_patch(shape: ColourShape, legend: Sequence[ChartLegendEntry]) -> bool:
    entry = next((entry for entry in legend if _stands_before(shape, entry.text.box)), None)
    return entry is not None and same_colour(shape.color, entry.color)


def _stands_before(shape: ColourShape, name: PixelBox) -> bool:
    return 0 <= name[0] - shape.box[2] <= 30 and name[1] - 4 <= shape.center[1] <= name[3] + 4


def _frame(boxes: Sequence[ColourShape], lines: Sequence[TextLine]) -> BarFrame | None:
    best, most = None, 1
    for standing in (True, False):
        axis = number_axis(lines, "y" if standing else "x")
        for box in boxes:
            base = box.box[3] if standing else box.box[0]
            frame = BarFrame(standing, base, axis)
            # Bars on one line stand side by side; parts of one stacked bar do not.
            count = len({frame.across(other.box)[0] for other in boxes if _on_base(other, frame)})
            if count > most or (count == most > 1 and best is not None and best.axis is None and axis is not None):
                best, most = frame, count
    if best is None or best.axis is None:
        return best
    return replace(best, axis=best.axis.through_zero(best.base))


def _on_base(shape: ColourShape, frame: BarFrame) -> bool:
    begin, end = frame.ends(shape.box)
    return min(abs(begin - frame.base), abs(end - frame.base)) <= _LEVEL


def _stacked(shape: ColourShape, boxes: Sequence[ColourShape], frame: BarFrame) -> bool:
    return any(other is not shape and _stands_on(shape.box, other.box, frame) for other in boxes)


def _stands_on(upper: PixelBox, lower: PixelBox, frame: BarFrame) -> bool:
    level = all(abs(a - b) <= 2 for a, b in zip(frame.across(upper), frame.across(lower), strict=True))
    return level and abs(frame.ends(upper)[0] - frame.ends(lower)[1]) <= _LEVEL


def _labels(lines: Sequence[TextLine], frame: BarFrame, bars: Sequence[ColourShape]) -> list[TextLine]:
    """Return the texts of the row under, or of the column left of, the base line."""
    if frame.standing:
        below = [line for line in lines if line.box[1] >= frame.base - 4]
        middles = [middle(line, "y") for line in below]
        return [line for line in below if middle(line, "y") - min(middles) <= line.box[3] - line.box[1]]
    foot = min([frame.base, *(bar.box[0] for bar in bars)])
    beside = [line for line in lines if line.box[2] <= foot + 4]
    ends = [line.box[2] for line in beside]
    return [line for line in beside if max(ends) - line.box[2] <= 1.5 * (line.box[3] - line.box[1])]


def _mark(
    bar: ColourShape,
    frame: BarFrame,
    labels: Sequence[TextLine],
    lines: Sequence[TextLine],
    legend: Sequence[ChartLegendEntry],
) -> ChartMark:
    axis = 0 if frame.standing else 1
    along: Literal["x", "y"] = "x" if frame.standing else "y"
    label = min(labels, key=lambda line: abs(middle(line, along) - bar.center[axis]), default=None)
    series = next((entry for entry in legend if same_colour(entry.color, bar.color)), None)
    return ChartMark("bar", bar.box, bar.color, label, series, _value(bar, frame, lines))


def _value(bar: ColourShape, frame: BarFrame, lines: Sequence[TextLine]) -> float | None:
    begin, end = frame.ends(bar.box)
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
    """Return the number printed at the end of a bar."""
    for line in lines:
        x, y = middle(line, "x"), middle(line, "y")
        if frame.standing:
            near = abs(x - bar.center[0]) <= 6 and -2 <= bar.box[1] - line.box[3] <= 14
        else:
            near = abs(y - bar.center[1]) <= 6 and -2 <= line.box[0] - bar.box[2] <= 14
        if near and (value := number_of(line.text)) is not None:
            return value
    return None


# Points of line charts at the places of their categories, and slices of pies.


_HALF: Final = 3
"""Columns to both sides of a category's middle in which its marker is looked for."""
_MARKER: Final = 5
"""Strokes thinner than so many pixels are no markers."""


def read_points(
    rgb: PixelArray, axis: NumberAxis, labels: Sequence[TextLine], curves: Sequence[tuple[Rgb, ChartLegendEntry | None]]
) -> tuple[ChartMark, ...]:
    """Return a point for each label and curve, where the curve passes above the label's middle.

    A marker counts before the stroke: what is left of the colour near the column when strokes are worn away.
    """
    marks = []
    right = max(tick.box[2] for tick in axis.ticks)
    for colour, entry in curves:
        mask = mask_of_colour(rgb, colour)
        markers = cv2.erode(mask, np.ones((_MARKER, _MARKER), np.uint8))
        for label in labels:
            x, foot = round(middle(label, "x")), label.box[1]
            if x <= right:
                continue
            near = np.asarray(markers[:foot, max(0, x - _HALF) : x + _HALF + 1].any(axis=1))
            run = _longest_run(near) or _longest_run(mask[:foot, x])
            if run is None:
                continue
            row = (run[0] + run[1]) / 2
            box = (x - _HALF, run[0], x + _HALF + 1, run[1])
            marks.append(ChartMark("point", box, colour, label, entry, axis.value(row)))
    return tuple(marks)


def read_slices(shapes: Sequence[ColourShape], legend: Sequence[ChartLegendEntry]) -> tuple[ChartMark, ...]:
    """Return the largest shape of each colour of the legend, with its share of them all in percent."""
    slices: list[tuple[ColourShape, ChartLegendEntry]] = []
    for entry in legend:
        alike = [shape for shape in shapes if same_colour(shape.color, entry.color)]
        if alike:
            slices.append((max(alike, key=lambda shape: shape.area), entry))
    if len(slices) < 2 or not _round(_around([shape.box for shape, _ in slices])):
        return ()
    total = sum(shape.area for shape, _ in slices)
    return tuple(
        ChartMark("slice", shape.box, shape.color, entry.text, entry, 100 * shape.area / total)
        for shape, entry in slices
    )


def _longest_run(column: NDArray[Any]) -> tuple[int, int] | None:
    """Begin and end of the most pixels in a row that are not zero; None if all are."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], column.astype(bool), [False]])))
    runs = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return max(runs, key=lambda run: run[1] - run[0], default=None)


def _around(boxes: Sequence[PixelBox]) -> PixelBox:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _round(box: PixelBox) -> bool:
    width, height = box[2] - box[0], box[3] - box[1]
    return 0.8 < width / height < 1.25


# The legend of a chart: names that have a patch, a dot or a stroke of a colour to their left.


_REACH: Final = 56
"""How far left of a name its patch may begin, in pixels."""
_LEAST_WIDTH: Final = 5
_DASH: Final = 8
"""Largest gap in the stroke of a dashed line, in pixels."""
_LEAST_PIXELS: Final = 12


def find_legend(rgb: PixelArray, lines: Sequence[TextLine], ground: Sequence[Rgb]) -> tuple[ChartLegendEntry, ...]:
    """Return the largest group of names in one column or row whose patches all have different colours.

    Args:
        rgb: The picture.
        lines: Its texts, but for those of the axes.
        ground: Colours of paper and plot, and of the letters.
    """
    entries = [ChartLegendEntry(line, colour) for line in lines if (colour := _patch(rgb, line, ground)) is not None]
    groups = [_in_line(entry, entries, place) for entry in entries for place in (_left, _row)]
    return max(groups, key=len, default=())


def _patch(rgb: PixelArray, line: TextLine, ground: Sequence[Rgb]) -> Rgb | None:
    left, top, _, bottom = line.box
    start = max(0, left - _REACH)
    strip = np.ascontiguousarray(rgb[top:bottom, start : max(start, left - 1)])
    for colour in common_colours(strip):
        if any(same_colour(colour, other) for other in ground):
            continue
        mask = mask_of_colour(strip, colour)
        columns = np.flatnonzero(mask.any(axis=0))
        nearest = columns[int(np.append(0, np.flatnonzero(np.diff(columns) > _DASH) + 1)[-1]) :]
        pixels = np.count_nonzero(mask[:, nearest[0] :])
        # Something that begins before the strip is no patch but a bar with its value printed at its end.
        if pixels >= _LEAST_PIXELS and nearest[-1] - nearest[0] + 1 >= _LEAST_WIDTH and nearest[0] > 0:
            return colour
    return None


def _left(line: TextLine) -> float:
    return line.box[0]


def _row(line: TextLine) -> float:
    return middle(line, "y")


def _in_line(
    first: ChartLegendEntry, entries: Sequence[ChartLegendEntry], place: Callable[[TextLine], float]
) -> tuple[ChartLegendEntry, ...]:
    """Return those whose `place` is in line with that of the first, a colour once."""
    height = first.text.box[3] - first.text.box[1]
    kept: list[ChartLegendEntry] = []
    for entry in entries:
        off = abs(place(entry.text) - place(first.text))
        if off <= 0.5 * height and not any(same_colour(entry.color, other.color) for other in kept):
            kept.append(entry)
    return tuple(kept)


# Lines of text that OCR took together although they are labels side by side, cut at the wide gaps between them.


_WIDE: Final = 0.5
"""A gap of so many heights of the line divides labels; between words of one label it is about half of that."""
_INK: Final = 60
"""Least difference from the ground, summed over the channels."""


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
        if end - begin > _WIDE * (bottom - top):
            parts.append(_cut(line, words[begun:number], (start, left + begin)))
            start, begun = left + end, number
    return [*parts, _cut(line, words[begun:], (start, right))]


def _gaps(part: PixelArray) -> list[tuple[int, int]]:
    """Return the first and one past the last column of each stretch without ink, but for those at the ends."""
    ground = np.median(part.reshape(-1, 3), axis=0)
    ink = (np.abs(part.astype(int) - ground).sum(axis=2) > _INK).any(axis=0)
    inked = np.flatnonzero(ink)
    return [(int(a) + 1, int(b)) for a, b in pairwise(inked) if b - a > 1]


def _cut(line: TextLine, words: list[str], columns: tuple[int, int]) -> TextLine:
    left, right = columns
    _, top, _, bottom = line.box
    corners = tuple((float(x), float(y)) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom)))
    return line.model_copy(update={"text": " ".join(words), "box": (left, top, right, bottom), "corners": corners})


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
    frame: BarFrame | None = None
    """How bars stand; None without bars."""

    @property
    def title(self) -> str:
        """The title; empty if there is none."""
        return next((line.text for line, role in self.texts if role == "title"), "")


def read_chart(rgb: PixelArray, lines: Sequence[TextLine]) -> ChartReading:
    """Read a chart from its pixels and the lines of text that OCR found in it."""
    lines = split_lines(rgb, lines)
    ground = _ground(rgb)
    plot = _plot_colours(rgb)
    shapes = tuple(shape for shape in find_shapes(rgb) if shape.color not in plot and not _is_frame(shape, rgb))
    axes = [axis for along in ("y", "x") if (axis := number_axis(lines, along)) is not None]
    ticks = {id(tick) for axis in axes[:1] for tick in axis.ticks}
    legend = find_legend(rgb, [line for line in lines if id(line) not in ticks], ground)
    bars = read_bars(shapes, lines, legend)
    slices = () if bars else read_slices(shapes, legend)
    if bars is not None:
        frame, marks = bars
        return ChartReading("bar", shapes, frame.axis, legend, marks, _roles(lines, frame.axis, legend, marks), frame)
    if slices:
        return ChartReading("pie", shapes, None, legend, slices, _roles(lines, None, legend, slices))
    upright = next((axis for axis in axes if axis.along == "y"), None)
    points = () if upright is None else _curves(rgb, upright, lines, (legend, ground))
    kind: ChartKind = "line" if points else "unknown"
    return ChartReading(kind, shapes, upright, legend, points, _roles(lines, upright, legend, points))


def _curves(
    rgb: PixelArray,
    axis: NumberAxis,
    lines: Sequence[TextLine],
    colours: tuple[Sequence[ChartLegendEntry], Sequence[Rgb]],
) -> tuple[ChartMark, ...]:
    legend, ground = colours
    foot = max(middle(tick, "y") for tick in axis.ticks)
    below = [line for line in lines if line.box[1] > foot]
    tops = [line.box[1] for line in below]
    labels = [line for line in below if line.box[1] - min(tops) <= line.box[3] - line.box[1]]
    curves: list[tuple[Rgb, ChartLegendEntry | None]] = [(entry.color, entry) for entry in legend]
    if not curves:
        vivid = [colour for colour in common_colours(rgb) if max(colour) - min(colour) > 70]
        curves = [(colour, None) for colour in vivid[:1] if colour not in ground]
    return read_points(rgb, axis, labels, curves)


def _plot_colours(rgb: PixelArray) -> tuple[Rgb, ...]:
    """Return pale colours that cover a large part of the picture: what the marks stand on."""
    large = 0.15 * rgb.shape[0] * rgb.shape[1]
    grey = [colour for colour in common_colours(rgb) if max(colour) - min(colour) <= 40]
    return tuple(colour for colour in grey if np.count_nonzero(mask_of_colour(rgb, colour)) > large)


def _is_frame(shape: ColourShape, rgb: PixelArray) -> bool:
    """Whether a shape is the plot itself rather than something in it."""
    height, width = rgb.shape[:2]
    return bool(shape.size[0] > width / 2 and shape.size[1] > height / 2)


def _ground(rgb: PixelArray) -> tuple[Rgb, ...]:
    """Return paper, the plot's ground and nearly grey colours: letters, axes, grid."""
    grey = [colour for colour in common_colours(rgb) if max(colour) - min(colour) <= 40]
    return (paper_colour(rgb), *grey)


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
