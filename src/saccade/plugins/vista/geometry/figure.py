"""A figure as a vector of unknowns: coordinates of points, radii, and the letters on the diagram.

Everything is evaluated on many vectors at once, (count, unknowns), so that a Jacobian is one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

# Logic forms of Geometry3K as terms: `Equals(LengthOf(Line(A, B)), 4x-17)` and its like.
#
# Grammar of Lu et al., Inter-GPS (ACL 2021): a predicate with arguments, each a predicate or a piece of text.


class FormError(ValueError):
    """A statement that cannot be read, or means nothing here; says why, for the model."""


@dataclass(frozen=True, slots=True)
class Term:
    """A predicate with its arguments, or a text that has none."""

    head: str
    args: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return f"{self.head}({','.join(map(str, self.args))})" if self.args else self.head

    @property
    def names(self) -> tuple[str, ...]:
        """The texts of its arguments, as of `Line(A, B)`."""
        return tuple(arg.head for arg in self.args if not arg.args)


_DEPTH = 12
_CHARACTERS = 400


def read_term(text: str) -> Term:
    """Return the term that a text writes.

    Raises `FormError`: brackets that do not match, something behind the last one, or more than 400 characters.
    """
    if len(text) > _CHARACTERS:
        raise FormError(f"it has more than {_CHARACTERS} characters")
    return _read(text.strip(), 0)


def _read(text: str, depth: int) -> Term:
    if depth > _DEPTH:
        raise FormError("its brackets are nested too deeply")
    name, bracket, rest = text.partition("(")
    if not bracket or not name.strip().replace("_", "").isalpha() or len(name.strip()) < 2:
        if not text:
            raise FormError("an argument is empty")
        return Term(text)
    if not rest.endswith(")"):
        raise FormError(f"the bracket of {name.strip()} is not closed at its end")
    return Term(name.strip(), tuple(_read(part, depth + 1) for part in _split(rest[:-1])))


def _split(text: str) -> list[str]:
    parts, level, start = [], 0, 0
    for place, sign in enumerate(text):
        level += (sign in "({") - (sign in ")}")
        if level < 0:
            raise FormError("a bracket closes that was not opened")
        if sign == "," and level == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    if level:
        raise FormError("a bracket is not closed")
    return [*parts, text[start:].strip()]


T = TypeVar("T")


def ring(items: Sequence[T]) -> list[tuple[T, T]]:
    """Return each item with the next one, the last with the first."""
    return list(zip(items, [*items[1:], *items[:1]], strict=True))


def corners(items: Sequence[T]) -> list[tuple[T, T, T]]:
    """Return each item of a ring between the one before and the one after it."""
    return list(zip([*items[-1:], *items[:-1]], items, [*items[1:], *items[:1]], strict=True))


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
        """Return the name, its two columns made if it is new. Raises `FormError` for what is no name of a point."""
        if not (name[:1].isupper() and len(name) <= 3 and name.isalnum()):
            raise FormError(f"{name!r} names no point: points are capital letters")
        self._column(f"{name}.x")
        self._column(f"{name}.y")
        return name

    def line(self, names: Sequence[str]) -> tuple[str, str]:
        """Return the two points of a line. Raises `FormError` if they are not two."""
        if len(names) != 2 or names[0] == names[1]:
            raise FormError(f"a line is named by two points, not {', '.join(names) or 'none'}")
        a, b = (self.point(name) for name in names)
        self.lines.add(frozenset((a, b)))
        return a, b

    def circle(self, centre: str) -> str:
        """Return the name of the radius of the circle around a point, made if it is new."""
        self.point(centre)
        self.circles.setdefault(centre, set())
        self._column(f"r.{centre}")
        return f"r.{centre}"

    def unknown(self, name: str) -> None:
        """Makes a letter of the diagram, if it is new."""
        self._column(name)

    def neighbours(self, name: str) -> list[str]:
        """Return the points that lines join to a point."""
        return sorted(next(iter(pair - {name})) for pair in self.lines if name in pair)

    def _column(self, name: str) -> None:
        self.columns.setdefault(name, len(self.columns))

    @property
    def points(self) -> list[str]:
        """The points, in the order they came up."""
        return [name[:-2] for name in self.columns if name.endswith(".x")]

    @property
    def letters(self) -> list[str]:
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
        """Return coordinates of a point, (count, 2)."""
        column = self.columns[f"{name}.x"]
        return np.asarray(self.rows[:, column : column + 2])

    def length(self, a: str, b: str) -> Array:
        return np.asarray(np.hypot(*(self.at(b) - self.at(a)).T) + 1e-12)

    def cross(self, a: str, b: str, c: str, d: str) -> Array:
        """Return the sine of the angle from line ab to line cd."""
        u, v = self.at(b) - self.at(a), self.at(d) - self.at(c)
        return np.asarray((u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / (self.length(a, b) * self.length(c, d)))

    def dot(self, a: str, b: str, c: str, d: str) -> Array:
        """Return the cosine of the angle from line ab to line cd."""
        u, v = self.at(b) - self.at(a), self.at(d) - self.at(c)
        return np.asarray((u * v).sum(axis=1) / (self.length(a, b) * self.length(c, d)))

    def angle(self, a: str, b: str, c: str) -> Array:
        """Return the angle at b in degrees, 0..180."""
        return np.asarray(np.degrees(np.arctan2(np.abs(self.cross(b, a, b, c)), self.dot(b, a, b, c))))

    def area(self, names: Sequence[str]) -> Array:
        """Return the area of a polygon, its corners in order."""
        total: Any = 0.0
        for a, b in ring(names):
            p, q = self.at(a), self.at(b)
            total = total + p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]
        return np.asarray(np.abs(total) / 2)

    def perimeter(self, names: Sequence[str]) -> Array:
        return np.asarray(np.sum([self.length(a, b) for a, b in ring(names)], axis=0))


def state(figure: PlaneFigure, vector: Iterable[float]) -> State:
    """Return one vector as a state."""
    return State(figure.columns, np.asarray([list(vector)], dtype=np.float64))


# Find unknowns that satisfy all statements at once, by Levenberg and Marquardt, and whether they fix a quantity.
#
# A solution is a point where the residuals vanish. A quantity is fixed there if no move that keeps the residuals at
# zero, a direction of the Jacobian's null space, changes it. The search is our own: `scipy.optimize.least_squares`
# gives the same answers in the solver's tests in twice the time and no fewer lines.


Residual = Callable[[State], Array]
"""(count,) of a state of `count` rows; zero where a statement holds."""

_STEPS: Final = 60
_SMALL: Final = 1e-6
_FREE: Final = 1e-3
"""Largest relative change of a quantity along a free direction that counts as none."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Where the search ended."""

    vector: Array
    error: float
    """Largest residual."""
    jacobian: Array


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def fit(residuals: Sequence[Residual], columns: dict[str, int], start: Array, free: Sequence[int] | None = None) -> Fit:
    """Return the nearest solution to `start`, or the best that was found; only the columns `free` are moved, if given.

    Where a residual or its slope has no finite value, as of `x/0`, there is none: the error is infinite.
    """
    vector, damping = start.copy(), 1e-2
    held = np.ones(len(vector), bool) if free is None else np.isin(np.arange(len(vector)), free)
    values = _values(residuals, columns, vector[None])[0]
    jacobian = _jacobian(residuals, columns, vector) * held
    scale = np.full(len(vector), 1e-9)
    for _ in range(_STEPS):
        if float(np.abs(values).max(initial=0.0)) < 1e-10 or damping > 1e12:
            break
        if not (np.isfinite(values).all() and np.isfinite(jacobian).all()):
            return Fit(vector, np.inf, jacobian)
        normal = jacobian.T @ jacobian
        # It never falls: an unknown that matters little just here would else leap where it matters much (Moré, 1978).
        scale = np.maximum(scale, np.diag(normal))
        step = np.linalg.lstsq(normal + damping * np.diag(scale), -jacobian.T @ values, rcond=None)[0]
        moved = _values(residuals, columns, (vector + step)[None])[0]
        if moved @ moved < values @ values:
            vector, values, damping = vector + step, moved, damping / 5
            jacobian = _jacobian(residuals, columns, vector) * held
        else:
            damping *= 4
    return Fit(vector, float(np.abs(values).max(initial=0.0)), jacobian)


