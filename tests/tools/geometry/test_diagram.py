"""Diagrams that are drawn here, read with the labels that are known to stand in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.tools.chart.drawn import Board

from saccade.tools.base import Tool
from saccade.tools.context import ToolContext
from saccade.tools.geometry.diagram import _has_stroke, _is_square, read_diagram
from saccade.tools.geometry.image_cdl import ConstructionCdl, ImageCdl, _marks, _shape
from saccade.tools.geometry.text_cdl import GoalCdl, TextCdl
from saccade.tools.ocr import Ocr

CORNERS = [(60, 40), (300, 240), (60, 240)]


def triangle() -> Board:
    board = Board((360, 300))
    board.pen.polygon(CORNERS, outline="black", width=2)
    board.pen.line([(60, 226), (74, 226), (74, 240)], fill="black", width=2)
    board.write("20", (36, 140))
    board.write("24", (180, 262))
    board.write("X", (196, 126))
    return board


def test_a_right_triangle() -> None:
    board = triangle()
    reading = read_diagram(np.asarray(board.picture), board.lines)
    assert reading.kind == "polygon"
    assert {name: tuple(round(each / 10) for each in at) for name, at in reading.points.items()} == {
        "A": (6, 4), "B": (30, 24), "C": (6, 24),
    }  # fmt: skip
    assert [*_shape(reading), *_marks(reading)] == [
        "Triangle(A,B,C)",
        "Perpendicular(Line(B,C),Line(C,A))",
        "Equals(LengthOf(Line(C,A)),20)",
        "Equals(LengthOf(Line(B,C)),24)",
        "Equals(LengthOf(Line(A,B)),x)",
    ]


def test_an_arc_is_no_right_angle_and_strokes_are_equal_sides() -> None:
    board = Board((360, 300))
    top, left, right = (180, 40), (80, 240), (280, 240)
    board.pen.polygon([top, left, right], outline="black", width=2)
    for end in (left, right):
        x, y = (top[0] + end[0]) / 2, (top[1] + end[1]) / 2
        across = (6, 3 if end == left else -3)
        board.pen.line((x - across[0], y - across[1], x + across[0], y + across[1]), fill="black", width=2)
    board.pen.arc((50, 210, 110, 270), 296, 360, fill="black", width=2)
    board.write("63°", (118, 218))
    reading = read_diagram(np.asarray(board.picture), board.lines)
    assert reading.right_angles == ()
    assert set(reading.equal_sides) == {("A", "B"), ("C", "A")}
    assert [(label.text, label.at[1]) for label in reading.labels] == [("63", "C")]


@pytest.mark.parametrize(("turn", "angle", "square"), [(0, 90, True), (30, 90, True), (200, 90, True), (30, 80, False)])
def test_the_square_of_a_right_angle_may_lie_anyhow(turn: int, angle: int, square: bool) -> None:
    def at(along: float, across: float) -> tuple[float, float]:
        first, second = np.radians(turn), np.radians(turn + angle)
        return (
            100 + float(along * np.cos(first) + across * np.cos(second)),
            100 + float(along * np.sin(first) + across * np.sin(second)),
        )

    picture = Image.new("L", (200, 200))
    ImageDraw.Draw(picture).line([at(18, 0), at(18, 18), at(0, 18)], fill=1)
    assert _is_square(np.asarray(picture, np.uint8), at(80, 0), (100, 100), at(0, 80)) is square


@pytest.mark.parametrize(("second", "single"), [(None, True), (7, True), (8, False), (10, False), (11, True)])
def test_a_second_stroke_beside_the_first_is_another_mark(second: int | None, single: bool) -> None:
    for turn in (1, -1):
        figure = np.zeros((40, 120), np.uint8)
        figure[20, 10:111] = 1
        for shift in (0, *(() if second is None else (second * turn,))):
            figure[14:27, 60 + shift] = 1
        assert _has_stroke(figure, (10, 20), (110, 20)) is single


@pytest.mark.parametrize(("start", "forms"), [(100, 2), (0, 4)])
def test_a_circle_with_a_radius_or_a_diameter(start: int, forms: int) -> None:
    picture = Image.new("RGB", (240, 240), "white")
    pen = ImageDraw.Draw(picture)
    pen.ellipse((20, 20, 220, 220), outline="black", width=2)
    pen.line((120 if start else 21, 120, 219, 120), fill="black", width=2)
    board = Board((1, 1))
    board.write("7", (170, 108))
    reading = read_diagram(np.asarray(picture), board.lines)
    assert reading.kind == "circle"
    assert len(list(_shape(reading))) == forms
    (mark,) = _marks(reading)
    assert mark == ("Equals(LengthOf(Line(O,A)),7)" if start else "Equals(LengthOf(Line(A,B)),7)")


def test_each_label_in_a_circle_is_that_of_the_nearest_radius() -> None:
    board = Board((240, 240))
    board.pen.ellipse((20, 20, 220, 220), outline="black", width=2)
    board.pen.line((120, 120, 219, 120), fill="black", width=2)
    board.pen.line((120, 120, 120, 219), fill="black", width=2)
    board.write("7", (170, 108))
    board.write("5", (108, 170))
    reading = read_diagram(np.asarray(board.picture), board.lines)
    assert reading.chords == (("O", "A"), ("O", "B"))
    assert [(label.text, label.at) for label in reading.labels] == [("7", ("O", "A")), ("5", ("O", "B"))]


def test_a_blank_picture_is_unknown() -> None:
    assert read_diagram(np.full((60, 60, 3), 255, np.uint8), ()).kind == "unknown"


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
