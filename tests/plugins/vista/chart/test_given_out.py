"""What the chart tools give out of what was read: parts, names, relations, table and SVG, to the letter."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.plugins.vista.chart.drawn import BLUE, GREEN, RED, Board, standing

from saccade.plugins.vista.chart.marks import ChartKind, ChartLegendEntry, ChartMark, ColourShape
from saccade.plugins.vista.chart.reading import ChartReading, TextRole
from saccade.plugins.vista.chart.tools import (
    ChartDet,
    ChartOcr,
    ChartPart,
    ChartPrimitive,
    OpenCv,
    _element_opencv,
    _inside,
    _named,
    _relations_chartdet,
    _row,
    _table,
    as_svg,
)
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.base import Needs
from saccade.tools.context import ToolContext
from saccade.tools.definition import PixelBox
from saccade.tools.look import Look


def text(words: str, *box: int) -> TextLine:
    x0, y0, x1, y1 = box
    return TextLine(text=words, confidence=1.0, box=(x0, y0, x1, y1), corners=((0.0, 0.0),) * 4)


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


@pytest.mark.parametrize(
    ("primitive", "element"),
    [
        ({"kind": "rectangle", "box": (1, 2, 6, 10)}, '<rect x="1" y="2" width="5" height="8" fill="#2454cd"/>'),
        ({"kind": "circle", "box": (1, 2, 6, 10)}, '<ellipse cx="3.5" cy="6" rx="2.5" ry="4" fill="#2454cd"/>'),
        ({"kind": "polygon", "box": (1, 2, 6, 10), "points": ((1, 2), (5.5, 2), (3, 9))},
         '<polygon points="1,2 5.5,2 3,9" fill="#2454cd"/>'),
    ],
)  # fmt: skip
def test_primitives_as_svg(primitive: dict[str, Any], element: str) -> None:
    assert _element_opencv(ChartPrimitive(color=BLUE, **primitive)) == element


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


NORTH = ChartLegendEntry(text("North", 60, 0, 90, 10), RED)
MON = text("Mon", 10, 50, 30, 60)
SEEN = Look("chart", (100, 200, 200, 300), np.zeros((100, 100, 3), np.uint8))


def reading(kind: ChartKind, *marks: ChartMark) -> ChartReading:
    title, note = text("Sales", 40, 1, 60, 9), text("?", 1, 1, 3, 9)
    texts: tuple[tuple[TextLine, TextRole], ...] = (
        (title, "title"), (MON, "category"), (NORTH.text, "legend"), (note, "other"),
    )  # fmt: skip
    return ChartReading(kind, (), None, (NORTH,), marks, texts)


def test_marks_and_texts_are_named_by_kind_and_lie_in_the_whole_image() -> None:
    bars = [ChartMark("bar", (10, 20, 30, 50), RED, MON, NORTH, 12.3456), ChartMark("bar", (40, 30, 60, 50), RED)]
    parts = [part for part, _ in _named(reading("bar", *bars), SEEN)]
    assert [(part.id, part.kind, part.box, part.color, part.text, part.value) for part in parts] == [
        ("bar_1", "bar", (110, 220, 130, 250), RED, "", 12.35),
        ("bar_2", "bar", (140, 230, 160, 250), RED, "", None),
        ("title_1", "title", (140, 201, 160, 209), None, "Sales", None),
        ("category_1", "category", (110, 250, 130, 260), None, "Mon", None),
        ("legend_1", "legend", (160, 200, 190, 210), RED, "North", None),
        ("text_1", "text", (101, 201, 103, 209), None, "?", None),
    ]
    rows = tuple(_row(mark) for mark in bars)
    assert [(row.label, row.series, row.value) for row in rows] == [("Mon", "North", 12.35), ("", "", None)]
    assert _table(reading("bar", *bars), rows) == (
        "bar chart 'Sales', values in units of the axis:\nMon | North | 12.35\n(no label) | unread"
    )


def test_the_middle_of_a_mark_is_that_of_its_box() -> None:
    assert ChartMark("bar", (10, 20, 30, 50), RED).center == (20, 35)


def test_a_slice_is_labelled_by_its_name_alone() -> None:
    cat = ChartMark("slice", (0, 0, 9, 9), RED, NORTH.text, NORTH, 62.5)
    row = _row(cat)
    assert (row.label, row.series, row.value) == ("North", "", 62.5)
    plain = ChartReading("pie", (), None, (NORTH,), (cat,), ())
    assert _table(plain, (row,)) == "pie chart, values in percent of the whole:\nNorth | 62.5"


def reader(board: Board) -> ChartOcr:
    """The tool where an engine, which is not ours, finds what was written on the board."""
    tool: Any = ChartOcr()
    tool.needs = Needs()

    def run(arguments: Any, context: ToolContext) -> Any:
        assert arguments.min_confidence == 0.3
        assert context.image(None).size == board.picture.size
        return SimpleNamespace(value=SimpleNamespace(lines=tuple(board.lines)))

    tool._ocr = SimpleNamespace(run=run)
    made: ChartOcr = tool
    return made


def test_chartocr_redraws_texts_alone_or_gives_the_graph() -> None:
    board = standing({"Mon": (30, 75)})
    context = ToolContext({"chart": board.picture})
    drawn: Any = reader(board).call({}, context)
    lines = drawn.text.splitlines()
    assert drawn.value["svg"] == drawn.text
    assert [line[:5] for line in lines[1:-1]] == ["<text"] * len(board.lines)
    assert lines[0] == '<svg xmlns="http://www.w3.org/2000/svg" width="460" height="320">'
    assert (drawn.value["relations"], drawn.value["chart"], len(drawn.value["rows"])) == ([], "bar", 2)
    asked: Any = reader(board).call({}, context, alias="chartocr_scg")
    assert (asked.value["svg"], len(asked.value["parts"])) == ("", 2 + len(board.lines))
    assert [(edge["source"], edge["relation"], edge["target"]) for edge in asked.value["relations"]] == [
        ("bar_1", "at", "category_1"), ("bar_1", "of", "legend_1"),
        ("bar_2", "at", "category_1"), ("bar_2", "of", "legend_2"),
    ]  # fmt: skip
    assert asked.text == "bar chart 'Harvest', values in units of the axis:\nMon | North | 30\nMon | South | 75"


@pytest.mark.parametrize(
    ("box", "inside"),
    [((0, 0, 20, 40), True), ((10, 0, 20, 40), True), ((11, 0, 20, 40), False), ((0, 0, 10, 40), True),
     ((0, 0, 9, 40), False), ((0, 20, 20, 40), True), ((0, 21, 20, 40), False), ((0, 0, 20, 20), True),
     ((0, 0, 20, 19), False)],
)  # fmt: skip
def test_a_shape_is_in_a_bar_where_its_middle_is(box: PixelBox, inside: bool) -> None:
    middle = ColourShape("region", (5, 10, 15, 30), RED, 1, np.zeros((0, 2), np.int32))
    assert _inside(middle, box) is inside


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


def test_only_a_patch_shares_its_colour_with_bars() -> None:
    parts = [
        ChartPart(id="bar_1", kind="bar", box=(0, 0, 1, 1), color=RED),
        ChartPart(id="bar_2", kind="bar", box=(0, 0, 1, 1)),
        ChartPart(id="patch_1", kind="patch", box=(0, 0, 1, 1), color=RED),
        ChartPart(id="patch_2", kind="patch", box=(0, 0, 1, 1), color=BLUE),
        ChartPart(id="patch_3", kind="patch", box=(0, 0, 1, 1)),
        ChartPart(id="marker_1", kind="marker", box=(0, 0, 1, 1), color=RED),
    ]
    assert [(edge.source, edge.relation, edge.target) for edge in _relations_chartdet(parts)] == [
        ("bar_1", "before", "bar_2"), ("bar_1", "same_color", "patch_1"),
    ]  # fmt: skip
