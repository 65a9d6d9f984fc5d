"""`opencv`, `chartdet` and `chartocr` on drawn charts; the last with OCR, where it is installed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.plugins.vista.chart.drawn import BLUE, GREEN, RED, Board, pie, reading, standing
from tests.plugins.vista.engine import chart_ocr

from saccade.plugins.vista.chart.reading import read_chart
from saccade.plugins.vista.chart.tools import ChartDet, ChartOcr, ChartPart, OpenCv, _named, _relations, as_svg
from saccade.plugins.vista.ocr import Ocr
from saccade.tools.base import Tool
from saccade.tools.context import ToolContext
from saccade.tools.measure import LookArguments, look

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
    parts, edges = graph(pie())
    texts = dict(parts)
    assert {relation for _, relation, _ in edges} == {"of"}
    assert sorted(texts[target] for _, _, target in edges) == ["Cat", "Dog", "Owl"]


@needs_engine
def test_chartocr_gives_the_table_and_the_graph() -> None:
    value = value_of(chart_ocr(), {"task": "scg"})
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
    svg = ElementTree.fromstring(value_of(chart_ocr(), {}, alias="chartocr_svg")["svg"])
    assert {"Mon", "Tue", "Wed", "North", "South", "Harvest"} <= {item.text for item in svg}


@needs_engine
@pytest.mark.slow
def test_a_blank_picture_has_no_values() -> None:
    result = chart_ocr().call({"task": "scg"}, ToolContext({"blank": Image.new("RGB", (200, 120), "white")}))
    assert result.ok
    assert "No bars" in result.text


@pytest.mark.parametrize("tool", [ChartDet(), ChartOcr(), OpenCv()])
def test_wrong_arguments_are_typed(tool: Tool[Any, Any]) -> None:
    if tool.needs.missing():
        pytest.skip("the extra `ocr` is not installed")
    result = tool.call({"task": "table", "box": [0, 0]}, ToolContext({"chart": BOARD.picture}))
    assert result.problem.kind.value == "argument_format"


@pytest.mark.parametrize(
    ("part", "element"),
    [
        ({"kind": "bar", "box": (10, 20, 30, 60), "color": RED, "value": 2.0},
         '<rect id="p" fill="#d62828" x="10" y="20" width="20" height="40"/>'),
        ({"kind": "bar", "box": (10, 20, 30, 60), "text": "2"},
         '<rect id="p" fill="#000000" x="10" y="20" width="20" height="40"/>'),
        ({"kind": "region", "box": (10, 20, 30, 60)},
         '<rect id="p" fill="#000000" x="10" y="20" width="20" height="40"/>'),
        ({"kind": "point", "box": (5, 7, 12, 9), "text": "2"},
         '<circle id="p" fill="#000000" cx="8.5" cy="8" r="2.25"/>'),
        ({"kind": "marker", "box": (4, 6, 12, 14)}, '<circle id="p" fill="#000000" cx="8" cy="10" r="4"/>'),
        ({"kind": "title", "box": (3, 10, 50, 30), "text": "a<b"},
         '<text id="p" fill="#000000" x="3" y="27" font-size="15">a&lt;b</text>'),
        ({"kind": "legend", "box": (3, 10, 50, 31), "text": "b"},
         '<text id="p" fill="#000000" x="3" y="27" font-size="16">b</text>'),
        ({"kind": "text", "box": (3, 10, 50, 10), "text": "-"},
         '<text id="p" fill="#000000" x="3" y="10" font-size="1">-</text>'),
        ({"kind": "text", "box": (3, 10, 50, 13), "text": "-"},
         '<text id="p" fill="#000000" x="3" y="13" font-size="2">-</text>'),
    ],
)  # fmt: skip
def test_parts_as_svg(part: dict[str, Any], element: str) -> None:
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="70" height="90">'
    assert as_svg((70, 90), [ChartPart(id="p", **part)]) == f"{head}\n{element}\n</svg>"


def test_the_largest_shapes_are_listed_and_the_others_counted() -> None:
    picture = Image.new("RGB", (260, 220), "white")
    pen = ImageDraw.Draw(picture)
    for number in range(122):
        x, y = 4 + 18 * (number % 14), 4 + 18 * (number // 14)
        pen.rectangle((x, y, x + 5 + (number > 2), y + 5 + (number == 100)), fill=RED)
    found = OpenCv().call({"box": [2, 2, 260, 220]}, ToolContext({"drawn": picture}))
    value: Any = found.value
    assert (value["count"], len(value["primitives"]), value["primitives"][0]["box"]) == (122, 120, [40, 130, 47, 137])
    assert found.text == value["svg"] + "\n2 smaller shapes are not listed."
    assert value["svg"].splitlines()[:2] == [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="2 2 258 218">',
        '<rect x="2" y="2" width="100%" height="100%" fill="#ffffff"/>',
    ]
    for least, count in ((42, 119), (43, 1), (36, 122), (49, 1), (50, 0)):
        value = OpenCv().call({"min_area": least}, ToolContext({"drawn": picture})).value
        assert value["count"] == count
    assert "not listed" not in OpenCv().call({"min_area": 42}, ToolContext({"drawn": picture})).text


def test_chartocr_redraws_texts_alone_or_gives_the_graph() -> None:
    board = standing({"Mon": (30, 75), "Tue": (50, 20)})
    context = ToolContext({"chart": board.picture})
    drawn: Any = reading(ChartOcr(), board, least=0.3).call({}, context)
    lines = drawn.text.splitlines()
    assert drawn.value["svg"] == drawn.text
    assert [line[:5] for line in lines[1:-1]] == ["<text"] * len(board.lines)
    assert lines[0] == '<svg xmlns="http://www.w3.org/2000/svg" width="460" height="320">'
    assert (drawn.value["relations"], drawn.value["chart"], len(drawn.value["rows"])) == ([], "bar", 4)
    asked: Any = reading(ChartOcr(), board, least=0.3).call({}, context, alias="chartocr_scg")
    assert (asked.value["svg"], len(asked.value["parts"])) == ("", 4 + len(board.lines))
    assert [(edge["source"], edge["relation"], edge["target"]) for edge in asked.value["relations"]][:4] == [
        ("bar_1", "at", "category_1"), ("bar_1", "of", "legend_1"),
        ("bar_2", "at", "category_1"), ("bar_2", "of", "legend_2"),
    ]  # fmt: skip
    head = "bar chart 'Harvest', values in units of the axis:"
    assert asked.text.splitlines()[:3] == [head, "Mon | North | 30", "Mon | South | 75"]


def test_chartdet_counts_each_kind_and_joins_neighbours() -> None:
    board = standing({"Mon": (30, 75), "Tue": (50, 20)})
    board.pen.ellipse((380, 200, 410, 230), fill=GREEN)
    found: Any = ChartDet().call({"task": "scg", "box": [0, 0, 460, 318]}, ToolContext({"chart": board.picture}))
    assert [part["id"] for part in found.value["parts"]] == [
        "bar_1", "bar_2", "bar_3", "bar_4", "patch_1", "patch_2", "marker_1",
    ]  # fmt: skip
    assert found.value["parts"][0]["box"] == [75, 200, 95, 260]
    edges = [(edge["source"], edge["relation"], edge["target"]) for edge in found.value["relations"]]
    assert edges[:3] == [(f"bar_{n}", "before", f"bar_{n + 1}") for n in (1, 2, 3)]
    assert len(edges) == 7
    assert json.loads(found.text) == found.value
    blank: Any = ChartDet().call({}, ToolContext({"blank": Image.new("RGB", (90, 60), "white")}))
    assert blank.text == "No part of a chart was found in blank."
