"""Terms, expressions, English sentences and CDL: each by a table."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.tools.geometry.algebra import read_expression
from saccade.tools.geometry.cdl import as_cdl
from saccade.tools.geometry.english import read_english
from saccade.tools.geometry.exact import exact_form
from saccade.tools.geometry.terms import FormError, read_term


def test_terms() -> None:
    term = read_term(" Equals( LengthOf(Line(A, B)), 4x-17 ) ")
    assert str(term) == "Equals(LengthOf(Line(A,B)),4x-17)"
    assert term.args[0].args[0].names == ("A", "B")
    assert str(read_term("Equals(x,(2x+1)/5)")) == "Equals(x,(2x+1)/5)"


@pytest.mark.parametrize("text", ["Find(x", "Line(A,,B)", "Equals(a))b(", "", "F(" * 30 + "x" + ")" * 30, "x" * 500])
def test_no_terms(text: str) -> None:
    with pytest.raises(FormError):
        read_term("Find(" * 14 + "x" + ")" * 14 if text.startswith("F(") else text)


@pytest.mark.parametrize(
    ("text", "x", "value"),
    [
        ("4x-17", 10, 23), ("-x+1", 2, -1), (r"\sqrt{3}x", 2, 2 * 3**0.5), (r"\frac{1}{2}x", 5, 2.5), ("3(x-4)", 6, 6),
        ("x^2", 3, 9), ("(2x+1)/5", 7, 3), ("60°", 0, 60), (r"45^\circ", 0, 45), ("4\\pi", 0, 4 * np.pi),
        ("2-3-4", 0, -5),
    ],
)  # fmt: skip
def test_expressions(text: str, x: float, value: float) -> None:
    evaluate, unknowns = read_expression(text)
    assert unknowns <= {"x"}
    assert evaluate({"x": x}) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "4+", "(x", "__import__('os')", "x;y", "\\frac{1}"])
def test_no_expressions(text: str) -> None:
    with pytest.raises(FormError):
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
        ("Quadrilateral ABDC is a rectangle. Find the area of rectangle ABDC.", (), "Find(AreaOf(Rectangle(A,B,D,C)))"),
        ("D is the midpoint of AC. BD bisects ∠ABC. Find the length of BD.",
         ("IsMidpointOf(Point(D),Line(A,C))", "BisectsAngle(Line(B,D),Angle(A,B,C))"), "Find(LengthOf(Line(B,D)))"),
        ("Lengths are in cm. What is the area of the right triangle, in square cm?", (), "Find(AreaOf(Triangle($)))"),
        ("Find sin A.", (), "Find(SinOf(Angle(A)))"),
        ("It rains today.", (), ""),
    ],
)  # fmt: skip
def test_english(text: str, statements: tuple[str, ...], goal: str) -> None:
    found = read_english(text)
    assert set(statements) <= set(found.statements)
    assert found.goal == goal
    assert found.unread == (() if goal else ("It rains today",))


@pytest.mark.parametrize(
    ("form", "cdl"),
    [
        ("Equals(LengthOf(Line(A,B)),5)", "Equal(LengthOfLine(AB),5)"),
        ("Find(MeasureOf(Angle(A,B,C)))", "Value(MeasureOfAngle(ABC))"),
        ("Perpendicular(Line(A,B),Line(C,D))", "PerpendicularBetweenLine(AB,CD)"),
        ("PointLiesOnLine(C,Line(A,B))", "Collinear(ACB)"),
        ("IsMidpointOf(Point(D),Line(A,C))", "IsMidpointOfLine(D,AC)"),
        ("Isosceles(Triangle(A,B,C))", "IsoscelesTriangle(ABC)"),
        ("Find(RadiusOf(Circle(O)))", "Value(RadiusOfCircle(O))"),
        ("Find(AreaOf(Shaded(Shape($))))", "Value(AreaOfQuadrilateral())"),
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
    ],
)  # fmt: skip
def test_exact_forms(value: float, text: str) -> None:
    assert exact_form(float(value)) == text
