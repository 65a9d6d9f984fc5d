"""ChartDet: the parts of a chart by colour and place alone, as SVG or as a graph; no text is read.

What VISTA calls by this name is a trained detector; this one is rules over flat colours, so it needs no weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from saccade.tools.base import Alias, Cost, Tool, ToolOutcome
from saccade.tools.chart.marks import ChartKind, ChartMark, same_colour
from saccade.tools.chart.parts import ChartArguments, ChartPart, ChartPartsResult, PartKind, PartRelation, as_svg
from saccade.tools.chart.reading import ChartReading, read_chart
from saccade.tools.chart.shapes import ColourShape
from saccade.tools.context import ToolContext
from saccade.tools.look import Look, look

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
        """Shapes, then bars among them."""
        seen = look(arguments, context)
        reading = read_chart(seen.rgb, ())
        parts = tuple(_parts(reading, seen))
        kind: ChartKind = reading.kind
        size = context.image(arguments.image).size
        if arguments.task == "svg":
            value = ChartPartsResult(image=seen.image, chart=kind, parts=parts, svg=as_svg(size, parts))
        else:
            value = ChartPartsResult(image=seen.image, chart=kind, parts=parts, relations=tuple(_relations(parts)))
        return ToolOutcome(value, text="" if parts else f"No part of a chart was found in {seen.image}.")


def _parts(reading: ChartReading, seen: Look) -> Iterator[ChartPart]:
    for number, mark in enumerate(reading.marks, 1):
        yield ChartPart(id=f"bar_{number}", kind="bar", box=_moved(mark, seen), color=mark.color)
    bars = [mark.box for mark in reading.marks]
    counts: dict[PartKind, int] = {}
    for shape in reading.shapes:
        if not any(_inside(shape, box) for box in bars):
            kind = _KINDS[shape.kind]
            counts[kind] = counts.get(kind, 0) + 1
            yield ChartPart(id=f"{kind}_{counts[kind]}", kind=kind, box=_moved(shape, seen), color=shape.color)


def _moved(item: ChartMark | ColourShape, seen: Look) -> tuple[int, int, int, int]:
    left, top, right, bottom = item.box
    return seen.box_of(left, top, right - left, bottom - top)


def _inside(shape: ColourShape, box: tuple[int, int, int, int]) -> bool:
    x, y = shape.center
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _relations(parts: Sequence[ChartPart]) -> Iterator[PartRelation]:
    bars = [part for part in parts if part.kind == "bar"]
    for first, second in pairwise(bars):
        yield PartRelation(source=first.id, relation="before", target=second.id)
    for part in parts:
        alike = [bar for bar in bars if part.color and bar.color and same_colour(part.color, bar.color)]
        for bar in alike if part.kind == "patch" else ():
            yield PartRelation(source=bar.id, relation="same_color", target=part.id)
