"""Points of line charts at the places of their categories, and slices of pies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from saccade.tools.chart.axes import NumberAxis, middle
from saccade.tools.chart.marks import ChartLegendEntry, ChartMark, same_colour
from saccade.tools.chart.shapes import ColourShape, mask_of_colour
from saccade.tools.fields import PixelBox, Rgb
from saccade.tools.look import PixelArray
from saccade.tools.ocr import TextLine

_HALF: Final = 3
"""Columns to both sides of a category's middle in which its marker is looked for."""
_MARKER: Final = 5
"""Strokes thinner than so many pixels are no markers."""


def read_points(
    rgb: PixelArray, axis: NumberAxis, labels: Sequence[TextLine], curves: Sequence[tuple[Rgb, ChartLegendEntry | None]]
) -> tuple[ChartMark, ...]:
    """A point for each label and curve, where the curve passes above the label's middle.

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
    """The largest shape of each colour of the legend, with its share of them all in percent."""
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
