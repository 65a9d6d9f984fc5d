"""Terms, expressions, English sentences and CDL: each by a table."""

from __future__ import annotations

from math import acos, degrees, pi, radians

import numpy as np
import pytest

from saccade.plugins.vista.geometry import inter_gps as solving
from saccade.plugins.vista.geometry.figure import FormError, PlaneFigure, State, fit, read_term
from saccade.plugins.vista.geometry.inter_gps import exact_form
from saccade.plugins.vista.geometry.measures import centre_of, measure, read_expression
from saccade.plugins.vista.geometry.statements import as_cdl, implied, residuals_of
from saccade.plugins.vista.geometry.text_cdl import read_english


def test_terms() -> None:
    term = read_term(" Equals( LengthOf(Line(A, B)), 4x-17 ) ")
    assert str(term) == "Equals(LengthOf(Line(A,B)),4x-17)"
    assert term.args[0].args[0].names == ("A", "B")
    assert str(read_term("Equals(x,(2x+1)/5)")) == "Equals(x,(2x+1)/5)"
    assert (read_term("Of(x)").head, read_term("f(x)").head) == ("Of", "f(x)"), "a letter before a bracket is a factor"


@pytest.mark.parametrize(
    "text", ["Find(x", "Find(ab", "Line(A,,B)", "Equals(a))b(", "Find((x)", "Find(a)(b)", "", "x" * 401]
)
def test_no_terms(text: str) -> None:
    with pytest.raises(FormError):
        read_term(text)
    assert str(read_term("x" * 400)) == "x" * 400


def test_brackets_are_read_twelve_deep() -> None:
    deep = "Find(" * 12 + "x" + ")" * 12
    assert str(read_term(deep)) == deep
    with pytest.raises(FormError, match="nested too deeply"):
        read_term(f"Find({deep})")


@pytest.mark.parametrize(
    ("text", "x", "value"),
    [
        ("4x-17", 10, 23), ("-x+1", 2, -1), (r"\sqrt{3}x", 2, 2 * 3**0.5), (r"\frac{1}{2}x", 5, 2.5), ("3(x-4)", 6, 6),
        ("x^2", 3, 9), ("(2x+1)/5", 7, 3), ("60°", 0, 60), (r"45^\circ", 0, 45), ("4\\pi", 0, 4 * np.pi),
        ("2-3-4", 0, -5), ("2*x/4", 6, 3), ("--x", 2, 2), ("-x-+1", 2, -3), ("2x^2", 3, 18), ("x**3", 2, 8),
        ("-x^2", 3, -9),
        ("√x", 9, 3),
        ("√x", 0.25, 0.5), ("√x", -4, 0), ("+-+-x", 2, 2),
        ("sqrt(x+7)", 9, 4), (".5x", 3, 1.5), ("2(x+1)(x-1)", 3, 16), (r"\frac{x}{4}x", 6, 9),
        (r"2\times x\cdot 3", 2, 12), ("πx", 1, np.pi), ("50%", 0, 50), (r"x\text{ cm}", 5, 5),
    ],
)  # fmt: skip
def test_expressions(text: str, x: float, value: float) -> None:
    evaluate, unknowns = read_expression(text)
    assert unknowns <= {"x"}
    assert evaluate({"x": x}) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"), ("4+", "ends too early"), ("(x", "bracket .* is not closed"),
        ("__import__('os')", "sign .* '_'"),
        ("x;y", "sign that no expression has: ';'"), ("\\frac{1}", "ends too early"), ("x)2", "from '\\)' on"),
        ("4*/2", "read at '/'"),
    ],
)  # fmt: skip
def test_no_expressions(text: str, why: str) -> None:
    with pytest.raises(FormError, match=why):
        read_expression(text)


