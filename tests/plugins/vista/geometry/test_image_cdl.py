"""Diagrams that are drawn here, read with the labels that are known to stand in them."""

from __future__ import annotations

from math import cos, radians, sin

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.plugins.vista.chart.drawn import Board
from tests.plugins.vista.geometry.figures import CORNERS, circle, on_rim, triangle

from saccade.plugins.vista.geometry.image_cdl import (
    _beside,
    _has_stroke,
    _inked,
    _is_ray,
    _is_square,
    _labels,
    _marks,
    _opposite,
    _shape,
    read_diagram,
)
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import Point


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


@pytest.mark.parametrize(
    ("ink", "angle", "square"),
    [
        ([(24, 24), (24, 8), (8, 24)], 90, True), ([(24, 24), (24, 8)], 90, False), ([(24, 24), (8, 24)], 90, False),
        ([(24, 8), (8, 24)], 90, False), ([(24, 24), (24, 8), (8, 24), (12, 12)], 90, False),
        ([(24, 24), (24, 8), (8, 24)], 88.1, True), ([(24, 24), (24, 8), (8, 24)], 87.9, False),
        ([(10, 10), (10, 4), (4, 10)], 90, False), ([(11, 11), (11, 4), (4, 11)], 90, True),
        ([(26, 26), (26, 8), (8, 26)], 90, True), ([(27, 27), (27, 9), (9, 27)], 90, False),
    ],
)  # fmt: skip
def test_a_right_angle_is_marked_at_three_places_of_its_square(
    ink: list[tuple[int, int]], angle: float, square: bool
) -> None:
    figure = np.zeros((60, 60), np.uint8)
    for x, y in ink:
        figure[10 + y, 10 + x] = 1
    end = (10 + 40 * cos(radians(angle)), 10 + 40 * sin(radians(angle)))
    assert _is_square(figure, (50, 10), (10, 10), end) is square


def test_ink_is_seen_a_pixel_away_up_to_the_edge_of_the_picture() -> None:
    for row, column in np.ndindex(4, 5):
        figure = np.zeros((4, 5), np.uint8)
        figure[row, column] = 1
        for y, x in np.ndindex(4, 5):
            assert _inked(figure, x + 0.4, y - 0.4) is (max(abs(x - column), abs(y - row)) <= 1)


@pytest.mark.parametrize(("above", "below", "marked"), [(4, 4, True), (3, 4, False), (4, 3, False), (9, 0, False)])
def test_a_stroke_reaches_five_pixels_to_both_sides(above: int, below: int, marked: bool) -> None:
    figure = np.zeros((40, 120), np.uint8)
    figure[20 - above : 21 + below, 60] = 1
    assert _has_stroke(figure, (10, 20), (110, 20)) is marked
    assert _has_stroke(figure.T, (20, 110), (20, 10)) is marked


@pytest.mark.parametrize(("aside", "marked"), [(-2, False), (-1, True), (1, True), (2, False)])
def test_a_stroke_crosses_the_middle_of_a_side(aside: int, marked: bool) -> None:
    figure = np.zeros((40, 120), np.uint8)
    figure[14:27, 60 + aside] = 1
    assert _has_stroke(figure, (10, 20), (110, 20)) is marked


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


@pytest.mark.parametrize(("ink", "kind"), [(0, "polygon"), (194, "polygon"), (195, "unknown")])
def test_ink_differs_from_paper_by_more_than_60(ink: int, kind: str) -> None:
    assert read_diagram(polygon(*CORNERS, ink=ink), ()).kind == kind
    dark = 255 - polygon(*CORNERS, ink=ink)
    assert read_diagram(dark, ()).kind == kind


@pytest.mark.parametrize(("side", "kind"), [(39, "unknown"), (40, "polygon")])
def test_what_is_at_most_40_pixels_wide_is_a_letter(side: int, kind: str) -> None:
    corners = [(20, 20), (20 + side, 20), (20 + side, 50), (20, 50)]
    assert read_diagram(polygon(*corners), ()).kind == kind


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
        ("40°", (320, 250), ("40", ("A", "B", "C"))),  # outside, of an angle
        ("40", (320, 250), ("40", ("B", "C"))),
        ("X", (36, 140), ("x", ("C", "A"))),
        ("AB", (36, 140), ("AB", ("C", "A"))),
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


