"""Bars of a chart: rectangles on one base line, standing or lying, or stacked on such a rectangle.

Their values follow from the number axis, or from a number that is printed at the end of the bar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from saccade.tools.chart.axes import NumberAxis, middle, number_axis, number_of
from saccade.tools.chart.marks import ChartLegendEntry, ChartMark, same_colour
from saccade.tools.chart.shapes import ColourShape
from saccade.tools.fields import PixelBox
from saccade.tools.ocr import TextLine

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
        """Where a bar begins and ends along its values, from the base line on for a positive one."""
        return (box[3], box[1]) if self.standing else (box[0], box[2])

    def across(self, box: PixelBox) -> tuple[int, int]:
        """The sides of a bar along the categories."""
        return (box[0], box[2]) if self.standing else (box[1], box[3])


def read_bars(
    shapes: Sequence[ColourShape], lines: Sequence[TextLine], legend: Sequence[ChartLegendEntry]
) -> tuple[BarFrame, tuple[ChartMark, ...]] | None:
    """The bars with labels, series and values; None if there are not two of them on one line."""
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
    """The rectangles, those put together that grid lines cut: first what is cut into upper and lower parts.

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
    """The texts of the row under, or of the column left of, the base line."""
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
    """The number at the end of a bar."""
    for line in lines:
        x, y = middle(line, "x"), middle(line, "y")
        if frame.standing:
            near = abs(x - bar.center[0]) <= 6 and -2 <= bar.box[1] - line.box[3] <= 14
        else:
            near = abs(y - bar.center[1]) <= 6 and -2 <= line.box[0] - bar.box[2] <= 14
        if near and (value := number_of(line.text)) is not None:
            return value
    return None