@pytest.mark.parametrize(
    ("text", "statements", "goal"),
    [
        ("Find x.", (), "Find(x)"),
        (
            r"In $\odot X, A B=30$ and $m \widehat{C Z}=40$. Find $m \widehat{A B}$",
            ("Circle(X)", "Equals(LengthOf(Line(A,B)),30)", "Equals(MeasureOf(Arc(C,Z)),40)"),
            "Find(MeasureOf(Arc(A,B)))",
        ),
        (r"Find $m \angle A B C$.", (), "Find(MeasureOf(Angle(A,B,C)))"),
        ("If AB is parallel to CD and angle 1 = 35, find the measure of angle 2.",
         ("Parallel(Line(A,B),Line(C,D))", "Equals(MeasureOf(Angle(1)),35)"), "Find(MeasureOf(Angle(2)))"),
        ("What is the perimeter of parallelogram ABCD?", (), "Find(PerimeterOf(Parallelogram(A,B,C,D)))"),
        (r"$\triangle R S T \cong \triangle X Y Z$. Find y.",
         ("Congruent(Triangle(R,S,T),Triangle(X,Y,Z))",), "Find(y)"),
        ("Quadrilateral ABDC is a rectangle. Find the area of rectangle ABDC.", ("Rectangle(A,B,D,C)",),
         "Find(AreaOf(Rectangle(A,B,D,C)))"),
        ("D is the midpoint of AC. BD bisects ∠ABC. Find the length of BD.",
         ("IsMidpointOf(Point(D),Line(A,C))", "BisectsAngle(Line(B,D),Angle(A,B,C))"), "Find(LengthOf(Line(B,D)))"),
        ("Lengths are in cm. What is the area of the right triangle, in square cm?", (), "Find(AreaOf(Triangle($)))"),
        ("Find sin A.", (), "Find(SinOf(Angle(A)))"),
        ("It rains today.", (), ""),
    ],
)  # fmt: skip
def test_english(text: str, statements: tuple[str, ...], goal: str) -> None:
    found = read_english(text)
    assert found.statements == statements
    assert found.goal == goal
    assert found.unread == (() if goal else ("It rains today",))


