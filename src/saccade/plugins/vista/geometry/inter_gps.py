"""Inter-GPS's place: logic forms of a problem's text and diagram to the answer.

The original searches a list of theorems; this one fits a figure to the statements, so it gives no
proof. It says which statements it used, which it could not read, and when the goal is left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import atan2, comb, degrees, dist, hypot, isqrt, pi
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field

from saccade.plugins.vista.geometry.figure import (
    Array,
    Fit,
    FormError,
    PlaneFigure,
    Residual,
    State,
    Term,
    corners,
    fit,
    is_fixed,
    read_term,
    ring,
)
from saccade.plugins.vista.geometry.measures import ANY_OUTLINE, POLYGONS, MeasuredValue, bare, measure
from saccade.plugins.vista.geometry.statements import at_radius, implied, residuals_of
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext, wrong_format
from saccade.tools.definition import Alias, Cost, Point, ToolModel

# Figures without names: what `$` stands for in `Rhombus($)`, which a text says of "the quadrilateral".
#
# It is the one figure of as many corners that a statement names; if none is named, the one that the lines of a sketch
# bound. Where there are several, `$` stays.

Place = tuple[float, float]
_CORNERS: Final = {"Triangle": 3, "Pentagon": 5, "Hexagon": 6, "Heptagon": 7, "Octagon": 8}
_BENT: Final = 12.0
"""Degrees by which an outline turns at least at a corner."""
_TRIED: Final = 20_000
"""Most sets of corners that are looked at."""


def with_names(terms: Sequence[Term], sketch: Mapping[str, Place]) -> list[Term]:
    """Return the terms, the one figure that is meant in place of each `$`."""
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
    """Return the lines that statements name, as far as they have two ends."""
    found: set[frozenset[str]] = set()
    for term in terms:
        if term.head == "Line" and len(set(term.names)) == 2:
            found.add(frozenset(term.names))
        found |= _sides(term.args)
    return found


def _outlines(count: int, sides: set[frozenset[str]], sketch: Mapping[str, Place]) -> Iterator[list[str]]:
    """Yield the convex polygons of so many corners whose sides are lines of the sketch; none if they are too many."""
    joined = sorted(sketch.keys() & {name for side in sides for name in side})
    if comb(len(joined), count) > _TRIED:
        return
    for names in combinations(joined, count):
        x, y = (sum(sketch[name][axis] for name in names) / count for axis in (0, 1))
        around = sorted(names, key=lambda name: atan2(sketch[name][1] - y, sketch[name][0] - x))
        bounded = all(frozenset(side) in sides for side in ring(around))
        if bounded and all(turn > _BENT for turn in _turns([sketch[name] for name in around])):
            yield around


def _turns(outline: Sequence[Place]) -> Iterator[float]:
    """Yield by how many degrees the outline turns at each corner, in the sense in which it runs."""
    for (px, py), (qx, qy), (rx, ry) in corners(outline):
        ax, ay, bx, by = qx - px, qy - py, rx - qx, ry - qy
        yield degrees(atan2(ax * by - ay * bx, ax * bx + ay * by))


# Logic forms to an answer: a figure that satisfies them all, and the goal read off it.
#
# This is no prover: the statements become equations over coordinates, which are solved by search. An answer is given
# only where every figure near the found one has it too, and, without a sketch to start from, where several starts
# agree.


SolveStatus = Literal["solved", "open", "contradiction"]
HOLDS: Final = 0.01
"""Largest residual of a figure that satisfies its statements: printed measures are rounded."""
_STARTS: Final = 8
_ENOUGH: Final = 3
_AGREE: Final = 1e-3
_BESIDE: Final = 0.02
"""Degrees from which two lines of a sketch are not one."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Outcome of a problem."""

    status: SolveStatus
    """`solved`; `open` if the statements leave the goal free or several figures disagree; `contradiction` if no figure
    was found that satisfies them."""
    value: float | None
    used: tuple[str, ...]
    unread: tuple[tuple[str, str], ...]
    """Statements that were left out, and why."""
    letters: Mapping[str, float]
    """Unknowns of the diagram in the figure that was found."""
    points: Mapping[str, Place]
    error: float
    """Largest relative residual."""


@dataclass(slots=True)
class _Problem:
    figure: PlaneFigure
    residuals: list[Residual]
    used: list[str]
    unread: list[tuple[str, str]]
    goal: MeasuredValue | None = None
    lengths: dict[tuple[str, str], float] = field(default_factory=dict)
    """Lines whose length is given as a number."""


