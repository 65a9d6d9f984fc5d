"""What terms measure and statements demand, worked by hand on a figure whose every place is known."""

from __future__ import annotations

from math import acos, degrees, pi, radians

import numpy as np
import pytest

from saccade.plugins.vista.geometry import inter_gps as solving
from saccade.plugins.vista.geometry.figure import FormError, PlaneFigure, State, fit, read_term
from saccade.plugins.vista.geometry.measures import centre_of, measure
from saccade.plugins.vista.geometry.statements import implied, residuals_of

PLACES = {
    "A": (0.0, 0.0), "B": (4.0, 0.0), "C": (4.0, 3.0), "D": (0.0, 3.0),  # a rectangle
    "E": (2.0, 0.0), "F": (2.0, 3.0), "K": (1.0, 0.0), "H": (12.0, 0.0),
    "O": (2.0, 1.5), "M": (3.0, 1.0), "N": (8 / 3, 1.0),  # the middle; of the triangle ABC: incentre, centroid
}  # fmt: skip
OTHERS = {"r.O": 2.0, "r.M": 0.5, "x": 4.0, "y": 7.0, "∠1": 50.0, "∠x": 30.0}
AOB = degrees(acos((-4 + 2.25) / 6.25))


def placed(figure: PlaneFigure) -> State:
    row = np.zeros((1, len(figure.columns)))
    for name, column in figure.columns.items():
        row[0, column] = OTHERS[name] if name in OTHERS else PLACES[name[:-2]]["xy".index(name[-1])]
    return State(figure.columns, row)


def read_all(*forms: str) -> PlaneFigure:
    figure = PlaneFigure()
    for form in forms:
        residuals_of(read_term(form), figure)
    return figure


def test_a_point_is_named_by_a_capital_letter_and_at_most_two_more() -> None:
    figure = PlaneFigure()
    assert [figure.point(name) for name in ("A", "Ab", "A12")] == figure.points == ["A", "Ab", "A12"]
    for name in ("", "a", "1", "A123", "A'"):
        with pytest.raises(FormError, match="names no point"):
            figure.point(name)


CIRCLE = ("Circle(O)", "PointLiesOnCircle(A,Circle(O))", "PointLiesOnCircle(B,Circle(O))")


@pytest.mark.parametrize(
    ("before", "term", "value"),
    [
        ((), "Line(A,B)", 4), ((), "LengthOf(Line(A,C))", 5), ((), "MeasureOf(Angle(A,B,C))", 90),
        (("Line(A,B)", "Line(B,C)"), "Angle(B)", 90), (("Line(A,B)", "Line(A,D)"), "MeasureOf(Angle(A))", 90),
        (("PointLiesOnLine(E,Line(A,B))", "Line(A,C)"), "Angle(A)", degrees(acos(0.8))),
        ((), "Angle(x)", 30), ((), "Angle(1)", 50), ((), "angle 1", 50), ((), "x", 4), ((), "2x+y", 15),
        (CIRCLE, "MeasureOf(Arc(A,B))", AOB), (CIRCLE, "Major(Arc(A,B))", 360 - AOB),
        (CIRCLE, "LengthOf(Arc(A,B))", radians(AOB) * 2), (CIRCLE, "MeasureOf(Minor(Arc(A,B)))", AOB),
        ((), "RadiusOf(Circle(O))", 2), ((), "DiameterOf(Circle(O))", 4), ((), "CircumferenceOf(Circle(O))", 4 * pi),
        ((), "AreaOf(Circle(O))", 4 * pi), ((), "PerimeterOf(Circle(M))", pi), ((), "AreaOf(Circle(M))", pi / 4),
        ((), "AreaOf(Sector(O,A,B))", radians(AOB) / 2 * 6.25), ((), "AreaOf(Shaded(Triangle(A,B,C)))", 6),
        ((), "AreaOf(Rectangle(A,B,C,D))", 12), ((), "PerimeterOf(Rectangle(A,B,C,D))", 14),
        ((), "SideOf(Rectangle(B,C,D,A))", 3), ((), "HypotenuseOf(Triangle(A,B,C))", 5),
        ((), "RatioOf(Line(A,B),Line(B,C))", 4 / 3), ((), "RatioOf(Line(A,B))", 4),
        ((), "ScaleFactorOf(Triangle(B,C,D),Triangle(A,B,C))", 3 / 4), ((), "RatioOf(Triangle(A,B,C),2)", 2),
        ((), "SinOf(Angle(B,A,C))", 0.6), ((), "CosOf(Angle(B,A,C))", 0.8), ((), "TanOf(Angle(B,A,C))", 0.75),
        ((), "Add(2,3,4)", 9), ((), "SumOf(2,3,4)", 9), ((), "Mul(2,3,4)", 24), ((), "Sub(7,2)", 5),
        ((), "Div(7,2)", 3.5), ((), "HalfOf(6)", 3), ((), "SquareOf(3)", 9),
    ],
)  # fmt: skip
def test_what_a_term_measures(before: tuple[str, ...], term: str, value: float) -> None:
    figure = read_all(*before)
    read = measure(read_term(term), figure)
    assert read(placed(figure)) == pytest.approx([value])