@pytest.mark.parametrize(
    ("clause", "statements"),
    [
        ("AB ⟂ CD, EF ≅ GH", ("Perpendicular(Line(A,B),Line(C,D))", "Equals(LengthOf(Line(E,F)),LengthOf(Line(G,H)))")),
        ("∠ABC ≅ ∠2", ("Equals(MeasureOf(Angle(A,B,C)),MeasureOf(Angle(2)))",)),
        ("∠ABC is a right angle", ("Equals(MeasureOf(Angle(A,B,C)),90)",)),
        ("m∠ABC is 35", ("Equals(MeasureOf(Angle(A,B,C)),35)",)),
        ("AB is x", ("Equals(LengthOf(Line(A,B)),x)",)),
        ("∠C is a wide angle", ()),
        ("AB is a long side", ()),
        (r"$\triangle ABC \sim \triangle DEF$", ("Similar(Triangle(A,B,C),Triangle(D,E,F))",)),
        ("△ABC is equilateral", ("Equilateral(Triangle(A,B,C))",)),
        ("△ABC is an isosceles triangle", ("Isosceles(Triangle(A,B,C))",)),
        ("The right △ABC has AB = 3x + 5", ("Right(Triangle(A,B,C))", "Equals(LengthOf(Line(A,B)),3x+5)")),
        ("PT is tangent to ⊙O", ("Circle(O)", "Tangent(Line(P,T),Circle(O))")),
        ("AB is a diameter of ⊙O", ("Circle(O)", "IsDiameterOf(Line(A,B),Circle(O))")),
        ("AB is the radius of circle O", ("Circle(O)", "IsRadiusOf(Line(A,B),Circle(O))")),
        ("AB is a chord of ⊙O", ("Circle(O)", "IsChordOf(Line(A,B),Circle(O))")),
        ("AD is a median of △ABC", ("IsMedianOf(Line(A,D),Triangle(A,B,C))",)),
        ("AD is an altitude of △ABC", ("IsAltitudeOf(Line(A,D),Triangle(A,B,C))",)),
        ("DE is the midsegment of △ABC", ("IsMidsegmentOf(Line(D,E),Triangle(A,B,C))",)),
        ("P is the incenter of △ABC", ("IsIncenterOf(Point(P),Triangle(A,B,C))",)),
        ("P is the centroid of triangle ABC", ("IsCentroidOf(Point(P),Triangle(A,B,C))",)),
        ("ABCD is a trapezoid", ("Trapezoid(A,B,C,D)",)),
        ("the quadrilateral is a rhombus", ("Rhombus($)",)),
        ("The quadrilateral is a rhombus", ("Rhombus($)",)),
        ("Each quadrilateral shown is a parallelogram", ("Parallelogram($)",)),
        ("The figure below is a rectangle", ("Rectangle($)",)),
        ("This shape is a square", ("Square($)",)),
        ("the figure is a kite", ("Kite($)",)),
        ("In the rhombus", ("Rhombus($)",)),
        ("The quadrilateral is an isosceles trapezoid", ("Trapezoid($)", "Isosceles(Trapezoid($))")),
        ("The trapezoid is isosceles", ("Trapezoid($)", "Isosceles(Trapezoid($))")),
        ("The triangle is isosceles", ("Isosceles(Triangle($))",)),
        ("The triangle is an equilateral triangle", ("Equilateral(Triangle($))",)),
        ("In the right-angled triangle shown", ("Right(Triangle($))",)),
        ("The figure is an isosceles right triangle", ("Isosceles(Triangle($))", "Right(Triangle($))")),
        ("The hexagon is regular", ("Hexagon($)", "Regular(Hexagon($))")),
        ("The hexagon is equilateral", ()),
        ("The quadrilateral is a drawing", ()),
        ("The triangle", ()),
        ("△ABC is an isosceles right triangle", ("Isosceles(Triangle(A,B,C))", "Right(Triangle(A,B,C))")),
        ("ABCD is an isosceles trapezoid", ("Trapezoid(A,B,C,D)", "Isosceles(Trapezoid(A,B,C,D))")),
        ("ABCDE is a regular pentagon", ("Pentagon(A,B,C,D,E)", "Regular(Pentagon(A,B,C,D,E))")),
        ("kite ABCD is drawn", ("Kite(A,B,C,D)",)),
        ("the radius of ⊙X is 5", ("Circle(X)", "Equals(RadiusOf(Circle(X)),5)")),
        ("m∠ABC = m∠DEF", ("Equals(MeasureOf(Angle(A,B,C)),MeasureOf(Angle(D,E,F)))",)),
        ("AB = CD", ("Equals(LengthOf(Line(A,B)),LengthOf(Line(C,D)))",)),
        ("x is 5", ("Equals(x,5)",)),
        (r"Assume that \overline{AB} \perp \overline{CD}", ("Perpendicular(Line(A,B),Line(C,D))",)),
        ("AB = CDE", ()),
        ("AB = 3 = 4", ()),
        ("= 4", ()),
    ],
)
def test_clauses_that_state_something(clause: str, statements: tuple[str, ...]) -> None:
    found = read_english(f"{clause}. Find x.")
    assert (found.statements, found.goal) == (statements, "Find(x)")
    assert bool(found.unread) is not bool(statements)


@pytest.mark.parametrize(
    ("text", "statements", "unread"),
    [
        ("In the figure, AB = 5.", ("Equals(LengthOf(Line(A,B)),5)",), ()),
        ("in the figure below, AB = 5.", ("Equals(LengthOf(Line(A,B)),5)",), ()),
        ("In this diagram, AB = 5.", ("Equals(LengthOf(Line(A,B)),5)",), ()),
        ("As shown in the figure, AB = 5.", ("Equals(LengthOf(Line(A,B)),5)",), ()),
        ("AB = 5 in the picture shown.", ("Equals(LengthOf(Line(A,B)),5)",), ()),
        ("AB = 5 in the other picture.", (), ("AB = 5 in the other picture",)),
        ("AB = 5 sin 30 in this figure.", ("Equals(LengthOf(Line(A,B)),5sin30)",), ()),
        ("The figure has two parts, AB = 5.", ("Equals(LengthOf(Line(A,B)),5)",), ("The figure has two parts",)),
        ("In the figure drawn by Ann, AB = 5.", ("Equals(LengthOf(Line(A,B)),5)",), ("the figure drawn by Ann",)),
    ],
)
def test_a_clause_that_only_names_the_picture_says_nothing(
    text: str, statements: tuple[str, ...], unread: tuple[str, ...]
) -> None:
    found = read_english(f"{text} Find x.")
    assert (found.statements, found.unread) == (statements, unread)


