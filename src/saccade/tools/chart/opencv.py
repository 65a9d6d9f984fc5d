"""A chart, or any drawing of flat colours, as primitives and SVG, by OpenCV alone.

Gives shapes without meaning: which of them is a bar, and what it is worth, is for `chartdet` and `chartocr`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import cv2
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Alias, Cost, Tool, ToolOutcome
from saccade.tools.chart.parts import hex_colour
from saccade.tools.chart.shapes import ColourShape, find_shapes, paper_colour
from saccade.tools.context import ToolContext
from saccade.tools.fields import PixelBox, Rgb
from saccade.tools.look import Look, LookArguments, look

_MOST: Final = 120
_TOLERANCE: Final = 0.01
"""By which part of its perimeter an outline may be straightened."""


class OpenCvArguments(LookArguments):
    """Where, and how small a shape may be."""

    min_area: Annotated[int, Field(ge=1, le=10**9, description="Smallest shape in square pixels.")] = 30


class ChartPrimitive(ToolModel):
    """One shape, in pixels of the whole image."""

    kind: Literal["rectangle", "circle", "polygon"]
    box: PixelBox
    color: Rgb
    points: tuple[tuple[float, float], ...] = ()
    """Corners of a polygon."""


class OpenCvResult(ToolModel):
    """Shapes, largest first; at most 120 are listed and drawn."""

    image: str
    count: int
    """How many there are, listed or not."""
    background: Rgb
    primitives: tuple[ChartPrimitive, ...]
    svg: str


class OpenCv(Tool[OpenCvArguments, OpenCvResult]):
    """Primitives and SVG."""

    name = "opencv"
    suits = (("charts", 5),)
    description = (
        "Turn a chart or a drawing of flat colours into shapes and SVG. Lists rectangles, circles and polygons with "
        "their colours and places in pixels, the largest first."
    )
    arguments = OpenCvArguments
    result = OpenCvResult
    aliases = (Alias("chart_to_svg"),)
    cost = Cost.MEDIUM

    def run(self, arguments: OpenCvArguments, context: ToolContext) -> ToolOutcome[OpenCvResult]:
        """Colours, connected shapes, outlines."""
        seen = look(arguments, context)
        shapes = [shape for shape in find_shapes(seen.rgb) if shape.area >= arguments.min_area]
        shapes.sort(key=lambda shape: shape.area, reverse=True)
        primitives = tuple(_primitive(shape, seen) for shape in shapes[:_MOST])
        paper = paper_colour(seen.rgb)
        left, top, right, bottom = seen.box
        size = f'viewBox="{left} {top} {right - left} {bottom - top}"'
        ground = f'<rect x="{left}" y="{top}" width="100%" height="100%" fill="{hex_colour(paper)}"/>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
        svg = "\n".join([head, ground, *map(_element, primitives), "</svg>"])
        value = OpenCvResult(image=seen.image, count=len(shapes), background=paper, primitives=primitives, svg=svg)
        hidden = len(shapes) - len(primitives)
        return ToolOutcome(value, text=svg + (f"\n{hidden} smaller shapes are not listed." if hidden else ""))


def _primitive(shape: ColourShape, seen: Look) -> ChartPrimitive:
    left, top, right, bottom = shape.box
    box = seen.box_of(left, top, right - left, bottom - top)
    if shape.kind in ("rectangle", "circle"):
        kind: Literal["rectangle", "circle"] = "rectangle" if shape.kind == "rectangle" else "circle"
        return ChartPrimitive(kind=kind, box=box, color=shape.color)
    outline = shape.outline[:, None]
    corners = cv2.approxPolyDP(outline, _TOLERANCE * cv2.arcLength(outline, True), True)[:, 0]
    points = tuple(seen.point_of(float(x), float(y)) for x, y in corners)
    return ChartPrimitive(kind="polygon", box=box, color=shape.color, points=points)


def _element(item: ChartPrimitive) -> str:
    left, top, right, bottom = item.box
    fill = f'fill="{hex_colour(item.color)}"'
    if item.kind == "rectangle":
        return f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" {fill}/>'
    if item.kind == "circle":
        rx, ry = (right - left) / 2, (bottom - top) / 2
        return f'<ellipse cx="{left + rx:g}" cy="{top + ry:g}" rx="{rx:g}" ry="{ry:g}" {fill}/>'
    return f'<polygon points="{" ".join(f"{x:g},{y:g}" for x, y in item.points)}" {fill}/>'
