"""The legend of a chart: names that have a patch, a dot or a stroke of a colour to their left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from saccade.tools.chart.axes import middle
from saccade.tools.chart.marks import ChartLegendEntry, same_colour
from saccade.tools.chart.shapes import common_colours, mask_of_colour
from saccade.tools.fields import Rgb
from saccade.tools.look import PixelArray
from saccade.tools.ocr import TextLine

_REACH: Final = 56
"""How far left of a name its patch may begin, in pixels."""
_LEAST_WIDTH: Final = 5
_DASH: Final = 8
"""Largest gap in the stroke of a dashed line, in pixels."""
_LEAST_PIXELS: Final = 12


def find_legend(rgb: PixelArray, lines: Sequence[TextLine], ground: Sequence[Rgb]) -> tuple[ChartLegendEntry, ...]:
    """The largest group of names in one column or row whose patches all have different colours.

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
    """Those whose `place` is in line with that of the first, a colour once."""
    height = first.text.box[3] - first.text.box[1]
    kept: list[ChartLegendEntry] = []
    for entry in entries:
        off = abs(place(entry.text) - place(first.text))
        if off <= 0.5 * height and not any(same_colour(entry.color, other.color) for other in kept):
            kept.append(entry)
    return tuple(kept)
