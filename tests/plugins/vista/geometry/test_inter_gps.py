"""What `$` stands for: the one figure that is named, or that a sketch shows; and nothing where there are two."""

from __future__ import annotations

import pytest

from saccade.plugins.vista.geometry.figure import read_term
from saccade.plugins.vista.geometry.inter_gps import solve, with_names

SQUARE = {"A": (0.0, 0.0), "B": (10.0, 0.0), "C": (10.0, 10.0), "D": (0.0, 10.0)}
SIDES = ("Line(A,B)", "Line(B,C)", "Line(C,D)", "Line(D,A)")


def named(form: str, *others: str, sketch: dict[str, tuple[float, float]] | None = None) -> str:
    return str(with_names([read_term(form), *map(read_term, others)], sketch or {})[0])


@pytest.mark.parametrize(
    ("form", "others", "wanted"),
    [
        ("Rhombus($)", ("Quadrilateral(A,B,C,D)",), "Rhombus(A,B,C,D)"),
        ("Rhombus($)", ("Quadrilateral(A,B,C,D)", "Triangle(A,B,E)"), "Rhombus(A,B,C,D)"),
        ("Rhombus($)", ("Triangle(A,B,E)",), "Rhombus($)"),
        ("Rhombus($)", ("Quadrilateral(A,B,C,D)", "Quadrilateral(A,B,E,F)"), "Rhombus($)"),
        ("Rhombus($)", ("Quadrilateral(A,B,C,D)", "Parallelogram(B,C,D,A)"), "Rhombus(A,B,C,D)"),
        ("Isosceles(Triangle($))", ("Right(Triangle(A,B,C))",), "Isosceles(Triangle(A,B,C))"),
        ("Regular(Pentagon($))", ("Pentagon(A,B,C,D,E)", "Hexagon(A,B,C,D,E,F)"), "Regular(Pentagon(A,B,C,D,E))"),
        ("Regular(Hexagon($))", ("Pentagon(A,B,C,D,E)", "Hexagon(A,B,C,D,E,F)"), "Regular(Hexagon(A,B,C,D,E,F))"),
        ("Heptagon($)", ("Polygon(A,B,C,D,E,F,G)", "Octagon(A,B,C,D,E,F,G,H)"), "Heptagon(A,B,C,D,E,F,G)"),
        ("Octagon($)", ("Polygon(A,B,C,D,E,F,G)", "Shape(A,B,C,D,E,F,G,H)"), "Octagon(A,B,C,D,E,F,G,H)"),
        ("Find(AreaOf(Shaded(Shape($))))", ("Triangle(A,B,C)",), "Find(AreaOf(Shaded(Shape(A,B,C))))"),
        ("Find(AreaOf(Shape($)))", ("Triangle(A,B,C)", "Square(A,B,D,E)"), "Find(AreaOf(Shape($)))"),
        ("RadiusOf(Circle($))", ("Circle(O)", "Tangent(Line(A,B),Circle(O))", "Circle(O,r)"), "RadiusOf(Circle(O))"),
        ("RadiusOf(Circle($))", ("Circle(O)", "Circle(P)"), "RadiusOf(Circle($))"),
        ("RadiusOf(Circle($))", ("Circle($)", "Triangle(A,B,C)"), "RadiusOf(Circle($))"),
        ("LengthOf(Line($))", ("Triangle(A,B,C)",), "LengthOf(Line($))"),
    ],
)
def test_the_one_figure_that_is_named(form: str, others: tuple[str, ...], wanted: str) -> None:
    assert named(form, *others) == wanted


@pytest.mark.parametrize(
    ("form", "others", "places", "wanted"),
    [
        ("Square($)", SIDES, {}, "Square(A,B,C,D)"),
        ("Square($)", (*SIDES, "Line(A,C)", "Line(B,D)"), {}, "Square(A,B,C,D)"),
        ("Square($)", SIDES[:3], {}, "Square($)"),
        ("Square($)", ("Equals(LengthOf(Line(D,A)),3)", *SIDES[:3]), {}, "Square(A,B,C,D)"),
        ("Rhombus($)", SIDES, {"A": (50, -5), "B": (55, 0), "C": (50, 5), "D": (45, 0)}, "Rhombus(A,B,C,D)"),
        ("Rhombus($)", SIDES, {"A": (-5, 50), "B": (0, 45), "C": (5, 50), "D": (0, 55)}, "Rhombus(A,B,C,D)"),
        ("Square($)", SIDES, {"D": (9.5, 9.0)}, "Square($)"),  # beyond the diagonal: dented
        ("Square($)", SIDES, {"D": (4.452, 5.548)}, "Square(A,B,C,D)"),  # it turns there by 12.5 degrees
        ("Square($)", SIDES, {"D": (4.497, 5.503)}, "Square($)"),  # by 11.5: as good as straight
        ("Square($)", SIDES, {"D": (5.0, 4.9)}, "Square($)"),  # no corner: on the line between its neighbours
        ("Triangle($)", (*SIDES, "Line(A,C)"), {}, "Triangle($)"),  # there are two
        ("Triangle($)", (*SIDES[:2], "Line(C,A)", SIDES[2]), {}, "Triangle(A,B,C)"),
        ("Polygon($)", SIDES, {}, "Polygon($)"),
    ],
)
def test_the_one_outline_of_a_sketch(
    form: str, others: tuple[str, ...], places: dict[str, tuple[float, float]], wanted: str
) -> None:
    for turn in (1, -1):  # rows that run down, rows that run up
        sketch = {name: (x, turn * y) for name, (x, y) in (SQUARE | places).items()}
        found = named(form, *others, sketch=sketch)
        head, corners = found.split("(")
        assert (head, sorted(corners)) == (wanted.split("(")[0], sorted(wanted.split("(")[1])), found
        if len(corners) == len("A,B,C,D)"):  # in the order in which they follow each other
            assert corners[:-1].replace(",", "") in "ABCDABCDCBADCBA", found


def test_many_points_are_not_tried_in_all_ways() -> None:
    names = [f"P{number}" for number in range(40)]
    sketch = {name: (float(number), float(number**2)) for number, name in enumerate(names)}
    lines = [f"Line({a},{b})" for a, b in zip(names, [*names[1:], names[0]], strict=True)]
    assert named("Octagon($)", *lines, sketch=sketch) == "Octagon($)"


def test_a_text_of_the_quadrilateral_is_solved_on_the_diagram() -> None:
    given = (*SIDES, "Equals(LengthOf(Line(A,B)),2x+3)", "Equals(LengthOf(Line(C,D)),x+8)", "Find(x)")
    assert solve(given, SQUARE).status == "open"
    found = solve(("Parallelogram($)", *given), SQUARE)
    assert found.value == pytest.approx(5)
    assert not found.unread