@pytest.mark.parametrize(
    ("asked", "term"),
    [
        ("Find m⌒AB.", "MeasureOf(Arc(A,B))"), ("Find cos ∠ABC.", "CosOf(Angle(A,B,C))"), ("Find sin x.", "SinOf(x)"),
        ("Find the circumference of ⊙X.", "CircumferenceOf(Circle(X))"),
        ("Find the perimeter of △ABC.", "PerimeterOf(Triangle(A,B,C))"),
        ("Find the area of the circle.", "AreaOf(Circle($))"),
        ("Find its area of hexagon ABCDEF.", "AreaOf(Hexagon(A,B,C,D,E,F))"),
        ("Find the area of ABCD.", "AreaOf(Quadrilateral(A,B,C,D))"),
        ("Find AB to the nearest tenth.", "LengthOf(Line(A,B))"), ("Find y in the figure.", "y"),
        ("Solve for x.", "x"), ("How long is AB?", "LengthOf(Line(A,B))"), ("Find the side AB.", "LengthOf(Line(A,B))"),
        ("Find the value of x. Find y.", "x"), (r"Find the measure of \angle 3 marked.", "MeasureOf(Angle(3))"),
        (r"Find $x^\circ$.", "x"),
        ("ABCD is a rectangle with AB = 4. What is its area?", "AreaOf(Quadrilateral(A,B,C,D))"),
        ("△ABC is right. Find its perimeter.", "PerimeterOf(Triangle(A,B,C))"),
        ("A circle has a radius of 5. What is its circumference?", "CircumferenceOf(Circle($))"),
        ("The area of the rhombus is 25 square units. What is the perimeter?", "PerimeterOf(Rhombus($))"),
    ],
)  # fmt: skip
def test_what_is_asked_for(asked: str, term: str) -> None:
    assert read_english(asked).goal == f"Find({term})"


@pytest.mark.parametrize(
    "asked",
    [
        "What is its area?", "△ABC and △DEF are similar. What is its area?", "△ABC is right. What is its radius?",
        "A triangle lies in a circle. What is its area?", "ABCD lies in ⊙X. Find its area.",
        "A circle lies in ABCD. Find its area.", "Find the area of the shaded part.",
    ],
)  # fmt: skip
def test_its_size_is_no_goal_where_the_figure_is_not_the_only_one(asked: str) -> None:
    assert read_english(asked).goal == ""


