"""What ChartDet and ChartOCR give: parts of a chart, and either the drawing as SVG or the graph between the parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal
from xml.sax.saxutils import escape, quoteattr

from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.fields import PixelBox, Rgb
from saccade.tools.look import LookArguments

ChartTask = Literal["svg", "scg"]
PartKind = Literal[
    "bar", "point", "slice", "marker", "line", "region", "patch", "title", "axis_tick", "category", "legend", "text"
]


class ChartArguments(LookArguments):
    """Where, and in which form."""

    task: Annotated[
        ChartTask, Field(description="svg: the parts redrawn as SVG; scg: the graph of how the parts belong together.")
    ] = "svg"


class ChartPart(ToolModel):
    """One part; its box is in pixels of the whole image."""

    id: str
    kind: PartKind
    box: PixelBox
    color: Rgb | None = None
    text: str = ""
    value: float | None = None
    """Of a mark, in units of the axis; of a slice in percent; null where it could not be read."""


class PartRelation(ToolModel):
    """An edge of the graph, as in `bar_2 at category_1`."""

    source: str
    relation: Literal["at", "of", "before", "same_color"]
    """at: a mark and its category; of: a mark and its series; before: order along the axis; same_color."""
    target: str


class ChartRow(ToolModel):
    """One value of the chart's table."""

    label: str
    series: str
    """Empty in a chart of one series."""
    value: float | None


class ChartPartsResult(ToolModel):
    """Parts, and what was asked of them."""

    image: str
    chart: Literal["bar", "line", "pie", "unknown"]
    parts: tuple[ChartPart, ...]
    relations: tuple[PartRelation, ...] = ()
    """Empty for the task svg."""
    rows: tuple[ChartRow, ...] = ()
    """The table; only what reads text fills it."""
    svg: str = ""
    """Empty for the task scg."""


def as_svg(size: tuple[int, int], parts: Sequence[ChartPart]) -> str:
    """The parts as an SVG picture of `size` (width, height) pixels: boxes, discs and texts, one element a line."""
    width, height = size
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
    return "\n".join([head, *(_element(part) for part in parts), "</svg>"])


def _element(part: ChartPart) -> str:
    left, top, right, bottom = part.box
    name = f'id={quoteattr(part.id)} fill="{hex_colour(part.color)}"'
    if part.text and part.kind not in ("bar", "point", "slice"):
        size = max(1, round(0.75 * (bottom - top)))
        return f'<text {name} x="{left}" y="{bottom - size // 4}" font-size="{size}">{escape(part.text)}</text>'
    if part.kind in ("point", "marker"):
        radius = (right - left + bottom - top) / 4
        return f'<circle {name} cx="{(left + right) / 2:g}" cy="{(top + bottom) / 2:g}" r="{radius:g}"/>'
    return f'<rect {name} x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"/>'


def hex_colour(color: Rgb | None) -> str:
    """As in SVG; black for none."""
    return "#000000" if color is None else "#{:02x}{:02x}{:02x}".format(*color)
