"""ChartOCR: the text of a chart with what each is, and the table of values that text, axes and colours give.

What VISTA calls by this name is a trained reader; this one is RapidOCR and the rules of `reading`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, Literal
from xml.sax.saxutils import escape, quoteattr

import cv2
from PIL import Image
from pydantic import Field

from saccade.plugins.vista.chart.marks import ChartMark, ColourShape, find_shapes, paper_colour, same_colour
from saccade.plugins.vista.chart.reading import ChartReading, read_chart
from saccade.plugins.vista.ocr import Ocr, OcrArguments, TextLine
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.definition import Alias, Cost, PixelBox, Rgb, ToolModel
from saccade.tools.measure import Look, LookArguments, look

# What ChartDet and ChartOCR give: parts of a chart, and either the drawing as SVG or the graph between the parts.

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
    """Draw the parts as an SVG picture of `size` (width, height) pixels: boxes, discs and texts, one to a line."""
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
    """Write as in SVG; black for none."""
    return "#000000" if color is None else "#{:02x}{:02x}{:02x}".format(*color)


_LEAST_CONFIDENCE = 0.3


class ChartOcr(Tool[ChartArguments, ChartPartsResult]):
    """Text and values of a chart."""

    name = "chartocr"
    suits = (("charts", 0),)
    description = (
        "Read a chart: title, labels, axis, legend and the value of every bar, point or slice. Gives the texts as SVG, "
        "or the graph of which mark belongs to which label and series, with the table. Values are measured along the "
        "axis, so they may be off by about a pixel."
    )
    arguments = ChartArguments
    result = ChartPartsResult
    aliases = (Alias("chartocr_svg", given={"task": "svg"}), Alias("chartocr_scg", given={"task": "scg"}))
    needs = Ocr.needs
    cost = Cost.MEDIUM

    def __init__(self) -> None:
        self._ocr = Ocr()

    def run(self, arguments: ChartArguments, context: ToolContext) -> ToolOutcome[ChartPartsResult]:
        """Read the text by OCR, then shapes, axes, legend and marks."""
        seen = look(arguments, context)
        part = ToolContext({"chart": Image.fromarray(seen.rgb)})
        lines = self._ocr.run(OcrArguments(min_confidence=_LEAST_CONFIDENCE), part).value.lines
        reading = read_chart(seen.rgb, lines)
        named = list(_named(reading, seen))
        parts = tuple(item for item, _ in named)
        rows = tuple(_row(mark) for mark in reading.marks)
        if arguments.task == "svg":
            texts = tuple(item for item in parts if item.text)
            svg = as_svg(context.image(arguments.image).size, texts)
            value = ChartPartsResult(image=seen.image, chart=reading.kind, parts=parts, rows=rows, svg=svg)
            return ToolOutcome(value, text=svg)
        ids = {id(thing): item.id for item, thing in named}
        value = ChartPartsResult(
            image=seen.image, chart=reading.kind, parts=parts, rows=rows, relations=tuple(_relations(reading, ids))
        )
        return ToolOutcome(value, text=_table(reading, rows))


def _named(reading: ChartReading, seen: Look) -> Iterator[tuple[ChartPart, TextLine | ChartMark]]:
    counts: dict[str, int] = {}

    def fresh(kind: str) -> str:
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}_{counts[kind]}"

    for mark in reading.marks:
        value = None if mark.value is None else _rounded(mark.value)
        box = _in_original(mark.box, seen)
        yield ChartPart(id=fresh(mark.kind), kind=mark.kind, box=box, color=mark.color, value=value), mark
    colours = {id(entry.text): entry.color for entry in reading.legend}
    for line, role in reading.texts:
        kind, box = "text" if role == "other" else role, _in_original(line.box, seen)
        yield ChartPart(id=fresh(kind), kind=kind, box=box, color=colours.get(id(line)), text=line.text), line


def _in_original(box: PixelBox, seen: Look) -> PixelBox:
    return seen.box_of(box[0], box[1], box[2] - box[0], box[3] - box[1])


def _relations(reading: ChartReading, ids: dict[int, str]) -> Iterator[PartRelation]:
    for mark in reading.marks:
        own = ids[id(mark)]
        if mark.label is not None and mark.kind != "slice":
            yield PartRelation(source=own, relation="at", target=ids[id(mark.label)])
        if mark.series is not None:
            yield PartRelation(source=own, relation="of", target=ids[id(mark.series.text)])


def _row(mark: ChartMark) -> ChartRow:
    label = "" if mark.label is None else mark.label.text
    series = "" if mark.series is None or mark.kind == "slice" else mark.series.text.text
    return ChartRow(label=label, series=series, value=None if mark.value is None else _rounded(mark.value))


def _rounded(value: float) -> float:
    """Round to four significant digits: more were never measured."""
    return float(f"{value:.4g}")


def _table(reading: ChartReading, rows: tuple[ChartRow, ...]) -> str:
    if not rows:
        return "No bars, points or slices with values were found; the parts are listed in the SVG of the task svg."
    unit = "percent of the whole" if reading.kind == "pie" else "units of the axis"
    head = f"{reading.kind} chart{f' {reading.title!r}' if reading.title else ''}, values in {unit}:"
    lines = (
        f"{row.label or '(no label)'}{f' | {row.series}' if row.series else ''} | "
        f"{'unread' if row.value is None else f'{row.value:g}'}"
        for row in rows
    )
    return "\n".join([head, *lines])


# ChartDet: the parts of a chart by colour and place only, as SVG or as a graph; no text is read.
#
# What VISTA calls by this name is a trained detector; this one is rules over flat colours, so it needs no weights.


_KINDS: dict[str, PartKind] = {"rectangle": "patch", "circle": "marker", "line": "line", "region": "region"}


class ChartDet(Tool[ChartArguments, ChartPartsResult]):
    """Parts of a chart without its text."""

    name = "chartdet"
    suits = (("charts", 4),)
    description = (
        "Find the bars, markers, curves, areas and patches of a chart with their boxes and colours, without reading "
        "text. Redraws them as SVG, or gives the graph of which come before which and which share a colour."
    )
    arguments = ChartArguments
    result = ChartPartsResult
    aliases = (Alias("chartdet_svg", given={"task": "svg"}), Alias("chartdet_scg", given={"task": "scg"}))
    cost = Cost.MEDIUM

    def run(self, arguments: ChartArguments, context: ToolContext) -> ToolOutcome[ChartPartsResult]:
        """Find shapes, then bars among them."""
        seen = look(arguments, context)
        reading = read_chart(seen.rgb, ())
        parts = tuple(_parts(reading, seen))
        if arguments.task == "svg":
            asked: dict[str, Any] = {"svg": as_svg(context.image(arguments.image).size, parts)}
        else:
            asked = {"relations": tuple(_relations_chartdet(parts))}
        value = ChartPartsResult(image=seen.image, chart=reading.kind, parts=parts, **asked)
        return ToolOutcome(value, text="" if parts else f"No part of a chart was found in {seen.image}.")


def _parts(reading: ChartReading, seen: Look) -> Iterator[ChartPart]:
    for number, mark in enumerate(reading.marks, 1):
        box = _in_original(mark.box, seen)
        yield ChartPart(id=f"{mark.kind}_{number}", kind=mark.kind, box=box, color=mark.color)
    marks = [mark.box for mark in reading.marks]
    counts: dict[PartKind, int] = {}
    for shape in reading.shapes:
        if not any(_inside(shape, box) for box in marks):
            kind = _KINDS[shape.kind]
            counts[kind] = counts.get(kind, 0) + 1
            box = _in_original(shape.box, seen)
            yield ChartPart(id=f"{kind}_{counts[kind]}", kind=kind, box=box, color=shape.color)


def _inside(shape: ColourShape, box: tuple[int, int, int, int]) -> bool:
    x, y = shape.center
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _relations_chartdet(parts: Sequence[ChartPart]) -> Iterator[PartRelation]:
    bars = [part for part in parts if part.kind == "bar"]
    for first, second in pairwise(bars):
        yield PartRelation(source=first.id, relation="before", target=second.id)
    for part in parts:
        alike = [bar for bar in bars if part.color and bar.color and same_colour(part.color, bar.color)]
        for bar in alike if part.kind == "patch" else ():
            yield PartRelation(source=bar.id, relation="same_color", target=part.id)


# A chart, or any drawing of flat colours, as primitives and SVG, by OpenCV only.
#
# Gives shapes without meaning: which of them is a bar, and what it is worth, is for `chartdet` and `chartocr`.


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
        """Return colours, connected shapes, outlines."""
        seen = look(arguments, context)
        shapes = [shape for shape in find_shapes(seen.rgb) if shape.area >= arguments.min_area]
        shapes.sort(key=lambda shape: shape.area, reverse=True)
        primitives = tuple(_primitive(shape, seen) for shape in shapes[:_MOST])
        paper = paper_colour(seen.rgb)
        left, top, right, bottom = seen.box
        size = f'viewBox="{left} {top} {right - left} {bottom - top}"'
        ground = f'<rect x="{left}" y="{top}" width="100%" height="100%" fill="{hex_colour(paper)}"/>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
        svg = "\n".join([head, ground, *map(_element_opencv, primitives), "</svg>"])
        value = OpenCvResult(image=seen.image, count=len(shapes), background=paper, primitives=primitives, svg=svg)
        hidden = len(shapes) - len(primitives)
        return ToolOutcome(value, text=svg + (f"\n{hidden} smaller shapes are not listed." if hidden else ""))


def _primitive(shape: ColourShape, seen: Look) -> ChartPrimitive:
    box = _in_original(shape.box, seen)
    if shape.kind in ("rectangle", "circle"):
        kind: Literal["rectangle", "circle"] = "rectangle" if shape.kind == "rectangle" else "circle"
        return ChartPrimitive(kind=kind, box=box, color=shape.color)
    outline = shape.outline[:, None]
    corners = cv2.approxPolyDP(outline, _TOLERANCE * cv2.arcLength(outline, True), True)[:, 0]
    points = tuple(seen.point_of(float(x), float(y)) for x, y in corners)
    return ChartPrimitive(kind="polygon", box=box, color=shape.color, points=points)


def _element_opencv(item: ChartPrimitive) -> str:
    left, top, right, bottom = item.box
    fill = f'fill="{hex_colour(item.color)}"'
    if item.kind == "rectangle":
        return f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" {fill}/>'
    if item.kind == "circle":
        rx, ry = (right - left) / 2, (bottom - top) / 2
        return f'<ellipse cx="{left + rx:g}" cy="{top + ry:g}" rx="{rx:g}" ry="{ry:g}" {fill}/>'
    return f'<polygon points="{" ".join(f"{x:g},{y:g}" for x, y in item.points)}" {fill}/>'
