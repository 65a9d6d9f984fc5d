"""Statements as residuals: functions of the state that vanish where the statement holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from saccade.plugins.vista.geometry.figure import (
    Array,
    FormError,
    PlaneFigure,
    Residual,
    State,
    Term,
    corners,
    read_term,
    ring,
)
from saccade.plugins.vista.geometry.measures import POLYGONS, MeasuredValue, bare, measure, polygon

# What the names of polygons demand: parallelogram, rhombus, isosceles, regular, ...; and similar and congruent ones.
#
# A name that leaves open which sides it means (isosceles, trapezoid, kite) takes those that the start of the search is
# nearest to; so the residual is the smallest of the possible ones.

_DEGREES: Final = 20.0
"""A difference of so many degrees weighs as much as one of the whole length."""


def _four(term: Term, figure: PlaneFigure) -> list[str]:
    names = polygon(term, figure)
    if len(names) != 4:
        raise FormError(f"a {term.head} has four corners")
    return names


def _parallel(a: tuple[str, str], b: tuple[str, str]) -> Residual:
    return lambda state: state.cross(*a, *b)


def _square(a: tuple[str, str], b: tuple[str, str]) -> Residual:
    return lambda state: state.dot(*a, *b)


def _equal(a: tuple[str, str], b: tuple[str, str]) -> Residual:
    def value(state: State) -> Array:
        left, right = state.length(*a), state.length(*b)
        return np.asarray(2 * (left - right) / (left + right))

    return value


def _smallest(options: Sequence[Residual]) -> Residual:
    def value(state: State) -> Array:
        values = np.stack([option(state) for option in options])
        best = np.abs(values).argmin(axis=0)
        return np.asarray(np.take_along_axis(values, best[None], axis=0)[0])

    return value


_Side = tuple[str, str]
_OF_FOUR: Final[dict[str, Callable[[_Side, _Side, _Side, _Side], list[Residual]]]] = {
    "Parallelogram": lambda ab, bc, cd, da: [_parallel(ab, cd), _parallel(bc, da)],
    "Rectangle": lambda ab, bc, cd, da: [_parallel(ab, cd), _parallel(bc, da), _square(ab, bc)],
    "Rhombus": lambda ab, bc, cd, da: [_parallel(ab, cd), _parallel(bc, da), _equal(ab, bc)],
    "Square": lambda ab, bc, cd, da: [_parallel(ab, cd), _parallel(bc, da), _equal(ab, bc), _square(ab, bc)],
    "Trapezoid": lambda ab, bc, cd, da: [_smallest([_parallel(ab, cd), _parallel(bc, da)])],
    # The legs are equal where the other two sides are parallel; otherwise it would be a parallelogram.
    "Isosceles": lambda ab, bc, cd, da: [
        _smallest([_parallel(ab, cd), _parallel(bc, da)]),
        _smallest([_equal(ab, cd), _equal(bc, da)]),
    ],
    "Kite": lambda ab, bc, cd, da: [
        _smallest([_equal(ab, bc), _equal(ab, da)]),
        _smallest([_equal(cd, da), _equal(bc, cd)]),
    ],
}
"""Name of a figure with four corners -> what it demands of its sides, in order."""


def _of_four(kind: str, term: Term, figure: PlaneFigure) -> list[Residual]:
    ab, bc, cd, da = ring(_four(term, figure))
    return _OF_FOUR[kind](ab, bc, cd, da)


def _isosceles(term: Term, figure: PlaneFigure) -> list[Residual]:
    names = polygon(term, figure)
    if len(names) == 4:
        return _of_four("Isosceles", term, figure)
    ab, bc, ca = ring(names)
    return [_smallest([_equal(ab, ca), _equal(ab, bc), _equal(bc, ca)])]


def _right(term: Term, figure: PlaneFigure) -> list[Residual]:
    return [_smallest([_square(a, b) for a, b in ring(ring(polygon(term, figure)))])]


def _regular(term: Term, figure: PlaneFigure) -> list[Residual]:
    names = polygon(term, figure)
    sides, inner = ring(names), 180 - 360 / len(names)
    made = [_equal(sides[0], side) for side in sides[1:]]
    return made + [_of_angle(before, corner, after, inner) for before, corner, after in corners(names)]


def _of_angle(a: str, b: str, c: str, degrees: float) -> Residual:
    return lambda state: np.asarray((state.angle(a, b, c) - degrees) / _DEGREES)


def similar(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Return sides in one ratio and angles equal, corners in the order in which they are named."""
    first, second = (polygon(arg, figure) for arg in term.args)
    if len(first) != len(second):
        raise FormError("similar polygons have as many corners")
    ours, theirs = ring(first), ring(second)
    made = [_ratio(ours[0], theirs[0], a, b) for a, b in zip(ours[1:], theirs[1:], strict=True)]
    if len(first) > 3:
        made += [_same_angle(a, b) for a, b in zip(corners(first), corners(second), strict=True)]
    return made


