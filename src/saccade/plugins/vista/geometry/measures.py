"""Measure terms in a figure: lengths, angles, arcs, areas, ratios, and expressions over them.

Angles and arcs are in degrees. A term of one letter where a line is expected, or a mark such as `Shaded`, is skipped
over where that does not change what is meant.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from saccade.plugins.vista.geometry.figure import Array, FormError, PlaneFigure, State, Term, corners, ring

# Expressions on diagrams, `4x-17`, `\sqrt{3}y`, `(2x+1)/5`: read without running anything, and evaluated on arrays.
#
# Letters are unknowns, a factor may follow another without a sign, and `\sqrt`, `\frac`, `\pi` are those of LaTeX.

ExpressionValue = Callable[[Mapping[str, Any]], Any]
"""From values of the unknowns (numbers, or arrays of one shape) to the value of the expression."""

_TOKEN: Final = re.compile(r"\s*(\d+\.?\d*|\.\d+|\\?sqrt|\\frac|\\?pi|π|√|[A-Za-z]|\*\*|[-+*/^(){}°%])")
_DEGREES: Final = re.compile(r"\\?\^?\s*\{?\\(?:circ|degree|deg)\}?|\\(?:text|mathrm)\{[^}]*\}|\\ |\\left|\\right|~")


def read_expression(text: str) -> tuple[ExpressionValue, frozenset[str]]:
    """Return the function that an expression writes, and the unknowns in it.

    Raises `FormError`: it is none, or a number without a finite value, such as `1/0`.
    """
    clean = _DEGREES.sub("", text).replace("−", "-").replace("\\cdot", "*").replace("\\times", "*")
    reader = _Reader(_tokens(clean), text)
    value = reader.sum()
    if reader.rest:
        raise FormError(f"{text!r} cannot be read from {reader.rest[0]!r} on")
    if not reader.unknowns:
        with np.errstate(all="ignore"):
            if not np.isfinite(value({})):
                raise FormError(f"{text!r} has no finite value")
    return value, frozenset(reader.unknowns)


def _tokens(text: str) -> list[str]:
    tokens, place = [], 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise FormError(f"{text!r} has a sign that no expression has: {text[place:].strip()[:1]!r}")
        tokens.append(match[1].lstrip("\\"))
        place = match.end()
    if not tokens:
        raise FormError("an expression is empty")
    return [token for token in tokens if token not in "°%"]


class _Reader:
    """Recursive descent; `rest` are the tokens that are not read yet."""

    def __init__(self, tokens: list[str], text: str) -> None:
        self.rest = tokens
        self.unknowns: set[str] = set()
        self._text = text

    def sum(self) -> ExpressionValue:
        value = self._product()
        while self.rest[:1] in (["+"], ["-"]):
            value = _join(value, self.rest.pop(0), self._product())
        return value

    def _product(self) -> ExpressionValue:
        negative = False
        while self.rest[:1] in (["-"], ["+"]):
            negative ^= self.rest.pop(0) == "-"
        value = self._power()
        while self.rest and self.rest[0] not in "+-)}":
            sign = self.rest.pop(0) if self.rest[0] in ("*", "/") else "*"
            value = _join(value, sign, self._power())
        return _join(lambda _: -1.0, "*", value) if negative else value

    def _power(self) -> ExpressionValue:
        value = self._atom()
        while self.rest[:1] in (["^"], ["**"]):
            value = _join(value, self.rest.pop(0), self._atom())
        return value

    def _atom(self) -> ExpressionValue:
        if not self.rest:
            raise FormError(f"{self._text!r} ends too early")
        token = self.rest.pop(0)
        if token in ("sqrt", "√"):
            inner = self._atom()
            return lambda values: np.sqrt(np.maximum(inner(values), 0.0))
        if token == "frac":
            over = self._atom()
            return _join(over, "/", self._atom())
        if token in ("(", "{"):
            value = self.sum()
            if not self.rest or self.rest.pop(0) not in (")", "}"):
                raise FormError(f"a bracket in {self._text!r} is not closed")
            return value
        if token in ("pi", "π"):
            return lambda _: np.float64(np.pi)
        if token[0].isdigit() or token[0] == ".":
            number = np.float64(token)  # of numpy: divided by zero it is infinite, where Python's raises
            return lambda _: number
        if token.isalpha() and len(token) == 1:
            self.unknowns.add(token)
            return lambda values: values[token]
        raise FormError(f"{self._text!r} cannot be read at {token!r}")


_JOINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": np.power, "**": np.power
}  # fmt: skip


def _join(a: ExpressionValue, sign: str, b: ExpressionValue) -> ExpressionValue:
    return lambda values: _JOINED[sign](a(values), b(values))


MeasuredValue = Callable[[State], Array]

POLYGONS: Final = frozenset(
    (
        *("Triangle", "Quadrilateral", "Parallelogram", "Rectangle", "Rhombus", "Square", "Trapezoid", "Kite"),
        *("Polygon", "Pentagon", "Hexagon", "Heptagon", "Octagon", "Shape"),
    )
)
ANY_OUTLINE: Final = frozenset(("Polygon", "Shape"))
"""Names of polygons that do not say how many corners there are; a point on a side may be named among them."""
MARKS: Final = frozenset(
    ("Shaded", "Blue", "Green", "Red", "Right", "Regular", "Isosceles", "Equilateral", "Shape", "Minor")
)
"""Words around a figure that say which, or of what kind."""
_NAMED_ANGLE: Final = re.compile(r"angle (\w+)")


def bare(term: Term) -> Term:
    """Return the figure inside words such as `Shaded(...)` or `Right(...)`."""
    while term.head in MARKS and len(term.args) == 1 and term.args[0].args:
        term = term.args[0]
    return term


def polygon(term: Term, figure: PlaneFigure) -> list[str]:
    """Return the corners of a polygon in order, its sides known to the figure. Raises `FormError` if it is none."""
    term = bare(term)
    if term.head not in POLYGONS or len(term.args) < 3:
        raise FormError(f"{term} is no polygon with its corners named")
    names = [figure.point(name) for name in term.names]
    for before, a, b in corners(names):
        figure.line((a, b))
        if term.head not in ANY_OUTLINE:
            figure.corners.add((before, a, b))
    return names


def measure(term: Term, figure: PlaneFigure) -> MeasuredValue:
    """Return the value of a term as a function of the state.

    Raises `FormError`: it measures nothing that is known here.
    """
    term = bare(term)
    if not term.args:
        named = _NAMED_ANGLE.fullmatch(term.head)
        return _letter(f"∠{named[1]}", figure) if named else _expression(term.head, figure)
    reader = _READERS.get(term.head)
    if reader is None:
        raise FormError(f"{term.head} is not known")
    return reader(term, figure)


def _expression(text: str, figure: PlaneFigure) -> MeasuredValue:
    value, letters = read_expression(text)
    for letter in letters:
        figure.unknown(letter)
    return lambda state: np.broadcast_to(
        np.asarray(value({name: state[name] for name in letters}), dtype=np.float64), (len(state.rows),)
    )


def _only(term: Term) -> Term:
    if len(term.args) != 1:
        raise FormError(f"{term.head} has one argument, not {len(term.args)}")
    return term.args[0]


def _line(term: Term, figure: PlaneFigure) -> MeasuredValue:
    a, b = figure.line(term.names)
    return lambda state: state.length(a, b)


def _angle(term: Term, figure: PlaneFigure) -> MeasuredValue:
    names = term.names
    if len(names) == 3:
        figure.line(names[:2])
        figure.line(names[1:])
        a, b, c = names
        return lambda state: state.angle(a, b, c)
    if len(names) != 1:
        raise FormError(f"an angle is named by one or three names, not {len(names)}")
    if not names[0][0].isupper():
        return _letter(f"∠{names[0]}", figure)
    return _corner(names[0], figure)


def _corner(name: str, figure: PlaneFigure) -> MeasuredValue:
    around = figure.neighbours(figure.point(name))
    same_side = {frozenset((p, end)) for p, a, b in figure.on_line for end in (a, b) if name in {a, b} - {end}}
    ends: list[str] = []
    for other in around:
        if not any(frozenset((other, end)) in same_side for end in ends):
            ends.append(other)
    if len(ends) != 2:
        raise FormError(f"the angle at {name} is not one: name it by three points")
    a, c = ends
    return lambda state: state.angle(a, name, c)


def _letter(name: str, figure: PlaneFigure) -> MeasuredValue:
    figure.unknown(name)
    return lambda state: state[name]


def centre_of(names: Sequence[str], figure: PlaneFigure) -> str:
    """Return the centre of the one circle through these points, or through at least one, such as an end of an arc.

    Raises `FormError`: there is not one.
    """
    for needed in (set(names), set(names[:1]), set(names[-1:]), set[str]()):
        centres = [centre for centre, points in figure.circles.items() if needed <= points]
        if len(centres) == 1:
            missing = sorted(set(names) - figure.circles[centres[0]] - {centres[0]})
            figure.arc_ends += [(name, centres[0]) for name in missing]
            figure.circles[centres[0]] |= set(missing)
            return centres[0]
    raise FormError(f"there is not one circle through {', '.join(names)}")


def _arc(term: Term, figure: PlaneFigure) -> MeasuredValue:
    names = [figure.point(name) for name in term.names]
    if len(names) not in (2, 3):
        raise FormError("an arc is named by two or three points")
    centre = centre_of(names, figure)
    a, b = names[0], names[-1]
    if len(names) == 2:
        return lambda state: state.angle(a, centre, b)
    through = names[1]

    def swept(state: State) -> Array:
        small = state.angle(a, centre, b)
        inside = state.angle(a, centre, through) + state.angle(through, centre, b) < small + 1e-3
        return np.asarray(np.where(inside, small, 360 - small))

    return swept


def _major(term: Term, figure: PlaneFigure) -> MeasuredValue:
    inner = _only(term)
    small = _arc(Term("Arc", (inner.args[0], inner.args[-1])), figure)
    return lambda state: np.asarray(360 - small(state))


def _length(term: Term, figure: PlaneFigure) -> MeasuredValue:
    inner = bare(_only(term))
    if inner.head != "Arc":
        return measure(inner, figure)
    degrees, radius = _arc(inner, figure), figure.circle(centre_of(inner.names, figure))
    return lambda state: np.asarray(np.radians(degrees(state)) * state[radius])


def _radius(term: Term, figure: PlaneFigure) -> MeasuredValue:
    inner = bare(_only(term))
    if inner.head not in ("Circle", "Cirle") or not inner.args:
        raise FormError(f"{inner} is no circle")
    radius = figure.circle(inner.names[0])
    return lambda state: state[radius]


def _scaled_radius(factor: float, power: int = 1) -> Callable[[Term, PlaneFigure], MeasuredValue]:
    def read(term: Term, figure: PlaneFigure) -> MeasuredValue:
        radius = _radius(term, figure)
        return lambda state: factor * radius(state) ** power

    return read


def _area(term: Term, figure: PlaneFigure) -> MeasuredValue:
    inner = bare(_only(term))
    if inner.head in ("Circle", "Cirle"):
        return _scaled_radius(np.pi, 2)(Term("AreaOf", (inner,)), figure)
    if inner.head in ("Sector", "Sectoe") and len(inner.names) == 3:
        centre, a, b = (figure.point(name) for name in inner.names)
        return lambda state: np.radians(state.angle(a, centre, b)) / 2 * state.length(centre, a) ** 2
    names = polygon(inner, figure)
    return lambda state: state.area(names)


def _perimeter(term: Term, figure: PlaneFigure) -> MeasuredValue:
    inner = bare(_only(term))
    if inner.head in ("Circle", "Cirle"):
        return _scaled_radius(2 * np.pi)(Term("PerimeterOf", (inner,)), figure)
    names = polygon(inner, figure)
    return lambda state: state.perimeter(names)


def _side(term: Term, figure: PlaneFigure) -> MeasuredValue:
    names = polygon(_only(term), figure)
    return lambda state: state.length(names[0], names[1])


def _hypotenuse(term: Term, figure: PlaneFigure) -> MeasuredValue:
    names = polygon(_only(term), figure)
    return lambda state: np.max([state.length(a, b) for a, b in ring(names)], axis=0)


def _ratio(term: Term, figure: PlaneFigure) -> MeasuredValue:
    if len(term.args) == 1:
        return measure(term.args[0], figure)
    if len(term.args) > 2:
        raise FormError(f"{term.head} has at most two arguments, not {len(term.args)}")
    over, under = (_size(arg, figure) for arg in term.args)
    return lambda state: over(state) / under(state)


def _size(term: Term, figure: PlaneFigure) -> MeasuredValue:
    """Return the length of a line or, of a polygon, of its first side: similar ones name their corners in one order."""
    inner = bare(term)
    return _side(Term("SideOf", (inner,)), figure) if inner.head in POLYGONS else measure(inner, figure)


def _trigonometric(function: Callable[[Array], Array]) -> Callable[[Term, PlaneFigure], MeasuredValue]:
    def read(term: Term, figure: PlaneFigure) -> MeasuredValue:
        angle = measure(_only(term), figure)
        return lambda state: np.asarray(function(np.radians(angle(state))))

    return read


def _many(join: Callable[[list[Array]], Array]) -> Callable[[Term, PlaneFigure], MeasuredValue]:
    def read(term: Term, figure: PlaneFigure) -> MeasuredValue:
        parts = [measure(arg, figure) for arg in term.args]
        return lambda state: join([part(state) for part in parts])

    return read


_READERS: Final[dict[str, Callable[[Term, PlaneFigure], MeasuredValue]]] = {
    "Line": _line,
    "Angle": _angle,
    "Arc": _arc,
    "Major": _major,
    "LengthOf": _length,
    "MeasureOf": lambda term, figure: measure(_only(term), figure),
    "RadiusOf": _radius,
    "DiameterOf": _scaled_radius(2.0),
    "CircumferenceOf": _scaled_radius(2 * np.pi),
    "AreaOf": _area,
    "PerimeterOf": _perimeter,
    "SideOf": _side,
    "HypotenuseOf": _hypotenuse,
    "RatioOf": _ratio,
    "ScaleFactorOf": _ratio,
    "SinOf": _trigonometric(np.sin),
    "CosOf": _trigonometric(np.cos),
    "TanOf": _trigonometric(np.tan),
    "Add": _many(lambda parts: np.sum(parts, axis=0)),
    "SumOf": _many(lambda parts: np.sum(parts, axis=0)),
    "Mul": _many(lambda parts: np.prod(parts, axis=0)),
    "Sub": _many(lambda parts: np.asarray(parts[0] - parts[-1])),
    "Div": _many(lambda parts: np.asarray(parts[0] / parts[-1])),
    "HalfOf": _many(lambda parts: np.asarray(parts[0] / 2)),
    "SquareOf": _many(lambda parts: np.asarray(parts[0] ** 2)),
}
