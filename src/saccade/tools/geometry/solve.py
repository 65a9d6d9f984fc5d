"""Logic forms to an answer: a figure that satisfies them all, and the goal read off it.

This is no prover: the statements become equations over coordinates, which are solved by search. An answer is given only
where every figure near the found one has it too, and, without a sketch to start from, where several starts agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import dist, hypot
from typing import Final, Literal

import numpy as np

from saccade.tools.geometry.figure import Array, PlaneFigure, State
from saccade.tools.geometry.fit import Fit, Residual, fit, is_fixed
from saccade.tools.geometry.measures import MeasuredValue, measure
from saccade.tools.geometry.statements import at_radius, implied, residuals_of
from saccade.tools.geometry.terms import FormError, Term, read_term
from saccade.tools.geometry.unnamed import Place, with_names

SolveStatus = Literal["solved", "open", "contradiction"]
HOLDS: Final = 0.01
"""Largest residual of a figure that satisfies its statements: printed measures are rounded."""
_STARTS: Final = 8
_ENOUGH: Final = 3
_AGREE: Final = 1e-3
_BESIDE: Final = 0.02
_BENT: Final = 12.0
"""Degrees from which two lines of a sketch are not one."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What became of a problem."""

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
    """Whether p is drawn between a and b, beside their line by less than a fiftieth of its length."""
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

    Raises:
        FormError: there is no goal, or it cannot be read.
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
    for form in forms:
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
    """Points that are drawn on a line and joined to both its ends lie on it, though no statement says so."""
    made: list[Residual] = []
    for a, b in sorted(tuple(sorted(pair)) for pair in figure.lines):
        for p in sorted(set(figure.neighbours(a)) & set(figure.neighbours(b))):
            known = any(q == p and {a, b} == {c, d} for q, c, d in figure.on_line)
            if not known and _lies(sketch, p, a, b):
                made += residuals_of(read_term(f"PointLiesOnLine({p},Line({a},{b}))"), figure)
    return made


def _length(term: Term) -> dict[tuple[str, str], float]:
    """The line and its length that a statement like `Equals(LengthOf(Line(A,B)),5)` gives."""
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
                # Steps of a search that failed begin a little beside the sketch.
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
    """Units of the statements per unit of the sketch, by the lengths that are given as numbers."""
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
    """Whether no line has shrunk to a point, and no corner of a polygon or angle of the sketch has become straight."""
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