def congruent(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Return whether they are similar, and of one size."""
    if any(arg.head in ("Line", "Angle") for arg in term.args):
        raise FormError("lines and angles are equal, not congruent: write Equals")
    first, second = (polygon(arg, figure) for arg in term.args)
    return [*similar(term, figure), _equal(ring(first)[0], ring(second)[0])]


def _ratio(a: tuple[str, str], b: tuple[str, str], c: tuple[str, str], d: tuple[str, str]) -> Residual:
    def value(state: State) -> Array:
        left, right = state.length(*a) * state.length(*d), state.length(*c) * state.length(*b)
        return np.asarray(2 * (left - right) / (left + right))

    return value


def _same_angle(a: tuple[str, str, str], b: tuple[str, str, str]) -> Residual:
    return lambda state: np.asarray((state.angle(*a) - state.angle(*b)) / _DEGREES)


SHAPES: Final[dict[str, Callable[[Term, PlaneFigure], list[Residual]]]] = {
    **{kind: partial(_of_four, kind) for kind in _OF_FOUR},
    "parallelogram": partial(_of_four, "Parallelogram"),
    "Isosceles": _isosceles,
    "Equilateral": _regular,
    "Right": _right,
    "Regular": _regular,
}
"""Name -> what it demands."""


def residuals_of(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Return the equations of a statement, as residuals; empty for one that only names a figure.

    Raises `FormError`: it is not known here, or its parts are not.
    """
    inner = bare(term)
    if term.head in ("Right", "Regular", "Isosceles", "Equilateral") or inner.head in SHAPES:
        return SHAPES[term.head if term.head in SHAPES else inner.head](inner, figure)
    if inner.head in POLYGONS:
        polygon(inner, figure)
        return []
    reader = _READERS.get(term.head)
    if reader is None:
        raise FormError(f"{term.head} is not known")
    return reader(term, figure)


def _equals(term: Term, figure: PlaneFigure) -> list[Residual]:
    if len(term.args) != 2:
        raise FormError("Equals has two arguments")
    a, b = (measure(arg, figure) for arg in term.args)
    heads = {inner.head for arg in term.args for inner in (arg, *arg.args)}
    return [_difference(a, b, of_angles=bool(heads & {"Angle", "Arc", "Major", "Minor"}) and "LengthOf" not in heads)]


def _difference(a: MeasuredValue, b: MeasuredValue, *, of_angles: bool) -> Residual:
    if of_angles:
        return lambda state: np.asarray((a(state) - b(state)) / _DEGREES)

    def relative(state: State) -> Array:
        left, right = a(state), b(state)
        return np.asarray((left - right) / (np.abs(left) + np.abs(right) + 1e-9) * 2)

    return relative


def _two_lines(
    demand: Callable[[tuple[str, str], tuple[str, str]], Residual], term: Term, figure: PlaneFigure
) -> list[Residual]:
    if len(term.args) != 2:
        raise FormError(f"{term.head} has two lines")
    return [demand(figure.line(term.args[0].names), figure.line(term.args[1].names))]


def _on_line(term: Term, figure: PlaneFigure) -> list[Residual]:
    if len(term.args) != 2:
        raise FormError(f"{term.head} has a point and a line")
    p = figure.point(_point(term.args[0]))
    a, b = figure.line(term.args[1].names)
    if p in (a, b):
        return []
    figure.line((p, a))
    figure.line((p, b))
    figure.on_line.append((p, a, b))

    def outside(state: State) -> Array:
        # Where along the line it is, 0 at a and 1 at b; nothing is wrong between them.
        along = state.dot(a, p, a, b) * state.length(a, p) / state.length(a, b)
        return np.asarray(np.maximum(0.0, -along) + np.maximum(0.0, along - 1))

    return [lambda state: state.cross(a, p, a, b) * state.length(a, p) / state.length(a, b), outside]


def _point(term: Term) -> str:
    return term.names[0] if term.head == "Point" and term.names else term.head


def on_circle(names: Sequence[str], centre: str, figure: PlaneFigure) -> list[Residual]:
    """Return points on the circle around `centre`."""
    radius = figure.circle(centre)
    made: list[Residual] = []
    for name in names:
        if name in figure.circles[centre] or name == centre:
            continue
        figure.circles[centre].add(figure.point(name))
        made.append(at_radius(name, centre, radius))
    return made


def at_radius(name: str, centre: str, radius: str) -> Residual:
    """Return a point at the distance `radius`, the name of an unknown, from a centre."""
    return lambda state: np.asarray((state.length(centre, name) - state[radius]) / (np.abs(state[radius]) + 1e-9))


def _on_circle(term: Term, figure: PlaneFigure) -> list[Residual]:
    if len(term.args) != 2:
        raise FormError(f"{term.head} has a point and a circle")
    return on_circle([_point(term.args[0])], _centre(term.args[1]), figure)


def _centre(term: Term) -> str:
    if term.head not in ("Circle", "Cirle") or not term.names:
        raise FormError(f"{term} is no circle")
    return term.names[0]


def _circle(term: Term, figure: PlaneFigure) -> list[Residual]:
    figure.circle(_centre(term))
    return []


def _midpoint(term: Term, figure: PlaneFigure) -> list[Residual]:
    p = figure.point(_point(term.args[0]))
    a, b = figure.line(term.args[1].names)
    return [*_on_line(Term("PointLiesOnLine", (Term(p), term.args[1])), figure), _same(figure, (p, a), (p, b))]


def _same(figure: PlaneFigure, first: tuple[str, str], second: tuple[str, str]) -> Residual:
    figure.line(first)
    figure.line(second)
    return _difference(lambda s: s.length(*first), lambda s: s.length(*second), of_angles=False)


def _bisects(term: Term, figure: PlaneFigure) -> list[Residual]:
    line, angle = figure.line(term.args[0].names), term.args[1].names
    if len(angle) != 3 or angle[1] not in line:
        raise FormError("the angle that a line bisects is named by three points, its corner on the line")
    a, b, c = angle
    far = line[0] if line[1] == b else line[1]
    for end in (a, c):
        figure.line((b, end))
    return [_difference(lambda s: s.angle(a, b, far), lambda s: s.angle(far, b, c), of_angles=True)]


def _tangent(term: Term, figure: PlaneFigure) -> list[Residual]:
    a, b = figure.line(term.args[0].names)
    centre = _centre(term.args[1])
    radius = figure.circle(centre)
    touching = next(((end, other) for end, other in ((a, b), (b, a)) if end in figure.circles[centre]), None)
    if touching is not None:
        end, other = touching
        return [lambda state: state.dot(end, centre, end, other)]
    return [
        lambda state: np.asarray(np.abs(state.cross(a, centre, a, b)) * state.length(a, centre) / state[radius] - 1)
    ]


def _diameter(term: Term, figure: PlaneFigure) -> list[Residual]:
    a, b = figure.line(term.args[0].names)
    centre = _centre(term.args[1])
    between = _on_line(Term("PointLiesOnLine", (Term(centre), term.args[0])), figure)
    return [*on_circle([a, b], centre, figure), *between]


def _chord(term: Term, figure: PlaneFigure) -> list[Residual]:
    return on_circle(figure.line(term.args[0].names), _centre(term.args[1]), figure)


def _altitude(term: Term, figure: PlaneFigure) -> list[Residual]:
    line, names = figure.line(term.args[0].names), polygon(term.args[1], figure)
    top = next((name for name in line if name in names), None)
    if top is None:
        raise FormError("an altitude begins in a corner of its triangle")
    base = [name for name in names if name != top]
    foot = line[1] if line[0] == top else line[0]
    square: Residual = lambda state: state.dot(top, foot, base[0], base[1])  # noqa: E731
    if foot in base:
        return [square]
    reach: Residual = lambda state: state.cross(base[0], foot, base[0], base[1])  # noqa: E731
    return [square, reach]


def _median(term: Term, figure: PlaneFigure) -> list[Residual]:
    line, names = figure.line(term.args[0].names), polygon(term.args[1], figure)
    if len(names) == 4:
        return _midsegment(term, figure)
    top = next((name for name in line if name in names), None)
    if top is None:
        raise FormError("a median begins in a corner of its triangle")
    base = Term("Line", tuple(Term(name) for name in names if name != top))
    return _midpoint(Term("IsMidpointOf", (Term(line[1] if line[0] == top else line[0]), base)), figure)


def _midsegment(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Require both ends to be the middles of the sides on which they lie, as `PointLiesOnLine` says."""
    ends, names = figure.line(term.args[0].names), polygon(term.args[1], figure)
    made: list[Residual] = []
    for end in ends:
        sides = [(a, b) for p, a, b in figure.on_line if p == end and {a, b} <= set(names)]
        if not sides:
            raise FormError(f"it is not said on which side {end} lies")
        a, b = sides[0]
        made.append(_same(figure, (end, a), (end, b)))
    return made


def _incentre(term: Term, figure: PlaneFigure) -> list[Residual]:
    p, names = figure.point(_point(term.args[0])), polygon(term.args[1], figure)
    made = []
    for before, corner, after in corners(names):
        line = Term("Line", (Term(corner), Term(p)))
        angle = Term("Angle", (Term(before), Term(corner), Term(after)))
        made += _bisects(Term("BisectsAngle", (line, angle)), figure)
    return made


def _centroid(term: Term, figure: PlaneFigure) -> list[Residual]:
    p, names = figure.point(_point(term.args[0])), polygon(term.args[1], figure)

    def off(axis: int) -> Residual:
        def value(state: State) -> Array:
            middle: Any = sum(state.at(name)[:, axis] for name in names) / len(names)
            return np.asarray((middle - state.at(p)[:, axis]) / state.length(names[0], names[1]))

        return value

    return [off(0), off(1)]


def _inscribed(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Require a polygon's corners to be on a circle, and the polygon to be of the kind it is said to be."""
    names = polygon(term.args[0], figure)
    kind = residuals_of(term.args[0], figure)
    return [*kind, *on_circle(names, _centre(term.args[1]), figure)]


def _circumscribed(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Return a polygon whose sides touch a circle."""
    names = polygon(term.args[0], figure)
    made = residuals_of(term.args[0], figure)
    for a, b in ring(names):
        made += _tangent(Term("Tangent", (Term("Line", (Term(a), Term(b))), term.args[1])), figure)
    return made


def _right_angle(term: Term, figure: PlaneFigure) -> list[Residual]:
    angle = measure(term.args[0], figure)
    return [lambda state: np.asarray((angle(state) - 90) / _DEGREES)]


def _drawn(term: Term, figure: PlaneFigure) -> list[Residual]:
    figure.line(term.names)
    return []


def implied(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Return the equations of the shapes that a statement names within, as in `Find(AreaOf(Rhombus(A,B,C,D)))`."""
    made: list[Residual] = []
    for arg in term.args:
        if arg.head in SHAPES and len(bare(arg).names) >= 3:
            made += SHAPES[arg.head](bare(arg), figure)
        made += implied(arg, figure)
    return made


_READERS: Final[dict[str, Callable[[Term, PlaneFigure], list[Residual]]]] = {
    "Equals": _equals,
    "Perpendicular": partial(_two_lines, _square),
    "Parallel": partial(_two_lines, _parallel),
    "PointLiesOnLine": _on_line,
    "PointLiesOnCircle": _on_circle,
    "Circle": _circle,
    "IsMidpointOf": _midpoint,
    "BisectsAngle": _bisects,
    "Tangent": _tangent,
    "IsDiameterOf": _diameter,
    "IsRadiusOf": _chord,
    "IsChordOf": _chord,
    "IsAltitudeOf": _altitude,
    "IsMedianOf": _median,
    "IsMidsegmentOf": _midsegment,
    "IsIncenterOf": _incentre,
    "IsCentroidOf": _centroid,
    "InscribedIn": _inscribed,
    "CircumscribedTo": _circumscribed,
    "RightAngle": _right_angle,
    "Congruent": congruent,
    "Similar": similar,
    **dict.fromkeys(("UseTheorem", "IsDiagonalOf", "IsHypotenuseOf"), lambda term, figure: []),
    "Line": _drawn,
}

# Logic forms of Geometry3K in the Condition Declaration Language of FormalGeo, statement by statement.
#
# `Equals(LengthOf(Line(A,B)),5)` is `Equal(LengthOfLine(AB),5)` there (Zhang et al., FormalGeo, 2023). What has no
# counterpart is left out by `as_cdl`, which says so by None.

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
    """Return the statement in CDL; None for one that has no counterpart or cannot be read."""
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
    """Return the points of a figure that a statement is about: without them it says nothing."""
    points = _joined(term)
    if not points or "$" in points:
        raise FormError(f"{term} names no points")
    return points


def _joined(term: Term) -> str:
    """Join the points of a figure; a circle keeps its centre only, as Geometry3K writes its radius after it."""
    return "".join(term.names[:1] if term.head == "Circle" else term.names)