def test_statements_make_known_which_points_lines_join() -> None:
    for form, joined in (
        ("PointLiesOnLine(P,Line(A,B))", "AB AP BP"), ("IsMidpointOf(P,Line(A,B))", "AB AP BP"),
        ("BisectsAngle(Line(B,D),Angle(A,B,C))", "AB BC BD"), ("Equals(MeasureOf(Angle(A,B,C)),40)", "AB BC"),
        ("Triangle(A,B,C)", "AB AC BC"), ("Tangent(Line(P,T),Circle(O))", "PT"), ("Line(A,B)", "AB"),
    ):  # fmt: skip
        figure = read_all(form)
        assert figure.lines == {frozenset(pair) for pair in joined.split()}, form
        ends = sorted(pair.replace("A", "") for pair in joined.split() if "A" in pair)
        assert figure.neighbours("A") == ends


@pytest.mark.parametrize(
    ("names", "centre"),
    [("AB", "O"), ("BA", "O"), ("AK", "O"), ("KA", "O"), ("CK", "M"), ("KC", "M"), ("AC", "O"), ("EK", None),
     ("KE", None), ("KH", None), ("AO", "O")],
)  # fmt: skip
def test_an_arc_is_of_the_circle_on_which_one_of_its_ends_lies(names: str, centre: str | None) -> None:
    figure = read_all("Circle(O)", "Circle(M)", "Circle(N)")
    for circle, points in (("O", "ABE"), ("M", "CE"), ("N", "E")):
        figure.circles[circle] |= set(points)
    if centre is None:
        with pytest.raises(FormError, match=f"not one circle through {names[0]}, {names[1]}"):
            centre_of(names, figure)
        return
    known = figure.circles[centre] | {centre}
    assert centre_of(names, figure) == centre
    assert figure.arc_ends == [(name, centre) for name in names if name not in known]
    assert figure.circles[centre] >= set(names) - {centre}


@pytest.mark.parametrize(
    ("term", "why"),
    [
        ("Wobbly(A,B)", "Wobbly is not known"), ("MeasureOf(Angle(A,B,C),x)", "MeasureOf has one argument, not 2"),
        ("Angle(A,B)", "one or three names, not 2"), ("Angle(B)", "angle at B is not one"),
        ("Arc(A)", "named by two or three points"), ("Arc(A,B,C,D)", "named by two or three points"),
        ("RadiusOf(Line(A,B))", r"Line\(A,B\) is no circle"), ("RadiusOf(Circle)", "Circle is no circle"),
        ("AreaOf(Line(A,B))", "no polygon"), ("AreaOf(Triangle(A,B))", "no polygon with its corners named"),
        ("PerimeterOf(Triangle($))", "no polygon"), ("Line(A,A)", "named by two points, not A, A"),
        ("Line(A,B,C)", "not A, B, C"), ("Line(a,B)", "'a' names no point"),
        ("RatioOf(x,y,z)", "at most two arguments, not 3"),
    ],
)  # fmt: skip
def test_what_measures_nothing(term: str, why: str) -> None:
    with pytest.raises(FormError, match=why):
        measure(read_term(term), PlaneFigure())


