"""Logic forms of Geometry3K in the Condition Declaration Language of FormalGeo, statement by statement.

`Equals(LengthOf(Line(A,B)),5)` is `Equal(LengthOfLine(AB),5)` there (Zhang et al., FormalGeo, 2023). What has no
counterpart is left out by `as_cdl`, which says so by None.
"""

from __future__ import annotations

from typing import Final

from saccade.tools.geometry.measures import bare
from saccade.tools.geometry.terms import FormError, Term, read_term

_OF_TWO: Final = {
    "Perpendicular": "PerpendicularBetweenLine",
    "Parallel": "ParallelBetweenLine",
    "IsMidpointOf": "IsMidpointOfLine",
    "BisectsAngle": "IsBisectorOfAngle",
    "IsDiameterOf": "IsDiameterOfCircle",
    "Tangent": "IsTangentOfCircle",
    "IsChordOf": "IsChordOfCircle",
}
_OF_LINE: Final = ("IsMedianOf", "IsAltitudeOf", "IsMidsegmentOf")
_KINDS: Final = {"Equilateral": "EquilateralTriangle", "Isosceles": "IsoscelesTriangle", "Right": "RightTriangle"}
_SHAPES: Final = ("Parallelogram", "Rectangle", "Rhombus", "Square", "Trapezoid", "Kite")
_SIZES: Final = ("AreaOf", "PerimeterOf", "RadiusOf", "DiameterOf")
_ANGLES: Final = {"SinOf": "Sin", "CosOf": "Cos", "TanOf": "Tan"}


def as_cdl(form: str) -> str | None:
    """The statement in CDL; None for one that has no counterpart or cannot be read."""
    try:
        return _statement(read_term(form))
    except FormError:
        return None


def _statement(term: Term) -> str | None:
    head, args = term.head, term.args
    if head in _SHAPES or head == "Circle":
        return f"{head}({_named(term)})"
    if head == "Find" and len(args) == 1:
        return f"Value({_value(args[0])})"
    if head in _KINDS and len(args) == 1 and args[0].head == "Triangle":
        return f"{_KINDS[head]}({_named(args[0])})"
    if head in ("Isosceles", "Right") and len(args) == 1 and args[0].head == "Trapezoid":
        return f"{head}Trapezoid({_named(args[0])})"
    return _of_two(head, *args) if len(args) == 2 else None


def _of_two(head: str, first: Term, second: Term) -> str | None:
    if head == "Equals":
        return f"Equal({_value(first)},{_value(second)})"
    if head in ("Congruent", "Similar"):
        return f"{head}BetweenTriangle({_joined(first)},{_joined(second)})"
    if head == "PointLiesOnLine" and len(second.names) == 2:
        a, b = second.names
        return f"Collinear({a}{first.head}{b})"
    if head == "PointLiesOnCircle" and second.names:
        return f"Cocircular({second.names[0]},{first.head})"
    if head in _OF_LINE:
        return f"{head}{second.head}({_joined(first)},{_joined(second)})"
    if head in _OF_TWO:
        return f"{_OF_TWO[head]}({_joined(first)},{_joined(second)})"
    return None


def _value(term: Term) -> str:
    head = term.head
    if not term.args:
        return head
    inner = term.args[0]
    if head == "LengthOf" and inner.head == "Line":
        return f"LengthOfLine({_joined(inner)})"
    if head == "MeasureOf" and inner.head in ("Angle", "Arc"):
        return f"MeasureOf{inner.head}({_joined(inner)})"
    if head in _SIZES and inner.args:
        shape = bare(inner)
        kind = shape.head if shape.head in ("Circle", "Triangle") else "Quadrilateral"
        return f"{head}{kind}({_named(shape)})"
    if head in _ANGLES:
        return f"{_ANGLES[head]}({_value(Term('MeasureOf', (inner,))) if inner.args else inner.head})"
    raise FormError(f"{head} has no counterpart")


def _named(term: Term) -> str:
    """The points of a figure that a statement is about: without them it says nothing."""
    points = _joined(term)
    if not points or "$" in points:
        raise FormError(f"{term} names no points")
    return points


def _joined(term: Term) -> str:
    """The points of a figure; of a circle its centre alone, since what Geometry3K writes after it is its radius."""
    return "".join(term.names[:1] if term.head == "Circle" else term.names)
