"""Figures without names: what `$` stands for in `Rhombus($)`, which a text says of "the quadrilateral".

It is the one figure of as many corners that a statement names; if none is named, the one that the lines of a sketch
bound. Where there are several, `$` stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import atan2, comb, degrees
from typing import Final

from saccade.tools.geometry.measures import ANY_OUTLINE, POLYGONS, bare
from saccade.tools.geometry.terms import Term

Place = tuple[float, float]
_CORNERS: Final = {"Triangle": 3, "Pentagon": 5, "Hexagon": 6, "Heptagon": 7, "Octagon": 8}
_BENT: Final = 12.0
"""Degrees by which an outline turns at least at a corner."""
_TRIED: Final = 20_000
"""Most sets of corners that are looked at."""


def with_names(terms: Sequence[Term], sketch: Mapping[str, Place]) -> list[Term]:
    """The terms, the one figure that is meant in place of each `$`."""
    return [_named(term, terms, sketch) for term in terms]


def _named(term: Term, terms: Sequence[Term], sketch: Mapping[str, Place]) -> Term:
    if [arg.head for arg in term.args] != ["$"]:
        return Term(term.head, tuple(_named(arg, terms, sketch) for arg in term.args))
    if term.head == "Circle":
        circles = [other for other in map(bare, terms) if other.head == "Circle" and "$" not in other.names]
        figures = {one.names[:1]: one.args for one in reversed(circles)}
    elif term.head in POLYGONS:
        count = None if term.head in ANY_OUTLINE else _CORNERS.get(term.head, 4)
        polygons = [other for other in map(bare, terms) if other.head in POLYGONS and len(other.names) > 2]
        figures = {tuple(sorted(one.names)): one.args for one in reversed(polygons) if count in (None, len(one.names))}
        if not figures and count is not None:
            figures = {
                tuple(sorted(names)): tuple(map(Term, names)) for names in _outlines(count, _sides(terms), sketch)
            }
    else:
        return term
    return Term(term.head, next(iter(figures.values()))) if len(figures) == 1 else term


def _sides(terms: Sequence[Term]) -> set[frozenset[str]]:
    """The lines that statements name, as far as they have two ends."""
    found: set[frozenset[str]] = set()
    for term in terms:
        if term.head == "Line" and len(set(term.names)) == 2:
            found.add(frozenset(term.names))
        found |= _sides(term.args)
    return found


def _outlines(count: int, sides: set[frozenset[str]], sketch: Mapping[str, Place]) -> Iterator[list[str]]:
    """The convex polygons of so many corners whose sides are lines of the sketch; none if there are too many to try."""
    joined = sorted(sketch.keys() & {name for side in sides for name in side})
    if comb(len(joined), count) > _TRIED:
        return
    for names in combinations(joined, count):
        x, y = (sum(sketch[name][axis] for name in names) / count for axis in (0, 1))
        around = sorted(names, key=lambda name: atan2(sketch[name][1] - y, sketch[name][0] - x))
        bounded = all(frozenset(side) in sides for side in zip(around, [*around[1:], around[0]], strict=True))
        if bounded and all(turn > _BENT for turn in _turns([sketch[name] for name in around])):
            yield around


def _turns(corners: Sequence[Place]) -> Iterator[float]:
    """By how many degrees the outline turns at each corner, in the sense in which it runs."""
    count = len(corners)
    for place in range(count):
        (px, py), (qx, qy), (rx, ry) = corners[place - 1], corners[place], corners[(place + 1) % count]
        ax, ay, bx, by = qx - px, qy - py, rx - qx, ry - qy
        yield degrees(atan2(ax * by - ay * bx, ax * bx + ay * by))
