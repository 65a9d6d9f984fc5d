"""What the names of polygons demand: parallelogram, rhombus, isosceles, regular, ...; and similar and congruent ones.

A name that leaves open which sides it means (isosceles, trapezoid, kite) takes those that the start of the search is
nearest to; so the residual is the smallest of the possible ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from saccade.tools.geometry.figure import Array, PlaneFigure, State
from saccade.tools.geometry.fit import Residual
from saccade.tools.geometry.measures import polygon
from saccade.tools.geometry.terms import FormError, Term


def _sides(names: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(names, [*names[1:], names[0]], strict=True))


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


def _parallelogram(term: Term, figure: PlaneFigure) -> list[Residual]:
    ab, bc, cd, da = _sides(_four(term, figure))
    return [_parallel(ab, cd), _parallel(bc, da)]


def _rectangle(term: Term, figure: PlaneFigure) -> list[Residual]:
    ab, bc, *_ = _sides(_four(term, figure))
    return [*_parallelogram(term, figure), _square(ab, bc)]


def _rhombus(term: Term, figure: PlaneFigure) -> list[Residual]:
    ab, bc, *_ = _sides(_four(term, figure))
    return [*_parallelogram(term, figure), _equal(ab, bc)]


def _square_shape(term: Term, figure: PlaneFigure) -> list[Residual]:
    ab, bc, *_ = _sides(_four(term, figure))
    return [*_rhombus(term, figure), _square(ab, bc)]


def _trapezoid(term: Term, figure: PlaneFigure) -> list[Residual]:
    ab, bc, cd, da = _sides(_four(term, figure))
    return [_smallest([_parallel(ab, cd), _parallel(bc, da)])]


def _isosceles_trapezoid(term: Term, figure: PlaneFigure) -> list[Residual]:
    ab, bc, cd, da = _sides(_four(term, figure))
    # The legs are equal where the other two sides are parallel; otherwise it would be a parallelogram.
    return [*_trapezoid(term, figure), _smallest([_equal(ab, cd), _equal(bc, da)])]


def _kite(term: Term, figure: PlaneFigure) -> list[Residual]:
    ab, bc, cd, da = _sides(_four(term, figure))
    return [_smallest([_equal(ab, bc), _equal(ab, da)]), _smallest([_equal(cd, da), _equal(bc, cd)])]


def _isosceles(term: Term, figure: PlaneFigure) -> list[Residual]:
    names = polygon(term, figure)
    if len(names) == 4:
        return _isosceles_trapezoid(term, figure)
    ab, bc, ca = _sides(names)
    return [_smallest([_equal(ab, ca), _equal(ab, bc), _equal(bc, ca)])]


def _right(term: Term, figure: PlaneFigure) -> list[Residual]:
    sides = _sides(polygon(term, figure))
    return [_smallest([_square(a, b) for a, b in zip(sides, [*sides[1:], sides[0]], strict=True)])]


def _regular(term: Term, figure: PlaneFigure) -> list[Residual]:
    names = polygon(term, figure)
    sides = _sides(names)
    inner = 180 - 360 / len(names)
    made = [_equal(sides[0], side) for side in sides[1:]]
    for before, corner, after in zip([names[-1], *names[:-1]], names, [*names[1:], names[0]], strict=True):
        made.append(_of_angle(before, corner, after, inner))
    return made


def _of_angle(a: str, b: str, c: str, degrees: float) -> Residual:
    return lambda state: np.asarray((state.angle(a, b, c) - degrees) / 20)


def similar(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Sides in one ratio and angles equal, corners in the order in which they are named."""
    first, second = (polygon(arg, figure) for arg in term.args)
    if len(first) != len(second):
        raise FormError("similar polygons have as many corners")
    ours, theirs = _sides(first), _sides(second)
    made = [_ratio(ours[0], theirs[0], a, b) for a, b in zip(ours[1:], theirs[1:], strict=True)]
    if len(first) > 3:
        for place in range(len(first)):
            corner = [(place + turn) % len(first) for turn in (-1, 0, 1)]
            made.append(_same_angle([first[i] for i in corner], [second[i] for i in corner]))
    return made


def congruent(term: Term, figure: PlaneFigure) -> list[Residual]:
    """Similar, and of one size."""
    if any(arg.head in ("Line", "Angle") for arg in term.args):
        raise FormError("lines and angles are equal, not congruent: write Equals")
    first, second = (polygon(arg, figure) for arg in term.args)
    return [*similar(term, figure), _equal(_sides(first)[0], _sides(second)[0])]


def _ratio(a: tuple[str, str], b: tuple[str, str], c: tuple[str, str], d: tuple[str, str]) -> Residual:
    def value(state: State) -> Array:
        left, right = state.length(*a) * state.length(*d), state.length(*c) * state.length(*b)
        return np.asarray(2 * (left - right) / (left + right))

    return value


def _same_angle(a: Sequence[str], b: Sequence[str]) -> Residual:
    return lambda state: np.asarray((state.angle(a[0], a[1], a[2]) - state.angle(b[0], b[1], b[2])) / 20)


SHAPES: Final[dict[str, Callable[[Term, PlaneFigure], list[Residual]]]] = {
    "Parallelogram": _parallelogram,
    "parallelogram": _parallelogram,
    "Rectangle": _rectangle,
    "Rhombus": _rhombus,
    "Square": _square_shape,
    "Trapezoid": _trapezoid,
    "Kite": _kite,
    "Isosceles": _isosceles,
    "Equilateral": _regular,
    "Right": _right,
    "Regular": _regular,
}
"""Name -> what it demands."""
