"""Diagrams that are drawn here, read with the labels that are known to stand in them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.plugins.vista.chart.drawn import Board
from tests.plugins.vista.geometry.figures import CORNERS, circle, on_rim, triangle

from saccade.plugins.vista.geometry.image_cdl import DiagramReading, _is_square, _marks, _shape, read_diagram


def test_a_right_triangle() -> None:
    board = triangle()
    reading = read_diagram(np.asarray(board.picture), board.lines)
    assert reading.kind == "polygon"
    assert {name: tuple(round(each / 10) for each in at) for name, at in reading.points.items()} == {
        "A": (6, 4), "B": (30, 24), "C": (6, 24),
    }  # fmt: skip
    assert [*_shape(reading), *_marks(reading)] == [
        "Triangle(A,B,C)", "Perpendicular(Line(B,C),Line(C,A))", "Equals(LengthOf(Line(C,A)),20)",
        "Equals(LengthOf(Line(B,C)),24)", "Equals(LengthOf(Line(A,B)),x)",
    ]  # fmt: skip


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


@pytest.mark.parametrize(
    ("turns", "chords"),
    [
        ((), ()),
        ((0,), (("O", "A"),)),
        ((90, 200), (("O", "A"), ("O", "B"))),
        ((0, 40, 300), (("O", "A"), ("O", "B"), ("O", "C"))),
        ((30, 210), (("A", "B"),)),
        ((30, 190), (("O", "A"), ("O", "B"))),
        ((30, 100, 210), (("A", "C"),)),
    ],
)
def test_radii_at_any_angle(turns: tuple[int, ...], chords: tuple[tuple[str, str], ...]) -> None:
    reading = read_diagram(circle(*turns), ())
    assert reading.kind == "circle"
    assert reading.chords == chords
    assert reading.points["O"] == pytest.approx((120, 120), abs=1)
    for name, turn in zip("ABC", turns, strict=False):
        assert reading.points[name] == pytest.approx(on_rim(turn, 100), abs=3)


def test_a_circle_may_lie_anywhere() -> None:
    aside = np.pad(circle(0, 90), ((20, 0), (70, 0), (0, 0)), constant_values=255)
    reading = read_diagram(aside, ())
    assert reading.chords == (("O", "A"), ("O", "B"))
    for name, place in (("O", (190, 140)), ("A", (290, 140)), ("B", (190, 240))):
        assert reading.points[name] == pytest.approx(place, abs=2)


@pytest.mark.parametrize("width", [4, 6, 8])
@pytest.mark.parametrize("turns", [(0,), (0, 90), (-1, 120, 240)])
def test_a_thick_radius_to_the_right_is_one(turns: tuple[int, ...], width: int) -> None:
    assert len(read_diagram(circle(*turns, width=width), ()).chords) == len(turns)


def test_what_is_written_outside_a_circle_or_is_no_number_labels_nothing() -> None:
    board = Board((1, 1))
    board.write("7", (170, 112))
    board.write("9", (232, 112))
    board.write("Fig; 3", (80, 100))
    assert [label.text for label in read_diagram(circle(0), board.lines).labels] == ["7"]
    assert read_diagram(circle(), board.lines).labels == ()


def polygon(*corners: tuple[float, float], ink: int = 0, size: tuple[int, int] = (360, 300)) -> np.ndarray:
    picture = Image.new("RGB", size, "white")
    ImageDraw.Draw(picture).polygon(corners, outline=(ink, ink, ink), width=2)
    return np.asarray(picture)


@pytest.mark.parametrize(("count", "kind"), [(3, "polygon"), (5, "polygon"), (8, "polygon"), (9, "unknown")])
def test_corners_go_clockwise_from_the_top(count: int, kind: str) -> None:
    turns = [360 * number / count - 85 for number in range(count)]
    corners = [on_rim(turn) for turn in turns]
    for order in (corners, corners[::-1], corners[2:] + corners[:2]):
        reading = read_diagram(polygon(*order, size=(240, 240)), ())
        assert reading.kind == kind
        if kind == "polygon":
            assert [*reading.points] == [*"ABCDEFGH"[:count]]
            for name, corner in zip(reading.points, corners, strict=True):
                assert reading.points[name] == pytest.approx(corner, abs=4)


@pytest.mark.parametrize(
    ("text", "at", "label"),
    [
        ("40", (90, 200), ("40", ("B", "C", "A"))),  # inside
        ("40", (80, 80), ("40", ("C", "A", "B"))),
        ("40°", (320, 250), None),  # of no angle inside
        ("40", (320, 250), None),  # beside a corner: of either side
        ("4", (90, 200), None),
        ("(2x+4)", (90, 205), ("2x+4", ("B", "C", "A"))),
        ("X", (36, 140), ("x", ("C", "A"))),
        ("AB", (36, 140), None),  # names of points
        ("C", (44, 252), None),
        ("x", (44, 252), None),
        ("4x-17", (180, 262), ("4x-17", ("B", "C"))),
        ("2 x", (196, 126), ("2x", ("A", "B"))),
        ("no; 3", (196, 126), None),
    ],
)
def test_labels_name_the_nearest_angle_or_side(
    text: str, at: tuple[int, int], label: tuple[str, tuple[str, ...]] | None
) -> None:
    board = Board((1, 1))
    board.write(text, at)
    found = read_diagram(polygon(*CORNERS), board.lines).labels
    assert [(one.text, one.at) for one in found] == ([] if label is None else [label])


def test_a_blank_picture_is_unknown() -> None:
    assert read_diagram(np.full((60, 60, 3), 255, np.uint8), ()).kind == "unknown"


def lettered(
    *letters: tuple[str, tuple[int, int]], **more: tuple[tuple[float, float], tuple[float, float]]
) -> DiagramReading:
    """The triangle with letters, and lines besides its own."""
    board = triangle()
    for letter, at in letters:
        board.write(letter, at)
    for line in more.values():
        board.pen.line(line, fill="black", width=2)
    return read_diagram(np.asarray(board.picture), board.lines)


def test_printed_names_of_points_are_used_and_are_no_lengths() -> None:
    reading = lettered(("M", (60, 26)), ("Q", (314, 244)), ("P", (46, 250)))
    assert [*reading.points] == ["M", "Q", "P"]
    assert [*_marks(reading)] == [
        "Perpendicular(Line(Q,P),Line(P,M))", "Equals(LengthOf(Line(P,M)),20)", "Equals(LengthOf(Line(Q,P)),24)",
        "Equals(LengthOf(Line(M,Q)),x)",
    ]  # fmt: skip
    assert [*lettered(("B", (60, 26))).points] == ["B", "A", "C"], "no name twice"


@pytest.mark.parametrize(
    "letters",
    [
        (("M", (180, 226)),),  # on a side: a point that was not found
        (("M", (110, 180)),),  # inside
        (("M", (60, 26)), ("N", (50, 26))),  # two at one corner
        (("M", (60, 26)), ("M", (46, 250))),
    ],
)
def test_letters_of_points_that_were_not_found_make_a_diagram_unknown(
    letters: tuple[tuple[str, tuple[int, int]], ...],
) -> None:
    assert lettered(*letters).kind == "unknown"


def test_lines_besides_the_outline_make_a_diagram_unknown() -> None:
    assert lettered(height=((60, 240), (160, 124))).kind == "unknown"
    assert lettered(longer=((300, 240), (350, 240))).kind == "unknown"
    assert lettered(aside=((320, 20), (320, 120))).kind == "unknown"
    assert lettered(stroke=((175, 234), (175, 246))).kind == "polygon"
    chord = circle(0).copy()
    chord[90:92, 40:200] = 0
    assert read_diagram(chord, ()).kind == "unknown"


def test_a_circle_has_the_names_that_are_printed() -> None:
    board = Board((1, 1))
    for letter, at in (("X", (112, 132)), ("M", (232, 124))):
        board.write(letter, at)
    reading = read_diagram(circle(0), board.lines)
    assert [*_shape(reading)] == ["Circle(X)", "PointLiesOnCircle(M,Circle(X))"]
    board.write("N", (120, 8))
    assert read_diagram(circle(0), board.lines).kind == "unknown"
