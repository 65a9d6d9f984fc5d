"""Statements as residuals: functions of the state that vanish where the statement holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from saccade.tools.geometry.figure import Array, PlaneFigure, State
from saccade.tools.geometry.fit import Residual
from saccade.tools.geometry.measures import POLYGONS, MeasuredValue, bare, measure, polygon
from saccade.tools.geometry.shapes import SHAPES, congruent, similar
from saccade.tools.geometry.terms import FormError, Term

_DEGREES: Final = 20.0
"""A difference of so many degrees weighs as much as one of the whole length."""


def residuals_of(term: Term, figure: PlaneFigure) -> list[Residual]:
    """What a statement demands; empty for one that only names a figure.

    Raises:
        FormError: it is not known here, or its parts are not.
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


def _two_lines(term: Term, figure: PlaneFigure) -> tuple[str, str, str, str]:
    if len(term.args) != 2:
        raise FormError(f"{term.head} has two lines")
    a, b = figure.line(term.args[0].names)
    c, d = figure.line(term.args[1].names)
    return a, b, c, d


def _perpendicular(term: Term, figure: PlaneFigure) -> list[Residual]:
    names = _two_lines(term, figure)
    return [lambda state: state.dot(*names)]


def _parallel(term: Term, figure: PlaneFigure) -> list[Residual]:
    names = _two_lines(term, figure)
    return [lambda state: state.cross(*names)]


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
    """Points on the circle around `centre`."""
    radius = figure.circle(centre)
    made: list[Residual] = []
    for name in names:
        if name in figure.circles[centre] or name == centre:
            continue
        figure.circles[centre].add(figure.point(name))
        made.append(at_radius(name, centre, radius))
    return made


def at_radius(name: str, centre: str, radius: str) -> Residual:
    """A point at the distance `radius`, the name of an unknown, from a centre."""
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
    """Both ends are the middles of the sides on which they lie, as `PointLiesOnLine` says."""
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
    for before, corner, after in zip([names[-1], *names[:-1]], names, [*names[1:], names[0]], strict=True):
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
    """A polygon with its corners on a circle, and whatever kind of polygon it is said to be."""
    names = polygon(term.args[0], figure)
    kind = residuals_of(term.args[0], figure)
    return [*kind, *on_circle(names, _centre(term.args[1]), figure)]


def _circumscribed(term: Term, figure: PlaneFigure) -> list[Residual]:
    """A polygon whose sides touch a circle."""
    names = polygon(term.args[0], figure)
    made = residuals_of(term.args[0], figure)
    for a, b in pairwise([*names, names[0]]):
        made += _tangent(Term("Tangent", (Term("Line", (Term(a), Term(b))), term.args[1])), figure)
    return made


def _right_angle(term: Term, figure: PlaneFigure) -> list[Residual]:
    angle = measure(term.args[0], figure)
    return [lambda state: np.asarray((angle(state) - 90) / _DEGREES)]


def _nothing(term: Term, figure: PlaneFigure) -> list[Residual]:
    return []


def _drawn(term: Term, figure: PlaneFigure) -> list[Residual]:
    figure.line(term.names)
    return []


def implied(term: Term, figure: PlaneFigure) -> list[Residual]:
    """What the shapes demand that a statement names within, as in `Find(AreaOf(Rhombus(A,B,C,D)))`."""
    made: list[Residual] = []
    for arg in term.args:
        if arg.head in SHAPES and len(bare(arg).names) >= 3:
            made += SHAPES[arg.head](bare(arg), figure)
        made += implied(arg, figure)
    return made


_READERS: Final[dict[str, Callable[[Term, PlaneFigure], list[Residual]]]] = {
    "Equals": _equals,
    "Perpendicular": _perpendicular,
    "Parallel": _parallel,
    "PointLiesOnLine": _on_line,
    "PointLiesOnCircle": _on_circle,
    "Circle": _circle,
    "IsMidpointOf": _midpoint,
    "BisectsAngle": _bisects,
    "Tangent": _tangent,
    "IsDiameterOf": _diameter,
    "IsRadiusOf": lambda term, figure: _chord(term, figure),
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
    "UseTheorem": _nothing,
    "IsDiagonalOf": _nothing,
    "IsHypotenuseOf": _nothing,
    "Line": _drawn,
}
