"""`opencv`, `chartdet` and `chartocr` on drawn charts; the last with OCR, where it is installed."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image
from tests.tools.chart.drawn import BLUE, RED, standing

from saccade.tools.base import Tool
from saccade.tools.chart.chartdet import ChartDet
from saccade.tools.chart.chartocr import ChartOcr
from saccade.tools.chart.opencv import OpenCv
from saccade.tools.context import ToolContext
from saccade.tools.ocr import Ocr

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
