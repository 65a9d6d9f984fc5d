"""Terms, expressions, English sentences and CDL: each by a table."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.plugins.vista.geometry.figure import FormError, read_term
from saccade.plugins.vista.geometry.inter_gps import exact_form
from saccade.plugins.vista.geometry.measures import read_expression
from saccade.plugins.vista.geometry.statements import as_cdl
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