def _lies(sketch: Mapping[str, Place], p: str, a: str, b: str) -> bool:
    """Return whether p is drawn between a and b, next to their line by less than a fiftieth of its length."""
    if not {p, a, b} <= sketch.keys():
        return False
    (px, py), (ax, ay), (bx, by) = sketch[p], sketch[a], sketch[b]
    length = hypot(bx - ax, by - ay)
    if length == 0:
        return False
    along = ((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / length**2
    off = abs((px - ax) * (by - ay) - (py - ay) * (bx - ax)) / length**2
    return 0.05 < along < 0.95 and off < _BESIDE


def solve(forms: Sequence[str], sketch: Mapping[str, Place] | None = None, *, seed: int = 0) -> Solved:
    """Solve for what the statement `Find(...)` asks.

    Args:
        forms: Logic forms, of text and diagram together.
        sketch: Where points are drawn, in any unit; y down or up.
        seed: Of the random starts.

    Raises `FormError`: there is no goal, or it cannot be read.
    """
    problem = _read(forms, sketch or {})
    assert problem.goal is not None, "read or raised"
    rng = np.random.default_rng(seed)
    fits: list[Fit] = []
    for start in _starts(problem, sketch or {}, rng):
        letters = [problem.figure.columns[name] for name in problem.figure.letters]
        if sketch and letters:
            # Letters first: what they must be for the figure as it is drawn.
            start = fit(problem.residuals, problem.figure.columns, start, letters).vector
        one = fit(problem.residuals, problem.figure.columns, start)
        if one.error <= HOLDS and _proper(one, problem.figure, sketch or {}):
            fits.append(one)
        if fits and (sketch or len(fits) == _ENOUGH):
            break
    return _verdict(problem, fits)


def _read(forms: Sequence[str], sketch: Mapping[str, Place]) -> _Problem:
    problem = _Problem(PlaneFigure(), [], [], [])
    terms: list[tuple[str, Term]] = []
    for form in filter(str.strip, forms):
        try:
            terms.append((form, read_term(form)))
        except FormError as error:
            problem.unread.append((form, str(error)))
    named = with_names([term for _, term in terms], sketch)
    terms = [(form, term) for (form, _), term in zip(terms, named, strict=True)]
    # Lines and circles first: what an angle of one letter or an arc means depends on them.
    terms.sort(key=lambda item: _ORDER.get(item[1].head, 1))
    for form, term in terms:
        try:
            problem.residuals += implied(term, problem.figure)
            if term.head == "Find":
                continue
            problem.residuals += residuals_of(term, problem.figure)
            problem.used.append(form)
            problem.lengths.update(_length(term))
        except FormError as error:
            problem.unread.append((form, str(error)))
        except (IndexError, ValueError):
            problem.unread.append((form, "it has too few arguments, or too many"))
    problem.residuals += _drawn_on_lines(problem.figure, sketch)
    goals = [term for _, term in terms if term.head == "Find" and len(term.args) == 1]
    if not goals:
        raise FormError("there is no statement Find(...) that says what is asked")
    problem.goal = measure(goals[0].args[0], problem.figure)
    problem.residuals += [at_radius(end, centre, f"r.{centre}") for end, centre in problem.figure.arc_ends]
    return problem


def _drawn_on_lines(figure: PlaneFigure, sketch: Mapping[str, Place]) -> list[Residual]:
    """Yield points that are drawn on a line and joined to both its ends are on it, though no statement says so."""
    made: list[Residual] = []
    for a, b in sorted(tuple(sorted(pair)) for pair in figure.lines):
        for p in sorted(set(figure.neighbours(a)) & set(figure.neighbours(b))):
            known = any(q == p and {a, b} == {c, d} for q, c, d in figure.on_line)
            if not known and _lies(sketch, p, a, b):
                made += residuals_of(read_term(f"PointLiesOnLine({p},Line({a},{b}))"), figure)
    return made


def _length(term: Term) -> dict[tuple[str, str], float]:
    """Return the line and its length that a statement like `Equals(LengthOf(Line(A,B)),5)` gives."""
    if term.head != "Equals" or len(term.args) != 2 or term.args[0].head != "LengthOf" or not term.args[0].args:
        return {}
    line, text = term.args[0].args[0], term.args[1].head
    number = text.replace(".", "", 1).isdigit() and not term.args[1].args
    return (
        {(line.names[0], line.names[1]): float(text)} if line.head == "Line" and len(line.names) == 2 and number else {}
    )


_ORDER: Final = {"PointLiesOnCircle": 0, "PointLiesOnLine": 0, "IsDiameterOf": 0, "Tangent": 2, "IsMidsegmentOf": 2}


def _starts(problem: _Problem, sketch: Mapping[str, Place], rng: np.random.Generator) -> list[Array]:
    columns = problem.figure.columns
    scale = _scale(problem, sketch)
    made = []
    for number in range(_STARTS):
        start = rng.uniform(2.0, 12.0, len(columns))
        for name, (x, y) in sketch.items():
            if f"{name}.x" in columns:
                # Steps of a search that failed begin a little next to the sketch.
                aside, below = rng.normal(0, 0.15, 2) if number else (0.0, 0.0)
                start[columns[f"{name}.x"]] = x * scale + aside
                start[columns[f"{name}.y"]] = y * scale + below
        factor = (1.0, 1.0, 2.0, 0.5)[number % 4]
        coordinates = [column for name, column in columns.items() if "." in name]
        start[coordinates] *= factor
        _set_radii(problem.figure, start)
        made.append(start)
    return made


def _scale(problem: _Problem, sketch: Mapping[str, Place]) -> float:
    """Return units of the statements per unit of the sketch, by the lengths that are given as numbers."""
    ratios = [
        length / drawn
        for (a, b), length in problem.lengths.items()
        if a in sketch and b in sketch and (drawn := dist(sketch[a], sketch[b])) > 0
    ]
    if ratios:
        return float(np.median(ratios))
    spread = float(np.ptp([list(place) for place in sketch.values()], axis=0).max()) if sketch else 0.0
    return 10.0 / spread if spread > 0 else 1.0


def _set_radii(figure: PlaneFigure, start: Array) -> None:
    state = State(figure.columns, start[None])
    for centre, names in figure.circles.items():
        if names:
            lengths = [float(state.length(centre, name)[0]) for name in names]
            start[figure.columns[f"r.{centre}"]] = float(np.median(lengths))


def _proper(solution: Fit, figure: PlaneFigure, sketch: Mapping[str, Place]) -> bool:
    """Tell whether no line has shrunk to a point, and no corner of a polygon or angle has become straight."""
    state = State(figure.columns, solution.vector[None])
    lengths = [float(state.length(*sorted(pair))[0]) for pair in figure.lines]
    if lengths and min(lengths) <= 1e-3 * max(lengths):
        return False
    if not all(_is_bent(state, corner) for corner in figure.corners):
        return False
    drawn = State(figure.columns, _drawn(figure, sketch)[None])
    for b in sketch:
        ends = [name for name in figure.neighbours(b) if name in sketch]
        for a, c in combinations(ends, 2):
            if _BENT < float(drawn.angle(a, b, c)[0]) < 180 - _BENT and not _is_bent(state, (a, b, c)):
                return False
    return True


def _is_bent(state: State, corner: tuple[str, str, str]) -> bool:
    return 1 < float(state.angle(*corner)[0]) < 179


def _drawn(figure: PlaneFigure, sketch: Mapping[str, Place]) -> Array:
    vector = np.zeros(len(figure.columns))
    for name, place in sketch.items():
        if f"{name}.x" in figure.columns:
            column = figure.columns[f"{name}.x"]
            vector[column : column + 2] = place
    return vector


def _verdict(problem: _Problem, fits: Sequence[Fit]) -> Solved:
    assert problem.goal is not None, "read before"
    columns = problem.figure.columns
    if not fits:
        return _solved("contradiction", None, problem, None)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        values = [float(problem.goal(State(columns, one.vector[None]))[0]) for one in fits]
    if not np.isfinite(values).all():  # as of x/0
        return _solved("open", None, problem, fits[0])
    agree = max(values) - min(values) <= _AGREE * max(1e-6, *map(abs, values))
    fixed = agree and is_fixed(fits[0], problem.goal, columns)
    return _solved("solved" if fixed else "open", values[0] if fixed else None, problem, fits[0])


def _solved(status: SolveStatus, value: float | None, problem: _Problem, solution: Fit | None) -> Solved:
    figure = problem.figure
    letters: dict[str, float] = {}
    points: dict[str, Place] = {}
    if solution is not None:
        state = State(figure.columns, solution.vector[None])
        letters = {name: float(state[name][0]) for name in figure.letters}
        points = {name: (float(state.at(name)[0, 0]), float(state.at(name)[0, 1])) for name in figure.points}
    error = solution.error if solution is not None else float("inf")
    return Solved(status, value, tuple(problem.used), tuple(problem.unread), letters, points, error)


# The exact number that a computed one most likely is: a fraction, a multiple of a root or of pi.


_NEAR: Final = 1e-6
_DENOMINATOR: Final = 60
_RADICAND: Final = 100_000


def exact_form(value: float) -> str:
    """Write `value` as `12`, `7/2`, `5*sqrt(3)`, `9/2*pi`; empty where none of these is as near as a millionth."""
    for unit, name in ((1.0, ""), (pi, "pi")):
        ratio = _fraction(value / unit)
        if ratio is not None and (ratio != 0 or not name):
            return _times(ratio, name)
    square = _fraction(value * value)
    if not square or square.numerator * square.denominator > _RADICAND:
        return ""
    # sqrt(p/q) = sqrt(p*q)/q, with the largest square taken out.
    inner = square.numerator * square.denominator
    outer = next(root for root in range(isqrt(inner), 0, -1) if inner % root**2 == 0)
    factor = Fraction(outer, square.denominator) * (-1 if value < 0 else 1)
    return _times(factor, f"sqrt({inner // outer**2})")


def _fraction(value: float) -> Fraction | None:
    near = Fraction(value).limit_denominator(_DENOMINATOR)
    return near if abs(float(near) - value) <= _NEAR * max(1.0, abs(value)) else None


def _times(factor: Fraction, name: str) -> str:
    if not name:
        return str(factor)
    return name if factor == 1 else f"-{name}" if factor == -1 else f"{factor}*{name}"


LogicForm = Annotated[str, Field(max_length=400)]
"""One statement; an empty one, as some annotations of Geometry3K have it, says nothing."""


class InterGpsArguments(ToolModel):
    """A problem in logic forms."""

    text_logic: Annotated[
        tuple[LogicForm, ...],
        Field(max_length=60, description="Logic forms of the text, with what is asked as Find(...), as in Find(x)."),
    ]
    diagram_logic: Annotated[
        tuple[LogicForm, ...],
        Field(max_length=200, description="Logic forms of the diagram, such as Equals(LengthOf(Line(A,B)),5)."),
    ] = ()
    points: Annotated[
        dict[str, Point] | None,
        Field(description="Where the points are drawn, as {A: [x, y]}; helps where a statement has two readings."),
    ] = None


class UnreadForm(ToolModel):
    """A statement that was left out."""

    form: str
    why: str


class SolvedLetter(ToolModel):
    """An unknown of the diagram in the figure that was found."""

    name: str
    value: float


class InterGpsResult(ToolModel):
    """The answer, or why there is none."""

    status: SolveStatus
    """open: the statements do not fix the goal; contradiction: no figure satisfies them."""
    value: float | None
    exact: str
    """A closed form such as 5*sqrt(3); empty if none fits."""
    letters: tuple[SolvedLetter, ...]
    used: tuple[str, ...]
    unread: tuple[UnreadForm, ...]


class InterGps(Tool[InterGpsArguments, InterGpsResult]):
    """Logic forms to an answer."""

    name = "inter_gps"
    suits = (("problems of geometry", 2),)
    description = (
        "Solve a plane geometry problem given as logic forms of Geometry3K. Needs Find(...) for what is asked. Says "
        "solved with the value, open if the statements do not fix it, or contradiction. `text_cdl` and `image_cdl` "
        "write such forms."
    )
    arguments = InterGpsArguments
    result = InterGpsResult
    aliases = (Alias("intergps"),)
    cost = Cost.MEDIUM

    def run(self, arguments: InterGpsArguments, context: ToolContext) -> ToolOutcome[InterGpsResult]:
        """Read, fit, and read the goal off."""
        try:
            solved = solve((*arguments.text_logic, *arguments.diagram_logic), arguments.points)
        except FormError as error:
            raise wrong_format(f"The goal cannot be read: {error}. Write it as in Find(LengthOf(Line(A,B)))") from error
        value = None if solved.value is None else float(f"{solved.value:.10g}")
        result = InterGpsResult(
            status=solved.status,
            value=value,
            exact="" if value is None else exact_form(value),
            letters=tuple(SolvedLetter(name=name, value=float(f"{one:.6g}")) for name, one in solved.letters.items()),
            used=solved.used,
            unread=tuple(UnreadForm(form=form, why=why) for form, why in solved.unread),
        )
        return ToolOutcome(result, text=_words(result))


def _words(result: InterGpsResult) -> str:
    if result.value is not None:
        exact = f" = {result.exact}" if result.exact and result.exact != f"{result.value:g}" else ""
        line = f"Solved: {result.value:g}{exact}."
    elif result.status == "open":
        line = "Open: the statements do not fix what is asked. Add what is missing."
    else:
        line = "Contradiction: no figure was found in which all statements hold. Check the forms."
    left = "; ".join(f"{item.form} ({item.why})" for item in result.unread)
    return line + (f" Left out: {left}." if left else "")
