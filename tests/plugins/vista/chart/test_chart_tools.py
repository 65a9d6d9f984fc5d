"""`opencv`, `chartdet` and `chartocr` on drawn charts; the last with OCR, where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from tests.plugins.vista.chart.drawn import BLUE, GREEN, RED, Board, standing

from saccade.plugins.vista.chart.reading import read_chart
from saccade.plugins.vista.chart.tools import ChartDet, ChartOcr, ChartRow, OpenCv, _named, _relations, _table
from saccade.plugins.vista.ocr import Ocr
from saccade.tools.base import Tool
from saccade.tools.context import ToolContext
from saccade.tools.look import LookArguments, look

needs_engine = pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")
BOARD = standing({"Mon": (30, 75), "Tue": (8, 50), "Wed": (99, 12)})


def value_of(tool: Tool[Any, Any], arguments: object, alias: str | None = None) -> Any:
    result = tool.call(arguments, ToolContext({"chart": BOARD.picture}), alias=alias)
    assert result.ok, result.problem
    return result.value


def test_opencv_redraws_the_bars() -> None:
    value = value_of(OpenCv(), {})
    boxes = {tuple(item["box"]) for item in value["primitives"] if item["kind"] == "rectangle"}
    assert (75, 200, 95, 260) in boxes
    assert value["background"] == [255, 255, 255]
    root = ElementTree.fromstring(value["svg"])
    assert len(root) == 1 + value["count"]
    bar = next(item for item in root if item.get("x") == "75" and item.get("height") == "60")
    assert bar.get("fill") == "#d62828"


def test_opencv_redraws_discs_and_other_shapes() -> None:
    board = Board((120, 80))
    board.pen.ellipse((10, 20, 49, 59), fill=RED)
    board.pen.polygon([(70, 60), (110, 60), (90, 20)], fill=BLUE)
    result = OpenCv().call({}, ToolContext({"drawn": board.picture}))
    assert result.ok, result.problem
    disc, outline = sorted(ElementTree.fromstring(result.text)[1:], key=lambda item: item.tag)
    assert [disc.get(name) for name in ("cx", "cy", "rx", "ry")] == ["30", "40", "20", "20"]
    assert (disc.tag.rpartition("}")[2], outline.tag.rpartition("}")[2]) == ("ellipse", "polygon")
    assert "71,60" in (outline.get("points") or "").split()


def test_a_part_keeps_the_coordinates_of_the_image() -> None:
    value = value_of(OpenCv(), {"box": [60, 100, 200, 258], "min_area": 100})
    assert [75, 200, 95, 258] in [item["box"] for item in value["primitives"]]


def test_chartdet_finds_bars_without_text() -> None:
    value = value_of(ChartDet(), {})
    bars = [part for part in value["parts"] if part["kind"] == "bar"]
    assert len(bars) == 6
    assert all(part["value"] is None and part["text"] == "" for part in value["parts"])
    assert ElementTree.fromstring(value["svg"]).get("width") == "460"
    assert value["relations"] == []


def test_chartdet_graph_joins_bars_and_patches_of_one_colour() -> None:
    value = value_of(ChartDet(), {}, alias="chartdet_scg")
    parts = {part["id"]: part for part in value["parts"]}
    assert value["svg"] == ""
    joined = {(e["source"], e["target"]) for e in value["relations"] if e["relation"] == "same_color"}
    assert len(joined) == 6
    assert all(parts[bar]["color"] == parts[patch]["color"] for bar, patch in joined)
    assert {tuple(parts[patch]["color"]) for _, patch in joined} == {RED, BLUE}


def graph(board: Board) -> tuple[list[tuple[str, str]], Sequence[tuple[str, str, str]]]:
    """Names and texts of the parts, and the edges between them, where every text was recognised."""
    seen = look(LookArguments(), ToolContext({"chart": board.picture}))
    reading = read_chart(np.asarray(board.picture), board.lines)
    named = list(_named(reading, seen))
    edges = _relations(reading, {id(thing): part.id for part, thing in named})
    return [(part.id, part.text) for part, _ in named], [(edge.source, edge.relation, edge.target) for edge in edges]


def test_the_table_has_a_line_for_each_value() -> None:
    board = standing({"Mon": (30, 75)})
    reading = read_chart(np.asarray(board.picture), board.lines)
    rows = (ChartRow(label="Mon", series="North", value=30), ChartRow(label="", series="", value=None))
    assert _table(reading, rows).splitlines() == [
        "bar chart 'Harvest', values in units of the axis:", "Mon | North | 30", "(no label) | unread",
    ]  # fmt: skip
    assert _table(reading, ()).startswith("No bars, points or slices with values were found")


def test_texts_are_named_by_what_they_are_and_bars_stand_at_theirs() -> None:
    board = standing({"Mon": (30, 75), "Tue": (8, 50)})
    board.write("per acre", (400, 250))
    parts, edges = graph(board)
    names = {text: name for name, text in parts}
    assert [names[text].rpartition("_")[0] for text in ("Harvest", "Mon", "North", "60", "per acre")] == [
        "title", "category", "legend", "axis_tick", "text",
    ]  # fmt: skip
    assert edges[:2] == [("bar_1", "at", names["Mon"]), ("bar_1", "of", names["North"])]
    board.lines = [line for line in board.lines if line.text not in ("Mon", "Tue")]
    assert {relation for _, relation, _ in graph(board)[1]} == {"of"}


def test_a_slice_stands_at_nothing_and_is_of_its_series() -> None:
    board, turn = Board((420, 260)), 0
    for order, (name, share, colour) in enumerate((("Cat", 50, RED), ("Dog", 30, BLUE), ("Owl", 20, GREEN))):
        board.pen.pieslice((20, 30, 219, 229), turn * 3.6, (turn + share) * 3.6, fill=colour)
        board.pen.rectangle((280, 80 + 30 * order, 292, 92 + 30 * order), fill=colour)
        board.write(name, (316, 86 + 30 * order))
        turn += share
    parts, edges = graph(board)
    texts = dict(parts)
    assert {relation for _, relation, _ in edges} == {"of"}
    assert sorted(texts[target] for _, _, target in edges) == ["Cat", "Dog", "Owl"]


@needs_engine
def test_chartocr_gives_the_table_and_the_graph() -> None:
    value = value_of(ChartOcr(), {"task": "scg"})
    rows = {(row["label"], row["series"]): row["value"] for row in value["rows"]}
    assert rows == pytest.approx(
        {("Mon", "North"): 30, ("Mon", "South"): 75, ("Tue", "North"): 8, ("Tue", "South"): 50, ("Wed", "North"): 99,
         ("Wed", "South"): 12}, rel=0.05,
    )  # fmt: skip
    parts = {part["id"]: part for part in value["parts"]}
    bar = next(name for name, part in parts.items() if part["value"] == pytest.approx(75, rel=0.05))
    ends = {edge["relation"]: parts[edge["target"]]["text"] for edge in value["relations"] if edge["source"] == bar}
    assert ends == {"at": "Mon", "of": "South"}


@needs_engine
@pytest.mark.slow
def test_chartocr_redraws_the_texts() -> None:
    svg = ElementTree.fromstring(value_of(ChartOcr(), {}, alias="chartocr_svg")["svg"])
    assert {"Mon", "Tue", "Wed", "North", "South", "Harvest"} <= {item.text for item in svg}


@needs_engine
@pytest.mark.slow
def test_a_blank_picture_has_no_values() -> None:
    result = ChartOcr().call({"task": "scg"}, ToolContext({"blank": Image.new("RGB", (200, 120), "white")}))
    assert result.ok
    assert "No bars" in result.text


@pytest.mark.parametrize("tool", [ChartDet(), ChartOcr(), OpenCv()])
def test_wrong_arguments_are_typed(tool: Tool[Any, Any]) -> None:
    if tool.needs.missing():
        pytest.skip("the extra `ocr` is not installed")
    result = tool.call({"task": "table", "box": [0, 0]}, ToolContext({"chart": BOARD.picture}))
    assert result.problem is not None
    assert result.problem.kind.value == "argument_format"