@pytest.mark.parametrize(
    ("before", "form", "values"),
    [
        ((), "Equals(LengthOf(Line(A,B)),5)", [-2 / 9]), ((), "Equals(x,5)", [-2 / 9]),
        ((), "Equals(MeasureOf(Angle(A,B,C)),70)", [1]), (CIRCLE, "Equals(MeasureOf(Arc(A,B)),90)", [(AOB - 90) / 20]),
        (CIRCLE, "Equals(LengthOf(Arc(A,B)),1)", [2 * (radians(AOB) * 2 - 1) / (radians(AOB) * 2 + 1)]),
        ((), "Perpendicular(Line(A,B),Line(A,C))", [0.8]), ((), "Parallel(Line(A,B),Line(A,C))", [0.6]),
        ((), "PointLiesOnLine(E,Line(A,B))", [0, 0]), ((), "PointLiesOnLine(C,Line(A,B))", [-0.75, 0]),
        ((), "PointLiesOnLine(Point(B),Line(A,E))", [0, 1]), ((), "PointLiesOnLine(A,Line(E,B))", [0, 1]),
        ((), "PointLiesOnLine(A,Line(A,B))", []), ((), "PointLiesOnLine(B,Line(A,B))", []),
        ((), "PointLiesOnCircle(A,Circle(O))", [0.25]), (CIRCLE, "PointLiesOnCircle(A,Circle(O))", []),
        ((), "PointLiesOnCircle(O,Circle(O))", []), ((), "Circle(O)", []),
        ((), "IsMidpointOf(Point(B),Line(A,H))", [0, 0, -2 / 3]), ((), "IsMidpointOf(E,Line(A,B))", [0, 0, 0]),
        ((), "BisectsAngle(Line(B,D),Angle(A,B,C))", [(90 - 2 * degrees(acos(0.6))) / 20]),
        ((), "BisectsAngle(Line(D,B),Angle(A,B,C))", [(90 - 2 * degrees(acos(0.6))) / 20]),
        ((), "Tangent(Line(A,B),Circle(O))", [-0.25]), (CIRCLE[:2], "Tangent(Line(A,H),Circle(O))", [0.8]),
        (("PointLiesOnCircle(H,Circle(O))",), "Tangent(Line(A,H),Circle(O))", [10 / 102.25**0.5]),
        ((), "IsDiameterOf(Line(A,B),Circle(O))", [0.25, 0.25, -0.375, 0]),
        ((), "IsRadiusOf(Line(O,A),Circle(O))", [0.25]), ((), "IsChordOf(Line(A,B),Circle(O))", [0.25, 0.25]),
        ((), "IsAltitudeOf(Line(C,E),Triangle(A,B,C))", [-2 / 13**0.5, 0]),
        ((), "IsAltitudeOf(Line(F,C),Triangle(A,B,C))", [-1, -3 / 13**0.5]),
        ((), "IsAltitudeOf(Line(C,A),Triangle(A,B,C))", [-0.8]),
        ((), "IsAltitudeOf(Line(C,D),Triangle(A,B,C))", [-1, -1]),
        ((), "IsMedianOf(Line(C,K),Triangle(A,B,C))", [0, 0, -1]),
        ((), "IsMedianOf(Line(E,C),Triangle(A,B,C))", [0, 0, 0]),
        (("PointLiesOnLine(K,Line(A,B))", "PointLiesOnLine(F,Line(C,D))"), "IsMedianOf(Line(K,F),Rectangle(A,B,C,D))",
         [-1, 0]),
        (("PointLiesOnLine(K,Line(A,B))", "PointLiesOnLine(F,Line(C,D))"), "IsMidsegmentOf(Line(F,K),Square(A,B,C,D))",
         [0, -1]),
        (("PointLiesOnLine(K,Line(A,H))", "PointLiesOnLine(K,Line(A,B))", "PointLiesOnLine(F,Line(C,D))"),
         "IsMidsegmentOf(Line(F,K),Square(A,B,C,D))", [0, -1]),
        ((), "IsIncenterOf(Point(M),Triangle(A,B,C))", [0, 0, 0]),
        ((), "IsIncenterOf(Point(E),Triangle(A,B,C))",
         [degrees(acos(0.8)) / 20, -4.5, (2 * degrees(acos(3 / 13**0.5)) - degrees(acos(0.6))) / 20]),
        ((), "IsCentroidOf(Point(N),Triangle(A,B,C))", [0, 0]), ((), "IsCentroidOf(E,Triangle(A,B,C))", [1 / 6, 0.25]),
        ((), "InscribedIn(Rectangle(A,B,C,D),Circle(O))", [0, 0, 0, *[0.25] * 4]),
        ((), "CircumscribedTo(Triangle(A,B,C),Circle(M))", [1, 1, 1]),
        ((), "CircumscribedTo(Rhombus(A,B,C,D),Circle(O))", [0, 0, 2 / 7, -0.25, 0, -0.25, 0]),
        ((), "RightAngle(Angle(B,A,C))", [(degrees(acos(0.8)) - 90) / 20]),
        ((), "Similar(Triangle(A,B,C),Triangle(A,B,D))", [0.5, -0.5]),
        ((), "Congruent(Triangle(A,B,C),Triangle(A,E,F))", [2 / 3, 2 * (4 * 13**0.5 - 10) / (4 * 13**0.5 + 10), 2 / 3]),
        ((), "Similar(Rectangle(A,B,C,D),Rectangle(A,E,F,D))", [2 / 3, 0, 2 / 3, 0, 0, 0, 0]),
        ((), "Similar(Rectangle(A,B,C,D),Kite(A,B,C,F))",
         [0, -2 / 3, 2 * (13**0.5 - 3) / (13**0.5 + 3), degrees(acos(3 / 13**0.5)) / 20, 0, 0,
          -degrees(acos(3 / 13**0.5)) / 20]),
        ((), "UseTheorem(x)", []), ((), "IsDiagonalOf(Line(A,C),Square(A,B,C,D))", []), ((), "Line(A,B)", []),
        ((), "Parallelogram(A,B,C,F)", [0, 2 / 13**0.5]), ((), "Rectangle(A,B,C,F)", [0, 2 / 13**0.5, 0]),
        ((), "Rhombus(A,B,C,D)", [0, 0, 2 / 7]), ((), "Square(A,B,C,D)", [0, 0, 2 / 7, 0]),
        ((), "Square(A,C,D,B)", [-0.96, 0, 2 / 9, -0.8]),
        ((), "Trapezoid(A,B,C,F)", [0]), ((), "Trapezoid(B,C,F,A)", [0]),
        ((), "Isosceles(Trapezoid(A,B,C,F))", [0, 2 * (3 - 13**0.5) / (3 + 13**0.5)]),
        ((), "Kite(A,B,C,F)", [2 * (4 - 13**0.5) / (4 + 13**0.5), 0.4]),
        ((), "Isosceles(Triangle(A,B,C))", [-2 / 9]), ((), "Isosceles(Triangle(B,C,A))", [2 / 9]),
        *(((), f"Right(Triangle({corners}))", [0]) for corners in ("A,B,C", "C,A,B", "B,C,A")),
        ((), "Right(Triangle(A,B,F))", [-5 / 13]),
        ((), "Regular(Triangle(A,B,C))",
         [2 / 7, -2 / 9, (degrees(acos(0.8)) - 60) / 20, 1.5, (degrees(acos(0.6)) - 60) / 20]),
        ((), "Regular(Rectangle(A,B,C,D))", [2 / 7, 0, 2 / 7, 0, 0, 0, 0]),
        ((), "Quadrilateral(A,B,C,D)", []),
    ],
)  # fmt: skip
def test_what_a_statement_demands(before: tuple[str, ...], form: str, values: list[float]) -> None:
    figure = read_all(*before)
    made = residuals_of(read_term(form), figure)
    state = placed(figure)
    assert [float(residual(state)[0]) for residual in made] == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("Wobbly(A)", "Wobbly is not known"), ("Equals(x)", "Equals has two arguments"),
        ("Perpendicular(Line(A,B))", "Perpendicular has two lines"), ("PointLiesOnLine(A)", "a point and a line"),
        ("PointLiesOnCircle(A)", "a point and a circle"), ("Tangent(Line(A,B),Line(A,C))", "is no circle"),
        ("Circle($)", "names no point"), ("BisectsAngle(Line(A,D),Angle(A,B,C))", "its corner on the line"),
        ("BisectsAngle(Line(A,B),Angle(B))", "named by three points"),
        ("Rectangle(A,B,C)", "Rectangle has four corners"),
        ("IsAltitudeOf(Line(D,E),Triangle(A,B,C))", "an altitude begins in a corner"),
        ("IsMedianOf(Line(D,E),Triangle(A,B,C))", "a median begins in a corner"),
        ("IsMidsegmentOf(Line(E,F),Triangle(A,B,C))", "on which side E lies"),
        ("Similar(Triangle(A,B,C),Rectangle(A,B,C,D))", "as many corners"),
        ("Congruent(Line(A,B),Line(C,D))", "write Equals"),
        ("IsMidpointOf(A,Line(A,B))", "not A, A"), ("PointLiesOnLine(Line(C,D),Line(A,B))", "'Line' names no point"),
        ("Perpendicular(Line,Line(A,B))", "not none"),
        ("PointLiesOnLine(Point,Line(A,B))", "'Point' names no point"), ("IsMidpointOf(B,Line(A,B))", "not B, B"),
    ],
)  # fmt: skip
def test_what_demands_nothing(form: str, why: str) -> None:
    with pytest.raises(FormError, match=why):
        residuals_of(read_term(form), PlaneFigure())


