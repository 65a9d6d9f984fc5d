"""ChartOCR: the text of a chart with what each is, and the table of values that text, axes and colours give.

What VISTA calls by this name is a trained reader; this one is RapidOCR and the rules of `saccade.tools.chart.reading`.
"""

from __future__ import annotations

from collections.abc import Iterator

from PIL import Image

from saccade.tools.base import Alias, Cost, Tool, ToolOutcome
from saccade.tools.chart.marks import ChartMark
from saccade.tools.chart.parts import ChartArguments, ChartPart, ChartPartsResult, ChartRow, PartRelation, as_svg
from saccade.tools.chart.reading import ChartReading, read_chart
from saccade.tools.context import ToolContext
from saccade.tools.fields import PixelBox
from saccade.tools.look import Look, look
from saccade.tools.ocr import Ocr, OcrArguments, TextLine

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
        """OCR, then shapes, axes, legend and marks."""
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
        yield (
            ChartPart(
                id=fresh(mark.kind), kind=mark.kind, box=_in_original(mark.box, seen), color=mark.color, value=value
            ),
            mark,
        )
    colours = {id(entry.text): entry.color for entry in reading.legend}
    for line, role in reading.texts:
        kind = "text" if role == "other" else role
        yield (
            ChartPart(
                id=fresh(kind), kind=kind, box=_in_original(line.box, seen), color=colours.get(id(line)), text=line.text
            ),
            line,
        )


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
    """To four significant digits: more were never measured."""
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
