"""A whole chart: its kind, its texts with their parts in it, its axes, legend and marks with values.

Knows bars (standing, lying, side by side, stacked), lines over categories and pies with a legend, flat colours on plain
paper. Not: slanted labels, logarithmic axes, two value axes, 3D, hatching; what cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from saccade.tools.chart.axes import NumberAxis, middle, number_axis
from saccade.tools.chart.bars import BarFrame, read_bars
from saccade.tools.chart.curves import read_points, read_slices
from saccade.tools.chart.legend import find_legend
from saccade.tools.chart.marks import ChartKind, ChartLegendEntry, ChartMark
from saccade.tools.chart.shapes import ColourShape, common_colours, find_shapes, mask_of_colour, paper_colour
from saccade.tools.chart.words import split_lines
from saccade.tools.fields import Rgb
from saccade.tools.look import PixelArray
from saccade.tools.ocr import TextLine

TextRole = Literal["title", "axis_tick", "category", "legend", "other"]


@dataclass(frozen=True, slots=True)
class ChartReading:
    """What was read."""

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
    """Pale colours that cover a large part of the picture: what the marks stand on."""
    large = 0.15 * rgb.shape[0] * rgb.shape[1]
    grey = [colour for colour in common_colours(rgb) if max(colour) - min(colour) <= 40]
    return tuple(colour for colour in grey if np.count_nonzero(mask_of_colour(rgb, colour)) > large)


def _is_frame(shape: ColourShape, rgb: PixelArray) -> bool:
    """Whether a shape is the plot itself rather than something in it."""
    height, width = rgb.shape[:2]
    return bool(shape.size[0] > width / 2 and shape.size[1] > height / 2)


def _ground(rgb: PixelArray) -> tuple[Rgb, ...]:
    """Paper, the plot's ground and nearly grey colours: letters, axes, grid."""
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