@pytest.mark.parametrize(
    ("form", "values"),
    [
        ("Find(AreaOf(Rhombus(A,B,C,D)))", [0, 0, 2 / 7]),
        ("Equals(AreaOf(Right(Triangle(A,B,F))),4)", [-5 / 13]),
        ("Find(AreaOf(Rhombus($)))", []),
        ("Find(AreaOf(Triangle(A,B,C)))", []),
    ],
)
def test_what_a_shape_within_a_statement_demands(form: str, values: list[float]) -> None:
    figure = PlaneFigure()
    made = implied(read_term(form), figure)
    assert [float(residual(placed(figure))[0]) for residual in made] == pytest.approx(values)


def test_rhombi_are_not_folded_up_whatever_the_starts() -> None:
    forms = ("Rhombus(A,B,C,D)", "Equals(LengthOf(Line(A,C)),6)", "Equals(LengthOf(Line(B,D)),8)",
             "Find(PerimeterOf(Rhombus(A,B,C,D)))")  # fmt: skip
    values = [solving.solve(forms, seed=seed).value for seed in range(3)]
    assert values == [pytest.approx(20)] * 3


def test_a_residual_or_a_slope_without_a_finite_value_has_no_solution() -> None:
    made = PlaneFigure()
    made.unknown("x")
    for residual in (lambda state: 1 / state["x"], lambda state: 1 + np.sqrt(state["x"])):
        found = fit([residual], made.columns, np.array([0.0]))
        assert (found.error, found.vector.tolist()) == (np.inf, [0])
