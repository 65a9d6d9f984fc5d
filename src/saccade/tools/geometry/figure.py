"""A figure as a vector of unknowns: coordinates of points, radii, and the letters on the diagram.

Everything is evaluated on many vectors at once, (count, unknowns), so that a Jacobian is one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.tools.geometry.terms import FormError

Array = NDArray[np.float64]


@dataclass(slots=True)
class PlaneFigure:
    """Which unknown stands in which column; grows while statements are read, and no more when it is solved."""

    columns: dict[str, int] = field(default_factory=dict)
    lines: set[frozenset[str]] = field(default_factory=set)
    """Pairs of points that a statement joins."""
    circles: dict[str, set[str]] = field(default_factory=dict)
    """Centre -> points on the circle."""
    on_line: list[tuple[str, str, str]] = field(default_factory=list)
    """(point, end, end)."""
    corners: set[tuple[str, str, str]] = field(default_factory=set)
    """(point, corner, point) of the polygons that statements name."""
    arc_ends: list[tuple[str, str]] = field(default_factory=list)
    """(point, centre) of ends of arcs that no statement puts on a circle."""

    def point(self, name: str) -> str:
        """The name, its two columns made if it is new. Raises `FormError` for what is no name of a point."""
        if not (name[:1].isupper() and len(name) <= 3 and name.isalnum()):
            raise FormError(f"{name!r} names no point: points are capital letters")
        self._column(f"{name}.x")
        self._column(f"{name}.y")
        return name

    def line(self, names: Sequence[str]) -> tuple[str, str]:
        """The two points of a line. Raises `FormError` if they are not two."""
        if len(names) != 2 or names[0] == names[1]:
            raise FormError(f"a line is named by two points, not {', '.join(names) or 'none'}")
        a, b = (self.point(name) for name in names)
        self.lines.add(frozenset((a, b)))
        return a, b

    def circle(self, centre: str) -> str:
        """The name of the radius of the circle around a point, made if it is new."""
        self.point(centre)
        self.circles.setdefault(centre, set())
        self._column(f"r.{centre}")
        return f"r.{centre}"

    def unknown(self, name: str) -> None:
        """Makes a letter of the diagram, if it is new."""
        self._column(name)

    def neighbours(self, name: str) -> list[str]:
        """The points that lines join to a point."""
        return sorted(next(iter(pair - {name})) for pair in self.lines if name in pair)

    def _column(self, name: str) -> None:
        self.columns.setdefault(name, len(self.columns))

    @property
    def points(self) -> list[str]:
        """The points, in the order they came up."""
        return [name[:-2] for name in self.columns if name.endswith(".x")]

    @property
    def letters(self) -> list[str]:
        """The letters of the diagram."""
        return [name for name in self.columns if "." not in name]


@dataclass(frozen=True, slots=True)
class State:
    """Vectors of unknowns, each a row."""

    columns: Mapping[str, int]
    rows: Array
    """(count, unknowns)"""

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self.rows[:, self.columns[name]])

    def at(self, name: str) -> Array:
        """Coordinates of a point, (count, 2)."""
        column = self.columns[f"{name}.x"]
        return np.asarray(self.rows[:, column : column + 2])

    def length(self, a: str, b: str) -> Array:
        """Distance of two points."""
        return np.asarray(np.hypot(*(self.at(b) - self.at(a)).T) + 1e-12)

    def cross(self, a: str, b: str, c: str, d: str) -> Array:
        """Sine of the angle from line ab to line cd."""
        u, v = self.at(b) - self.at(a), self.at(d) - self.at(c)
        return np.asarray((u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / (self.length(a, b) * self.length(c, d)))

    def dot(self, a: str, b: str, c: str, d: str) -> Array:
        """Cosine of the angle from line ab to line cd."""
        u, v = self.at(b) - self.at(a), self.at(d) - self.at(c)
        return np.asarray((u * v).sum(axis=1) / (self.length(a, b) * self.length(c, d)))

    def angle(self, a: str, b: str, c: str) -> Array:
        """The angle at b in degrees, 0..180."""
        return np.asarray(np.degrees(np.arctan2(np.abs(self.cross(b, a, b, c)), self.dot(b, a, b, c))))

    def area(self, names: Sequence[str]) -> Array:
        """Area of a polygon, its corners in order."""
        total: Any = 0.0
        for a, b in zip(names, [*names[1:], names[0]], strict=True):
            p, q = self.at(a), self.at(b)
            total = total + p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]
        return np.asarray(np.abs(total) / 2)

    def perimeter(self, names: Sequence[str]) -> Array:
        """Length around a polygon."""
        sides = [self.length(a, b) for a, b in zip(names, [*names[1:], names[0]], strict=True)]
        return np.asarray(np.sum(sides, axis=0))


def state(figure: PlaneFigure, vector: Iterable[float]) -> State:
    """One vector as a state."""
    return State(figure.columns, np.asarray([list(vector)], dtype=np.float64))