@pytest.mark.parametrize(
    ("form", "cdl"),
    [
        ("Equals(LengthOf(Line(A,B)),5)", "Equal(LengthOfLine(AB),5)"),
        ("Find(MeasureOf(Angle(A,B,C)))", "Value(MeasureOfAngle(ABC))"),
        ("Perpendicular(Line(A,B),Line(C,D))", "PerpendicularBetweenLine(AB,CD)"),
        ("PointLiesOnLine(C,Line(A,B))", "Collinear(ACB)"),
        ("IsMidpointOf(Point(D),Line(A,C))", "IsMidpointOfLine(D,AC)"),
        ("Isosceles(Triangle(A,B,C))", "IsoscelesTriangle(ABC)"),
        ("Isosceles(Triangle($))", None),
        ("Rhombus($)", None),
        ("Circle($)", None),
        ("Isosceles(Trapezoid(A,B,C,D))", "IsoscelesTrapezoid(ABCD)"),
        ("Right(Trapezoid(A,B,C,D))", "RightTrapezoid(ABCD)"),
        ("Equilateral(Trapezoid(A,B,C,D))", None),
        ("Right(Rectangle(A,B,C,D))", None),
        ("Find(RadiusOf(Circle(O)))", "Value(RadiusOfCircle(O))"),
        ("Find(AreaOf(Shaded(Shape($))))", None),
        ("Find(AreaOf(Circle($)))", None),
        ("Find(AreaOf(Shaded(Square(A,B,C,D))))", "Value(AreaOfQuadrilateral(ABCD))"),
        ("Find(AreaOf(x))", None),
        ("Find(AreaOf(Triangle(A,B,C)))", "Value(AreaOfTriangle(ABC))"),
        ("Find(PerimeterOf(Square(A,B,C,D)))", "Value(PerimeterOfQuadrilateral(ABCD))"),
        ("Find(HeightOf(Triangle(A,B,C)))", None),
        ("Find(SinOf(Angle(A,B,C)))", "Value(Sin(MeasureOfAngle(ABC)))"),
        ("Equals(CosOf(Angle(A)),TanOf(y))", "Equal(Cos(MeasureOfAngle(A)),Tan(y))"),
        ("Equals(MeasureOf(Arc(A,B)),40)", "Equal(MeasureOfArc(AB),40)"),
        ("Equals(MeasureOf(Line(A,B)),40)", None),
        ("Equals(LengthOf(Arc(A,B)),40)", None),
        ("Equals(x,y)", "Equal(x,y)"),
        ("Equals(x)", None),
        ("Find(x,y)", None),
        ("Parallel(Line(A,B))", None),
        ("Congruent(Triangle(A,B,C),Triangle(D,E,F))", "CongruentBetweenTriangle(ABC,DEF)"),
        ("Similar(Triangle(A,B,C))", None),
        ("PointLiesOnLine(C)", None),
        ("PointLiesOnCircle(A,Circle(O,r))", "Cocircular(O,A)"),
        ("PointLiesOnCircle(A)", None),
        ("BisectsAngle(Line(A,D),Angle(B,A,C))", "IsBisectorOfAngle(AD,BAC)"),
        ("IsDiameterOf(Line(A,B),Circle(O))", "IsDiameterOfCircle(AB,O)"),
        ("IsMedianOf(Line(A,D),Triangle(A,B,C))", "IsMedianOfTriangle(AD,ABC)"),
        ("Right(Triangle(A,B,C),x)", None),
        ("Square(A,B,C,D)", "Square(ABCD)"),
        ("Circle(O)", "Circle(O)"),
        ("Circle(O,radius_0_0)", "Circle(O)"),
        ("Equals(RadiusOf(Circle(O,radius_0_0)),5)", "Equal(RadiusOfCircle(O),5)"),
        ("Tangent(Line(P,T),Circle(O,r))", "IsTangentOfCircle(PT,O)"),
        ("Tangent(Line(P,T))", None),
        ("IsMidpointOf(Point(D))", None),
        ("IsMedianOf(Line(A,D))", None),
        ("PointLiesOnLine(C,Line(A))", None),
        ("PointLiesOnCircle(A,r)", None),
        ("UseTheorem(Pythagoras)", None),
        ("Equals(", None),
    ],
)
def test_cdl(form: str, cdl: str | None) -> None:
    assert as_cdl(form) == cdl


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.0, "12"), (3.5, "7/2"), (5 * 3**0.5, "5*sqrt(3)"), (4.5 * np.pi, "9/2*pi"), (2**0.5 / 2, "1/2*sqrt(2)"),
        (-7.0, "-7"), (np.pi, "pi"), (3.0**0.5, "sqrt(3)"), (2.718281828, ""), (0.0, "0"),
        (1 / 60, "1/60"), (1 / 61, ""), (1 + 1e-6, "1"), (1 + 1.1e-6, ""), (1e7 + 5, "10000005"), (-1.0, "-1"),
        (1e-6, "0"), (1.1e-6, ""), (np.pi / 60, "1/60*pi"), (np.pi / 61, ""),
        (-np.pi, "-pi"), (8**0.5, "2*sqrt(2)"), (-(8**0.5), "-2*sqrt(2)"), (-(2**0.5), "-sqrt(2)"),
        (3**-0.5, "1/3*sqrt(3)"), (12**0.5 / 2, "sqrt(3)"), ((50 / 49) ** 0.5, "5/7*sqrt(2)"),
    ],
)  # fmt: skip
def test_exact_forms(value: float, text: str) -> None:
    assert exact_form(float(value)) == text


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