@pytest.mark.parametrize(("at", "distance"), [((5, 3), 13 / 5), ((1, 2), 0), ((7, 10), 0), ((0, 9), 5), ((-3, -5), 1)])
def test_how_far_a_place_is_from_a_line(at: Point, distance: float) -> None:
    assert _beside((1, 2), (4, 6), at) == _beside((4, 6), (1, 2), at) == pytest.approx(distance)


@pytest.mark.parametrize(
    ("middle", "place"),
    [
        ((40, 0), "AB"), ((40, 1), "DAB"), ((60, 1), "ABC"), ((60, 29), "BCD"), ((40, 29), "CDA"),  # on a side, inside
        ((-1, 15), "DA"), ((101, 15), "BC"), ((50, 31), "CD"), ((21, -9), "AB"), ((10, -9), "DA"), ((10, 39), "DA"),
    ],
)  # fmt: skip
def test_a_label_on_a_side_is_that_of_the_nearest_middle(middle: Point, place: str) -> None:
    points: dict[str, Point] = {"A": (0.0, 0.0), "B": (100.0, 0.0), "C": (100.0, 30.0), "D": (0.0, 30.0)}
    x, y = middle
    line = TextLine(text="7", confidence=1.0, box=(x - 3, y - 4, x + 3, y + 4), corners=((0.0, 0.0),) * 4)
    assert [label.at for label in _labels(points, [line])] == [tuple(place)]


def test_of_two_corners_at_the_top_the_left_one_comes_first() -> None:
    points = read_diagram(polygon((20, 20), (120, 20), (120, 80), (20, 80)), ()).points
    assert points["A"] == pytest.approx((20, 20), abs=2)
    assert points["B"] == pytest.approx((120, 20), abs=2)


def test_of_two_figures_the_larger_is_read() -> None:
    both = np.minimum(polygon(*CORNERS), polygon((240, 40), (300, 40), (300, 100), (240, 100)))
    assert list(read_diagram(both, ()).points) == ["A", "B", "C"]


@pytest.mark.parametrize(("radius", "turns"), [(60, (0, 83, 187)), (300, (0.5, 23, 112.5, 233))])
def test_thin_radii_are_found_at_any_angle_in_circles_of_any_size(radius: int, turns: tuple[float, ...]) -> None:
    middle = radius + 20
    picture = Image.new("RGB", (2 * middle, 2 * middle), "white")
    pen = ImageDraw.Draw(picture)
    pen.ellipse((20, 20, 2 * radius + 20, 2 * radius + 20), outline="black", width=2)
    ends = [(middle + radius * cos(radians(turn)), middle + radius * sin(radians(turn))) for turn in turns]
    for end in ends:
        pen.line((middle, middle, *end), fill="black")
    points = read_diagram(np.asarray(picture), ()).points
    assert list(points) == [*"OABCD"[: len(turns) + 1]]
    for name, end in zip("ABCD", ends, strict=False):
        assert points[name] == pytest.approx(end, abs=2)


@pytest.mark.parametrize(
    ("blank", "full"),
    [
        (range(0), True), (range(16), True), (range(17), False), (range(90, 100), True), (range(89, 100), False),
        (range(44, 47), True), (range(42, 47), False),  # seen at 43 and 47
    ],
)  # fmt: skip
def test_a_radius_is_a_stroke_from_near_the_centre_to_near_the_rim(blank: range, full: bool) -> None:
    figure = np.zeros((240, 240), np.uint8)
    figure[120, 120:220] = 1
    figure[120, [120 + column for column in blank]] = 0
    assert _is_ray(figure, (120.0, 120.0), 100.0, 0.0) is full
    assert not _is_ray(figure, (120.0, 120.0), 100.0, 45.0)


@pytest.mark.parametrize(
    ("a", "b", "opposite"),
    [((20, 120), (220, 120), True), ((24, 120), (220.5, 120), True), ((24, 120), (219.5, 120), False),
     ((20, 129.9), (220, 129.9), True), ((20, 130), (220, 130), False)],
)  # fmt: skip
def test_a_diameter_is_nearly_two_radii_long_and_runs_through_the_centre(a: Point, b: Point, opposite: bool) -> None:
    assert _opposite(a, b, (120, 120), 100) is opposite


def test_a_blank_picture_is_unknown() -> None:
    assert read_diagram(np.full((60, 60, 3), 255, np.uint8), ()).kind == "unknown"
