"""Logic forms of Geometry3K in the Condition Declaration Language of FormalGeo, statement by statement.

`Equals(LengthOf(Line(A,B)),5)` is `Equal(LengthOfLine(AB),5)` there (Zhang et al., FormalGeo, 2023). What has no
counterpart is left out by `as_cdl`, which says so by None.
"""

from __future__ import annotations

from typing import Final

from saccade.tools.geometry.terms import FormError, Term, read_term

_PAIRS: Final = {
    "Perpendicular": "PerpendicularBetweenLine",
    "Parallel": "ParallelBetweenLine",
}
_OF_LINE: Final = {
    "IsMedianOf": "IsMedianOf",
    "IsAltitudeOf": "IsAltitudeOf",
    "IsMidsegmentOf": "IsMidsegmentOf",
}
_CIRCLES: Final = {"IsDiameterOf": "IsDiameterOfCircle", "Tangent": "IsTangentOfCircle", "IsChordOf": "IsChordOfCircle"}
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


def _statement(term: Term) -> str:
    head, args = term.head, term.args
    if head == "Find" and len(args) == 1:
        return f"Value({_value(args[0])})"
    if head == "Equals" and len(args) == 2:
        return f"Equal({_value(args[0])},{_value(args[1])})"
    if head in _PAIRS and len(args) == 2:
        return f"{_PAIRS[head]}({_joined(args[0])},{_joined(args[1])})"
    if head in ("Congruent", "Similar") and len(args) == 2:
        return f"{head}BetweenTriangle({_joined(args[0])},{_joined(args[1])})"
    if head == "PointLiesOnLine" and len(args) == 2:
        a, b = args[1].names
        return f"Collinear({a}{args[0].head}{b})"
    if head == "PointLiesOnCircle" and len(args) == 2:
        return f"Cocircular({args[1].names[0]},{args[0].head})"
    if head == "IsMidpointOf":
        return f"IsMidpointOfLine({_joined(args[0])},{_joined(args[1])})"
    if head == "BisectsAngle":
        return f"IsBisectorOfAngle({_joined(args[0])},{_joined(args[1])})"
    if head in _CIRCLES:
        return f"{_CIRCLES[head]}({_joined(args[0])},{_joined(args[1])})"
    if head in _OF_LINE:
        return f"{head}{args[1].head}({_joined(args[0])},{_joined(args[1])})"
    if head in _KINDS and len(args) == 1:
        return f"{_KINDS[head]}({_joined(args[0])})"
    if head in _SHAPES or head == "Circle":
        return f"{head}({_joined(term)})"
    raise FormError(f"{head} has no counterpart")


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
        kind = inner.head if inner.head in ("Circle", "Triangle") else "Quadrilateral"
        return f"{head}{kind}({_joined(inner)})"
    if head in _ANGLES:
        return f"{_ANGLES[head]}({_value(Term('MeasureOf', (inner,))) if inner.args else inner.head})"
    raise FormError(f"{head} has no counterpart")


def _joined(term: Term) -> str:
    return "".join(term.names)
