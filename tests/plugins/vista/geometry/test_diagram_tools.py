"""The tools around a diagram and its text: statements, places and what was not understood."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from tests.plugins.vista.chart.drawn import Board
from tests.plugins.vista.geometry.figures import circle, triangle

from saccade.plugins.vista.geometry.image_cdl import (
    ConstructionCdl,
    DiagramLabel,
    DiagramReading,
    ImageCdl,
    _marks,
    _shape,
)
from saccade.plugins.vista.geometry.text_cdl import GoalCdl, TextCdl
from saccade.plugins.vista.ocr import Ocr
from saccade.tools.base import Needs, Tool
from saccade.tools.context import ToolContext


def reading(tool: Any, board: Board) -> Any:
    """The tool where an engine, which is not ours, finds what was written on the board."""

    def run(arguments: Any, context: ToolContext) -> Any:
        assert arguments.min_confidence == 0.2
        assert context.image(None).size == board.picture.size
        return SimpleNamespace(value=SimpleNamespace(lines=tuple(board.lines)))

    tool.needs, tool._ocr = Needs(), SimpleNamespace(run=run)
    return tool


def test_the_tools_give_measures_outline_and_places() -> None:
    board = triangle()
    picture = Image.new("RGB", (440, 340), "white")
    picture.paste(board.picture, (40, 20))
    context = ToolContext({"diagram": picture})
    measured = reading(ImageCdl(), board).call({"box": [40, 20, 400, 320]}, context).value
    assert measured["cdl"] == [
        "PerpendicularBetweenLine(BC,CA)", "Equal(LengthOfLine(CA),20)", "Equal(LengthOfLine(BC),24)",
        "Equal(LengthOfLine(AB),x)",
    ]  # fmt: skip
    assert measured["logic_forms"][:2] == ["Triangle(A,B,C)", "Perpendicular(Line(B,C),Line(C,A))"]
    assert measured["points"]["A"] == pytest.approx([100, 60], abs=3)
    built = reading(ConstructionCdl(), board).call({"box": [40, 20, 400, 320]}, context).value
    assert (built["image"], built["cdl"], built["logic_forms"]) == ("diagram", ["Shape(AB,BC,CA)"], ["Triangle(A,B,C)"])


@pytest.mark.parametrize(
    ("turns", "cdl"),
    [((), []), ((90, 200), ["Cocircular(O,AB)"]), ((30, 100, 210), ["Cocircular(O,ABC)", "Collinear(AOC)"])],
)
def test_how_a_circle_is_built(turns: tuple[int, ...], cdl: list[str]) -> None:
    board = Board((240, 240))
    board.picture = Image.fromarray(circle(*turns))
    result = reading(ConstructionCdl(), board).call({}, ToolContext({"a": board.picture}))
    assert (result.value["cdl"], result.value["logic_forms"][0]) == (cdl, "Circle(O)")
    blank = reading(ConstructionCdl(), Board((90, 90))).call(
        {}, ToolContext({"a": Image.new("RGB", (90, 90), "white")})
    )
    assert blank.text.startswith("No polygon or circle that stands alone was found")


@pytest.mark.parametrize(
    ("count", "name"),
    [(3, "Triangle"), (4, "Quadrilateral"), (5, "Pentagon"), (6, "Hexagon"), (7, "Heptagon"), (8, "Octagon")],
)
def test_polygons_by_their_corners(count: int, name: str) -> None:
    corners = "ABCDEFGH"[:count]
    seen = DiagramReading("polygon", dict.fromkeys(corners, (0.0, 0.0)))
    assert list(_shape(seen)) == [f"{name}({','.join(corners)})"]


def test_marks_of_equal_sides_and_of_angles() -> None:
    sides = (("A", "B"), ("B", "C"), ("C", "A"))
    for count, equal in ((0, []), (1, []), (2, ["BC"]), (3, ["BC", "CA"])):
        seen = DiagramReading("polygon", {}, (DiagramLabel("60", ("A", "B", "C")),), equal_sides=sides[:count])
        assert list(_marks(seen)) == [
            *(f"Equals(LengthOf(Line(A,B)),LengthOf(Line({a},{b})))" for a, b in equal),
            "Equals(MeasureOf(Angle(A,B,C)),60)",
        ]


@pytest.mark.slow
@pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")
@pytest.mark.parametrize(
    ("tool", "cdl"), [(ImageCdl(), "Equal(LengthOfLine(BC),24)"), (ConstructionCdl(), "Shape(AB,BC,CA)")]
)
def test_the_tools_read_the_labels_themselves(tool: Tool[Any, Any], cdl: str) -> None:
    picture = Image.new("RGB", (440, 340), "white")
    picture.paste(triangle().picture, (40, 20))
    result = tool.call({"box": [20, 10, 430, 330]}, ToolContext({"diagram": picture}))
    assert result.ok, result.problem
    value: Any = result.value
    assert cdl in value["cdl"]
    assert value["points"]["A"] == pytest.approx([100, 60], abs=3)


def test_text_and_goal() -> None:
    text = {"text": "In triangle ABC, AB = 5. Find the length of BC, which nobody knows."}
    said = TextCdl().call(text, ToolContext({}))
    assert said.value == {
        "cdl": ["Equal(LengthOfLine(AB),5)"],
        "logic_forms": ["Equals(LengthOf(Line(A,B)),5)", "Find(LengthOf(Line(B,C)))"],
        "unread": ["△ ABC", "which nobody knows"],
    }
    goal = GoalCdl().call(text, ToolContext({}))
    assert goal.value == {"cdl": "Value(LengthOfLine(BC))", "logic_form": "Find(LengthOf(Line(B,C)))"}
    assert GoalCdl().call({"text": "A picture."}, ToolContext({})).text == "No goal was understood in this text."
