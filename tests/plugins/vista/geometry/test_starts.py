"""How a search begins from a sketch, and which of the figures that it finds are figures at all."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.plugins.vista.geometry import inter_gps as solving
from saccade.plugins.vista.geometry.figure import Fit, PlaneFigure, State, fit, is_fixed, read_term
from saccade.plugins.vista.geometry.inter_gps import (
    Place,
    _drawn_on_lines,
    _length,
    _lies,
    _Problem,
    _proper,
    _read,
    _scale,
    _starts,
    _verdict,
)
from saccade.plugins.vista.geometry.measures import polygon


def figure(*points: str, letters: str = "", radius: str = "") -> PlaneFigure:
    made = PlaneFigure()
    for name in points:
        made.point(name)
    for letter in letters:
        made.unknown(letter)
    if radius:
        made.circle(radius)
    return made


def problem(made: PlaneFigure, **lengths: float) -> _Problem:
    return _Problem(made, [], [], [], lengths={(name[0], name[1]): value for name, value in lengths.items()})


@pytest.mark.parametrize(
    ("place", "lies"),
    [
        ((50, 0), True), ((5, 0), False), ((5.1, 0), True), ((94.9, 0), True), ((95, 0), False), ((-50, 0), False),
        ((50, 1.99), True), ((50, -1.99), True), ((50, 2), False), ((50, -2), False),
    ],
)  # fmt: skip
def test_a_point_is_drawn_on_a_line_between_its_ends(place: Place, lies: bool) -> None:
    turned = {"P": place, "A": (0.0, 0.0), "B": (100.0, 0.0)}
    assert _lies(turned, "P", "A", "B") is lies
    standing = {name: (7 + y, 9 + x) for name, (x, y) in turned.items()}
    assert _lies(standing, "P", "A", "B") is lies
    assert _lies({"A": (0, 0), "B": (9, 0)}, "P", "A", "B") is False
    assert _lies({"P": (0, 0), "A": (3, 3), "B": (3, 3)}, "P", "A", "B") is False


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (("Line(A,B)", "PointLiesOnCircle(A,Circle(O))"), (1, 0)),
        (("Line(A,B)", "PointLiesOnLine(C,Line(A,B))"), (1, 0)),
        (("Line(A,B)", "IsDiameterOf(Line(A,B),Circle(O))"), (1, 0)),
        (("Tangent(Line(A,B),Circle(O))", "Line(A,B)", "PointLiesOnCircle(A,Circle(O))"), (2, 1, 0)),
        (("IsMidsegmentOf(Line(D,E),Triangle(A,B,C))", "Tangent(Line(A,B),Circle(O))", "Line(A,B)",
          "PointLiesOnLine(D,Line(A,B))", "PointLiesOnLine(E,Line(B,C))"), (3, 4, 2, 0, 1)),
        (("PointLiesOnLine(D,Line(A,B))", "PointLiesOnLine(E,Line(B,C))", "Tangent(Line(A,B),Circle(O))",
          "IsMidsegmentOf(Line(D,E),Triangle(A,B,C))"), (0, 1, 2, 3)),
    ],
)  # fmt: skip
def test_statements_are_read_after_those_that_give_them_their_meaning(
    given: tuple[str, ...], read: tuple[int, ...]
) -> None:
    found = solving.solve((*given, "Find(LengthOf(Line(A,B)))"))
    assert (found.used, found.unread) == (tuple(given[place] for place in read), ())


@pytest.mark.parametrize(
    ("said", "made"), [((), 2), (("P", "A", "B"), 0), (("P", "B", "A"), 0), (("P", "A", "C"), 2), (("Q", "A", "B"), 2)]
)
def test_a_point_that_is_drawn_on_a_line_and_joined_to_its_ends_lies_on_it(said: tuple[str, ...], made: int) -> None:
    given = figure("A", "B", "C", "P", "Q")
    for line in ("AB", "AP", "BP", "AC"):
        given.line(line)
    if said:
        given.on_line.append((said[0], said[1], said[2]))
    sketch = {"A": (0.0, 0.0), "B": (9.0, 0.0), "C": (0.0, 9.0), "P": (4.0, 0.0), "Q": (5.0, 0.0)}
    assert len(_drawn_on_lines(given, sketch)) == made
    assert (("P", "A", "B") in given.on_line) is (said != ("P", "B", "A"))
    assert _drawn_on_lines(given, {**sketch, "P": (4.0, 3.0)}) == []


@pytest.mark.parametrize(
    ("form", "lengths"),
    [
        ("Equals(LengthOf(Line(A,B)),5)", {("A", "B"): 5}), ("Equals(LengthOf(Line(A,B)),2.5)", {("A", "B"): 2.5}),
        ("Equals(LengthOf(Line(A,B)),2.5.1)", {}), ("Equals(LengthOf(Line(A,B)),2x)", {}),
        ("Equals(LengthOf(Line(A,B)),LengthOf(Line(C,D)))", {}), ("Equals(LengthOf(Line(A,B)))", {}),
        ("Equals(LengthOf(Arc(A,B)),5)", {}), ("Equals(LengthOf(Line(A)),5)", {}), ("Equals(LengthOf(x),5)", {}),
        ("Equals(MeasureOf(Line(A,B)),5)", {}), ("Find(LengthOf(Line(A,B)),5)", {}), ("Equals(LengthOf,5)", {}),
    ],
)  # fmt: skip
def test_lengths_that_are_given_as_numbers(form: str, lengths: dict[tuple[str, str], float]) -> None:
    assert _length(read_term(form)) == lengths
    assert _read([form, "Find(x)"], {}).lengths == (lengths if not form.startswith("Find") else {})


@pytest.mark.parametrize(
    ("lengths", "sketch", "scale"),
    [
        ({"AB": 4.0}, {"A": (0, 0), "B": (8, 0)}, 0.5),
        ({"AB": 4.0, "AC": 8.0, "BC": 5.0}, {"A": (0, 0), "B": (8, 0), "C": (0, 4)}, 5 / 80**0.5),
        ({"AB": 4.0, "AC": 8.0}, {"A": (0, 0), "B": (8, 0)}, 0.5),
        ({"AC": 4.0, "CA": 4.0}, {"A": (0, 0), "B": (8, 2)}, 10 / 8),
        ({"AB": 4.0}, {"A": (3, 3), "B": (3, 3)}, 1),
        ({"AB": 4.0}, {"A": (0, 0), "B": (0.5, 0)}, 8),
        ({}, {"A": (1, 1), "B": (5, 21)}, 0.5),
        ({}, {"A": (0, 0), "B": (0.5, 0)}, 20),
        ({}, {}, 1),
    ],
)
def test_units_of_the_statements_per_unit_of_the_sketch(
    lengths: dict[str, float], sketch: dict[str, Place], scale: float
) -> None:
    assert _scale(problem(PlaneFigure(), **lengths), sketch) == pytest.approx(scale)


def test_a_search_begins_at_the_sketch_and_then_beside_it() -> None:
    made = figure("A", "B", "C", letters="xy", radius="O")
    made.circles["O"] |= {"A", "B", "C"}
    sketch = {"A": (0.0, 0.0), "B": (20.0, 0.0), "C": (0.0, 60.0), "O": (0.0, 30.0), "Q": (5.0, 5.0)}
    starts = _starts(problem(made, AB=10.0), sketch, np.random.default_rng(0))
    assert len(starts) == 8
    states = [State(made.columns, start[None]) for start in starts]
    first = states[0]
    assert [first.at(name)[0].tolist() for name in "ABCO"] == [[0, 0], [10, 0], [0, 30], [0, 15]]
    assert first["r.O"][0] == pytest.approx(15)  # the middle one of 15, 15 and 18
    factors = (1.0, 1.0, 2.0, 0.5, 1.0, 1.0, 2.0, 0.5)
    for number, (state, factor) in enumerate(zip(states, factors, strict=True)):
        shaken = np.concatenate([state.at(name)[0] / factor - first.at(name)[0] for name in "ABCO"])
        assert bool(shaken.any()) is (number > 0)
        assert np.abs(shaken).max() < 0.6
        assert all(2 <= state[letter][0] <= 12 for letter in "xy")
        assert state["r.O"][0] == pytest.approx(np.median([state.length("O", name)[0] for name in "ABC"]))


def test_without_a_sketch_a_search_begins_anywhere() -> None:
    made = figure("A", "B", radius="O")
    starts = _starts(problem(made), {}, np.random.default_rng(0))
    assert len({start.tobytes() for start in starts}) == 8
    plain = np.array(starts) / np.array([(1.0, 1.0, 2.0, 0.5) * 2]).T
    assert 2 <= plain.min() < 3
    assert 11 < plain.max() <= 12


@pytest.mark.parametrize(
    ("found", "drawn", "proper"),
    [
        ({"A": (0, 0), "B": (1, 0), "C": (0, 1)}, {}, True),
        ({"A": (0, 0), "B": (0.9e-3, 0), "C": (0, 1)}, {}, False),  # a line has shrunk to a point
        ({"A": (0, 0), "B": (1.1e-3, 0), "C": (0, 1)}, {}, True),
        ({"A": (0, 0), "B": (1, 0), "C": (2, 0)}, {"A": (0, 0), "B": (1, 0), "C": (0, 1)}, False),  # 0° for 90°
        ({"A": (0, 0), "B": (1, 0), "C": (-1, 0)}, {"A": (0, 0), "B": (1, 0), "C": (0, 1)}, False),  # 180° for 90°
        ({"A": (0, 0), "B": (1, 0), "C": (2, 0.06)}, {"A": (0, 0), "B": (1, 0), "C": (0, 1)}, True),
        ({"A": (0, 0), "B": (1, 0), "C": (2, 0.03)}, {"A": (0, 0), "B": (1, 0), "C": (0, 1)}, False),
        ({"A": (0, 0), "B": (1, 0), "C": (-2, 0.06)}, {"A": (0, 0), "B": (1, 0), "C": (0, 1)}, True),
        ({"A": (0, 0), "B": (1, 0), "C": (-2, 0.03)}, {"A": (0, 0), "B": (1, 0), "C": (0, 1)}, False),
        ({"A": (0, 0), "B": (1, 0), "C": (2, 0)}, {"A": (0, 0), "B": (1, 0), "C": (5, 1)}, True),  # 11.3° drawn
        ({"A": (0, 0), "B": (1, 0), "C": (2, 0)}, {"A": (0, 0), "B": (1, 0), "C": (4.5, 1)}, False),  # 12.5°
        ({"A": (0, 0), "B": (1, 0), "C": (2, 0)}, {"A": (0, 0), "B": (1, 0), "C": (-5, 1)}, True),
        ({"A": (0, 0), "B": (1, 0), "C": (2, 0)}, {"A": (0, 0), "B": (1, 0), "C": (-4.5, 1)}, False),
        ({"A": (0, 0), "B": (1, 0), "C": (2, 0)}, {"A": (0, 0), "B": (1, 0)}, True),
    ],
)
def test_which_figure_is_one(found: dict[str, Place], drawn: dict[str, Place], proper: bool) -> None:
    made = PlaneFigure()
    made.line("AB")
    made.line("AC")
    vector = np.zeros(len(made.columns))
    for name, place in found.items():
        vector[made.columns[f"{name}.x"] :][:2] = place
    assert _proper(Fit(vector, 0.0, np.zeros((0, len(vector)))), made, drawn) is proper


@pytest.mark.parametrize(
    ("statement", "third", "proper"),
    [
        ("Triangle(A,B,C)", (2, 0), False), ("Triangle(A,B,C)", (2, 0.03), False), ("Triangle(A,B,C)", (2, 0.1), True),
        ("Triangle(C,B,A)", (0.5, 0.03), True), ("Polygon(A,B,C)", (2, 0), True), ("Shape(A,B,C)", (2, 0), True),
    ],
)  # fmt: skip
def test_a_corner_of_a_polygon_is_not_straight(statement: str, third: Place, proper: bool) -> None:
    made = PlaneFigure()
    polygon(read_term(statement), made)
    vector = np.zeros(len(made.columns))
    for name, place in {"A": (0, 0), "B": (1, 0), "C": third}.items():
        vector[made.columns[f"{name}.x"] :][:2] = place
    assert _proper(Fit(vector, 0.0, np.zeros((0, len(vector)))), made, {}) is proper


def test_a_search_ends_at_a_solution_where_an_unknown_hardly_matters() -> None:
    made = figure("A", "B")
    length = [lambda state: (state.length("A", "B") - 5) / 5]
    for start in ((8.4, 4.7, 2.4, 2.2), (10.6, 7.4, 5.0, 6.2), (4.43, 4.25, 4.44, 2.94)):
        assert fit(length, made.columns, np.array(start)).error < 1e-9


def test_rhombi_are_not_folded_up_whatever_the_starts() -> None:
    forms = ("Rhombus(A,B,C,D)", "Equals(LengthOf(Line(A,C)),6)", "Equals(LengthOf(Line(B,D)),8)",
             "Find(PerimeterOf(Rhombus(A,B,C,D)))")  # fmt: skip
    values = [solving.solve(forms, seed=seed).value for seed in range(3)]
    assert values == [pytest.approx(20)] * 3


def test_a_residual_or_a_slope_without_a_finite_value_has_no_solution() -> None:
    made = figure(letters="x")
    for residual in (lambda state: 1 / state["x"], lambda state: 1 + np.sqrt(state["x"])):
        found = fit([residual], made.columns, np.array([0.0]))
        assert (found.error, found.vector.tolist()) == (np.inf, [0])


def test_a_search_moves_what_is_free_alone() -> None:
    made = figure(letters="xyz")
    both = [lambda state: state["x"] - 3, lambda state: state["x"] + state["y"] - 5]
    start = np.array([1.0, 1.0, 7.0])
    found = fit(both, made.columns, start)
    assert found.vector == pytest.approx([3, 2, 7], abs=1e-8)
    assert found.error < 1e-9
    assert found.jacobian == pytest.approx(np.array([[1, 0, 0], [1, 1, 0]]), abs=1e-6)
    assert start.tolist() == [1, 1, 7]
    held = fit(both, made.columns, start, [1])
    assert held.vector == pytest.approx([1, 4, 7])
    assert held.error == pytest.approx(2)
    for name, fixed in (("x", True), ("y", True), ("z", False)):
        assert is_fixed(found, lambda state, name=name: state[name], made.columns) is fixed
    assert is_fixed(found, lambda state: state["x"] + 4e-4 * state["z"] / 7 * 6, made.columns)
    assert not is_fixed(found, lambda state: state["x"] + 4e-3 * state["z"], made.columns)
    assert not is_fixed(found, lambda state: 5e-4 * (state["z"] / 7 - 1), made.columns)  # its value is 0
    assert fit([lambda state: state["x"] ** 3 - 8], {"x": 0}, np.array([2.0])).jacobian == pytest.approx(12)
    assert fit([], made.columns, start).error == 0
    assert not is_fixed(fit([], made.columns, start), both[0], made.columns)


@pytest.mark.parametrize(
    ("values", "status", "value"),
    [
        ((), "contradiction", None),
        ((5.0, 5.0, 5.0), "solved", 5.0),
        ((5.0, 5.004), "solved", 5.0),
        ((5.0, 5.006), "open", None),
        ((0.0, 4e-4), "open", None),
    ],
)
def test_several_starts_agree_to_a_thousandth(values: tuple[float, ...], status: str, value: float | None) -> None:
    made = figure("A", letters="x")
    fits = [Fit(np.array([1.0, 2.0, one]), 0.5, np.eye(3)) for one in values]
    asked = problem(made)
    asked.goal = lambda state: state["x"]
    asked.used.append("a")
    asked.unread.append(("b", "why"))
    found = _verdict(asked, fits)
    assert (found.status, found.value, found.used, found.unread) == (status, value, ("a",), (("b", "why"),))
    assert found.letters == ({"x": values[0]} if values else {})
    assert found.points == ({"A": (1.0, 2.0)} if values else {})
    assert found.error == (0.5 if values else float("inf"))


@pytest.mark.parametrize(("sketch", "searches"), [({}, 3), ({"A": (2.0, 6.0), "B": (0.0, 0.0), "C": (7.0, 0.0)}, 1)])
def test_three_starts_that_agree_are_enough_and_one_from_a_sketch(
    sketch: dict[str, Place], searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Fit] = []

    def counted(*given: object) -> Fit:
        seen.append(fit(*given))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(solving, "fit", counted)
    forms = ("Equals(MeasureOf(Angle(A,B,C)),40)", "Equals(MeasureOf(Angle(B,C,A)),65)")
    found = solving.solve(("Triangle(A,B,C)", *forms, "Find(MeasureOf(Angle(C,A,B)))"), sketch)
    assert (found.status, found.value) == ("solved", pytest.approx(75))
    assert len(seen) == searches