def is_fixed(solution: Fit, quantity: Residual, columns: dict[str, int]) -> bool:
    """Return whether the statements fix a quantity at a solution."""
    gradient = _jacobian([quantity], columns, solution.vector)[0]
    value = abs(float(quantity(State(columns, solution.vector[None]))[0]))
    # In units of the unknowns themselves, or a figure of kilometres would be free where one of metres is not.
    units = np.maximum(np.abs(solution.vector), 1.0)
    scaled = solution.jacobian * units
    _, sizes, directions = np.linalg.svd(scaled, full_matrices=True)
    rank = int((sizes > _SMALL * sizes.max(initial=1.0)).sum())
    free = directions[rank:]
    change = np.abs(free @ (gradient * units)).max(initial=0.0)
    return bool(change <= _FREE * max(value, 1e-6))


def _values(residuals: Sequence[Residual], columns: dict[str, int], rows: Array) -> Array:
    state = State(columns, rows)
    if not residuals:  # the statements only name figures
        return np.zeros((len(rows), 0))
    return np.stack([np.broadcast_to(one(state), (len(rows),)) for one in residuals], axis=1)


def _jacobian(residuals: Sequence[Residual], columns: dict[str, int], vector: Array) -> Array:
    """Return (residuals, unknowns), by central differences."""
    step = 1e-6 * np.maximum(1.0, np.abs(vector))
    moves = np.diag(step)
    values = _values(residuals, columns, np.concatenate([vector + moves, vector - moves]))
    return np.asarray(((values[: len(vector)] - values[len(vector) :]) / (2 * step[:, None])).T)
