"""Logic forms to answers: what is fixed, what is open, what contradicts itself; and the shared problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.plugins.vista.chart.drawn import Board, reading
from tests.plugins.vista.geometry.figures import circle, triangle

from saccade.plugins.vista.geometry.figure import FormError, PlaneFigure, State, read_term
from saccade.plugins.vista.geometry.image_cdl import ConstructionCdl, DiagramLabel, DiagramReading, ImageCdl, _marks
from saccade.plugins.vista.geometry.inter_gps import InterGps, solve, with_names
from saccade.plugins.vista.geometry.measures import measure
from saccade.plugins.vista.geometry.statements import residuals_of
from saccade.plugins.vista.geometry.text_cdl import GoalCdl, TextCdl
from saccade.plugins.vista.ocr import Ocr
from saccade.tools.base import Tool
from saccade.tools.context import ToolContext

SHARED = Path(__file__).parents[5] / "shared" / "data" / "geometry3k"
RIGHT = ("Perpendicular(Line(A,C),Line(B,C))", "Equals(LengthOf(Line(A,B)),10)", "Equals(MeasureOf(Angle(A,B,C)),60)")


@pytest.mark.parametrize(
    ("forms", "value"),
    [
        ((*RIGHT, "Equals(LengthOf(Line(A,C)),y)", "Find(y)"), 5 * 3**0.5),
        (("Triangle(A,B,C)", "Equals(MeasureOf(Angle(A,B,C)),40)", "Equals(MeasureOf(Angle(B,C,A)),65)",
          "Find(MeasureOf(Angle(C,A,B)))"), 75),
        (("Isosceles(Triangle(A,B,C))", "Equals(LengthOf(Line(A,B)),LengthOf(Line(A,C)))",
          "Equals(MeasureOf(Angle(B,A,C)),2x)", "Equals(MeasureOf(Angle(A,B,C)),x+10)", "Find(x)"), 40),
        (("Rectangle(A,B,C,D)", "Equals(LengthOf(Line(A,B)),6)", "Equals(LengthOf(Line(A,C)),10)",
          "Find(AreaOf(Rectangle(A,B,C,D)))"), 48),
        (("Rhombus(A,B,C,D)", "Equals(LengthOf(Line(A,C)),6)", "Equals(LengthOf(Line(B,D)),8)",
          "Find(PerimeterOf(Rhombus(A,B,C,D)))"), 20),
        (("Circle(O)", "IsDiameterOf(Line(A,B),Circle(O))", "PointLiesOnCircle(C,Circle(O))",
          "Equals(MeasureOf(Angle(B,A,C)),35)", "Find(MeasureOf(Arc(B,C)))"), 70),
        (("PointLiesOnCircle(T,Circle(O))", "Tangent(Line(P,T),Circle(O))", "Equals(RadiusOf(Circle(O)),5)",
          "Equals(LengthOf(Line(O,P)),13)", "Find(LengthOf(Line(P,T)))"), 12),
        (("Similar(Triangle(A,B,C),Triangle(D,E,F))", "Equals(LengthOf(Line(A,B)),4)", "Equals(LengthOf(Line(D,E)),6)",
          "Equals(LengthOf(Line(B,C)),10)", "Find(LengthOf(Line(E,F)))"), 15),
        (("Triangle(A,B,C)", "Regular(Triangle($))", "Equals(LengthOf(Line(A,B)),4)", "Find(AreaOf(Triangle($)))"),
         4 * 3**0.5),
        (("Triangle(A,B,C)", "Equals(LengthOf(Line(A,B)),13)", "Equals(LengthOf(Line(B,C)),14)",
          "Equals(LengthOf(Line(C,A)),15)", "IsAltitudeOf(Line(A,D),Triangle(A,B,C))", "Find(LengthOf(Line(A,D)))"),
         12),
        (("Triangle(A,B,C)", "Equals(LengthOf(Line(A,B)),13)", "Equals(LengthOf(Line(B,C)),14)",
          "Equals(LengthOf(Line(C,A)),15)", "IsAltitudeOf(Line(D,A),Triangle(A,B,C))", "Find(LengthOf(Line(B,D)))"), 5),
        (("Triangle(A,B,C)", "Equals(LengthOf(Line(A,B)),5)", "Find(LengthOf(Line(B,A)))"), 5),
        (("Equals(LengthOf(Line(A,B)),5)", "Find(LengthOf(Line(A,B)))"), 5),
        (("Quadrilateral(A,B,C,D)", "Triangle(A,B,E)", "Rhombus($)", "Equals(LengthOf(Line(A,C)),6)",
          "Equals(LengthOf(Line(B,D)),8)", "Find(PerimeterOf(Rhombus($)))"), 20),
        (("Triangle(A,B,C)", "Isosceles(Triangle($))", "Equilateral(Triangle(B,C,A))", "Equals(LengthOf(Line(A,B)),4)",
          "Find(PerimeterOf(Triangle($)))"), 12),
        (("Circle(O,r)", "Equals(RadiusOf(Circle(O)),5)", "Find(DiameterOf(Circle($)))"), 10),
    ],
)  # fmt: skip
def test_school_book_problems(forms: tuple[str, ...], value: float) -> None:
    found = solve(forms)
    assert found.status == "solved", found
    assert found.value == pytest.approx(value, rel=1e-4)
    assert not found.unread


def test_a_circle_in_a_triangle_touches_its_sides() -> None:
    forms = ("Perpendicular(Line(A,C),Line(B,C))", "Equals(LengthOf(Line(A,C)),3)", "Equals(LengthOf(Line(B,C)),4)",
             "CircumscribedTo(Triangle(A,B,C),Circle(O))", "Find(RadiusOf(Circle(O)))")  # fmt: skip
    found = solve(forms, {"A": (0, 3), "B": (4, 0), "C": (0, 0), "O": (1.1, 0.9)})
    assert found.value == pytest.approx(1, rel=1e-4)
    assert not found.unread


@pytest.mark.parametrize(("through", "swept"), [(40, 80), (79.9, 80), (80.1, 280), (200, 280), (-0.1, 280)])
def test_an_arc_runs_through_its_middle_point(through: float, swept: float) -> None:
    figure = PlaneFigure()
    residuals_of(read_term("Circle(O)"), figure)
    for name in "ATB":
        residuals_of(read_term(f"PointLiesOnCircle({name},Circle(O))"), figure)
    read = measure(read_term("MeasureOf(Arc(A,T,B))"), figure)
    vector = np.zeros((1, len(figure.columns)))
    for name, turn in (("A", 0.0), ("T", through), ("B", 80.0)):
        vector[0, figure.columns[f"{name}.x"]] = 5 * np.cos(np.radians(turn))
        vector[0, figure.columns[f"{name}.y"]] = 5 * np.sin(np.radians(turn))
    assert read(State(figure.columns, vector)) == pytest.approx([swept])


def test_what_is_not_said_stays_open() -> None:
    found = solve(("Triangle(A,B,C)", "Equals(LengthOf(Line(A,B)),5)", "Find(LengthOf(Line(B,C)))"))
    assert (found.status, found.value) == ("open", None)
    named = solve(("Triangle(A,B,C)", "Find(LengthOf(Line(B,C)))"))
    assert (named.status, named.value, named.used, named.error) == ("open", None, ("Triangle(A,B,C)",), 0)


def test_statements_that_exclude_each_other() -> None:
    found = solve((
        "Triangle(A,B,C)", "Equals(MeasureOf(Angle(A,B,C)),100)", "Equals(MeasureOf(Angle(B,C,A)),100)",
        "Find(MeasureOf(Angle(C,A,B)))",
    ))  # fmt: skip
    assert (found.status, found.value) == ("contradiction", None)


def test_what_cannot_be_read_is_left_out_and_named() -> None:
    found = solve((*RIGHT, "Wobbly(A,B)", "Equals(LengthOf(Line(A", "Find(LengthOf(Line(B,C)))"))
    assert found.value == pytest.approx(5)
    assert [form for form, _ in found.unread] == ["Equals(LengthOf(Line(A", "Wobbly(A,B)"]
    for form in (
        "IsMidpointOf(D)",
        "Similar(Triangle(A,B,C))",
        "Congruent(Triangle(A,B,C),Triangle(A,B,C),Triangle(A,B,C))",
    ):
        found = solve((*RIGHT, form, "Find(LengthOf(Line(B,C)))"))
        assert found.value == pytest.approx(5)
        assert found.unread == ((form, "it has too few arguments, or too many"),)


@pytest.mark.parametrize("forms", [(), RIGHT, ("Find(Wobbly(A))",), ("Find(x",)])
def test_without_a_goal_there_is_nothing_to_solve(forms: tuple[str, ...]) -> None:
    with pytest.raises(FormError):
        solve(forms)


def test_a_sketch_says_on_which_line_a_point_lies() -> None:
    forms = ("Line(A,D)", "Line(D,B)", "Line(A,B)", "Equals(LengthOf(Line(A,D)),3)", "Equals(LengthOf(Line(D,B)),4)",
             "Find(LengthOf(Line(A,B)))")  # fmt: skip
    assert solve(forms).status == "open"
    found = solve(forms, {"A": (0, 0), "D": (30, 0.2), "B": (70, 0)})
    assert found.value == pytest.approx(7, rel=1e-3)


def test_the_tool_says_what_it_found() -> None:
    tool = InterGps()
    result = tool.call({"text_logic": ["Find(y)"], "diagram_logic": [*RIGHT, "Equals(LengthOf(Line(A,C)),y)"]},
                       ToolContext({}), alias="intergps")  # fmt: skip
    assert result.text == "Solved: 8.66025 = 5*sqrt(3)."
    assert result.value["letters"] == [{"name": "y", "value": 8.66025}]
    for value in ("5", "1.2345"):
        result = tool.call({"text_logic": [f"Equals(x,{value})", "Find(x)"]}, ToolContext({}))
        assert result.text == f"Solved: {value}."
    result = tool.call({"text_logic": ["Triangle(A,B,C)", "Wobbly(A)", "Find(LengthOf(Line(A,B)))"]}, ToolContext({}))
    assert result.text == (
        "Open: the statements do not fix what is asked. Add what is missing. Left out: Wobbly(A) (Wobbly is not known)."
    )
    result = tool.call({"text_logic": ["Equals(x,5)", "Equals(x,6)", "Find(x)"]}, ToolContext({}))
    assert result.text.startswith("Contradiction: no figure was found in which all statements hold.")
    forms = ["", "Equals(x,5)", "  ", "Find(x)", "\n"]  # annotations of Geometry3K have empty statements
    result = tool.call({"text_logic": forms, "diagram_logic": ["", "\t"]}, ToolContext({}))
    assert result.text == "Solved: 5."
    for nothing in ([""], ["", "Equals(x,5)"], []):
        assert tool.call({"text_logic": nothing, "diagram_logic": [""]}, ToolContext({})).problem is not None
    result = tool.call({"text_logic": ["Triangle(A,B,C)"]}, ToolContext({}))
    assert result.problem.kind.value == "argument_format"


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the shared problems are not here")
def test_problems_of_geometry3k() -> None:
    right = 0
    files = sorted(SHARED.glob("*/logic_form.json"))
    for file in files:
        forms, data = json.loads(file.read_text()), json.loads((file.parent / "data.json").read_text())
        lines = [f"Line({name[0]},{name[1]})" for name in forms["line_instances"]]
        places = {name: (at[0], at[1]) for name, at in forms["point_positions"].items()}
        found = solve([*lines, *forms["diagram_logic_form"], *forms["dissolved_text_logic_form"]], places)
        gold = data["precise_value"]["ABCD".index(data["answer"])]
        right += found.value is not None and abs(found.value - gold) <= 0.01 * abs(gold)
    assert len(files) == 10
    assert right >= 8


@pytest.mark.parametrize("value", ["1/0", r"\frac{1}{0}", "10^400", "9" * 360, "2+1/(3-3)"])
def test_a_number_without_a_finite_value_is_left_out_and_named(value: str) -> None:
    found = solve((*RIGHT, f"Equals(LengthOf(Line(A,C)),{value})", "Find(LengthOf(Line(A,C)))"))
    assert found.status == "solved"
    assert [why for _, why in found.unread] == [f"{value!r} has no finite value"]


@pytest.mark.parametrize(
    "forms", [("Equals(x,y/0)", "Find(x)"), ("Equals(x,5)", "Find(x/0)"), ("Equals(0/x,1)", "Find(x)")]
)
def test_what_has_no_value_at_any_figure_is_no_solution(forms: tuple[str, ...]) -> None:
    assert solve(forms).value is None


def test_the_tools_give_measures_outline_and_places() -> None:
    board = triangle()
    picture = Image.new("RGB", (440, 340), "white")
    picture.paste(board.picture, (40, 20))
    context = ToolContext({"diagram": picture})
    measured = reading(ImageCdl(), board).call({"box": [40, 20, 400, 320]}, context).value
    assert measured["cdl"] == [
        "PerpendicularBetweenLine(BC,CA)", "Equal(LengthOfLine(CA),20)", "Equal(LengthOfLine(BC),24)",
        "Equal(LengthOfLine(AB),x)",
    ]  # fmt: skip
    assert measured["logic_forms"][:2] == ["Triangle(A,B,C)", "Perpendicular(Line(B,C),Line(C,A))"]
    assert measured["points"]["A"] == pytest.approx([100, 60], abs=3)
    built = reading(ConstructionCdl(), board).call({"box": [40, 20, 400, 320]}, context).value
    assert (built["image"], built["cdl"], built["logic_forms"]) == ("diagram", ["Shape(AB,BC,CA)"], ["Triangle(A,B,C)"])


@pytest.mark.parametrize(
    ("turns", "cdl"),
    [((), []), ((90, 200), ["Cocircular(O,AB)"]), ((30, 100, 210), ["Cocircular(O,ABC)", "Collinear(AOC)"])],
)
def test_how_a_circle_is_built(turns: tuple[int, ...], cdl: list[str]) -> None:
    board = Board((240, 240))
    board.picture = Image.fromarray(circle(*turns))
    result = reading(ConstructionCdl(), board).call({}, ToolContext({"a": board.picture}))
    assert (result.value["cdl"], result.value["logic_forms"][0]) == (cdl, "Circle(O)")
    blank = reading(ConstructionCdl(), Board((90, 90))).call(
        {}, ToolContext({"a": Image.new("RGB", (90, 90), "white")})
    )
    assert blank.text.startswith("No polygon or circle that stands alone was found")


def test_marks_of_equal_sides_and_of_angles() -> None:
    sides = (("A", "B"), ("B", "C"), ("C", "A"))
    for count, equal in ((0, []), (1, []), (2, ["BC"]), (3, ["BC", "CA"])):
        seen = DiagramReading("polygon", {}, (DiagramLabel("60", ("A", "B", "C")),), equal_sides=sides[:count])
        assert list(_marks(seen)) == [
            *(f"Equals(LengthOf(Line(A,B)),LengthOf(Line({a},{b})))" for a, b in equal),
            "Equals(MeasureOf(Angle(A,B,C)),60)",
        ]


@pytest.mark.slow
@pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")
@pytest.mark.parametrize(
    ("tool", "cdl"), [(ImageCdl(), "Equal(LengthOfLine(BC),24)"), (ConstructionCdl(), "Shape(AB,BC,CA)")]
)
def test_the_tools_read_the_labels_themselves(tool: Tool[Any, Any], cdl: str) -> None:
    picture = Image.new("RGB", (440, 340), "white")
    picture.paste(triangle().picture, (40, 20))
    result = tool.call({"box": [20, 10, 430, 330]}, ToolContext({"diagram": picture}))
    assert result.ok, result.problem
    value: Any = result.value
    assert cdl in value["cdl"]
    assert value["points"]["A"] == pytest.approx([100, 60], abs=3)


def test_text_and_goal() -> None:
    text = {"text": "In triangle ABC, AB = 5. Find the length of BC, which nobody knows."}
    said = TextCdl().call(text, ToolContext({}))
    assert said.value == {
        "cdl": ["Equal(LengthOfLine(AB),5)"],
        "logic_forms": ["Equals(LengthOf(Line(A,B)),5)", "Find(LengthOf(Line(B,C)))"],
        "unread": ["△ ABC", "which nobody knows"],
    }
    goal = GoalCdl().call(text, ToolContext({}))
    assert goal.value == {"cdl": "Value(LengthOfLine(BC))", "logic_form": "Find(LengthOf(Line(B,C)))"}
    assert GoalCdl().call({"text": "A picture."}, ToolContext({})).text == "No goal was understood in this text."


SQUARE = {"A": (0.0, 0.0), "B": (10.0, 0.0), "C": (10.0, 10.0), "D": (0.0, 10.0)}
SIDES = ("Line(A,B)", "Line(B,C)", "Line(C,D)", "Line(D,A)")


def named(form: str, *others: str, sketch: dict[str, tuple[float, float]] | None = None) -> str:
    return str(with_names([read_term(form), *map(read_term, others)], sketch or {})[0])


@pytest.mark.parametrize(
    ("form", "others", "wanted"),
    [
        ("Rhombus($)", ("Quadrilateral(A,B,C,D)",), "Rhombus(A,B,C,D)"),
        ("Rhombus($)", ("Quadrilateral(A,B,C,D)", "Triangle(A,B,E)"), "Rhombus(A,B,C,D)"),
        ("Rhombus($)", ("Triangle(A,B,E)",), "Rhombus($)"),
        ("Rhombus($)", ("Quadrilateral(A,B,C,D)", "Quadrilateral(A,B,E,F)"), "Rhombus($)"),
        ("Rhombus($)", ("Quadrilateral(A,B,C,D)", "Parallelogram(B,C,D,A)"), "Rhombus(A,B,C,D)"),
        ("Isosceles(Triangle($))", ("Right(Triangle(A,B,C))",), "Isosceles(Triangle(A,B,C))"),
        ("Regular(Pentagon($))", ("Pentagon(A,B,C,D,E)", "Hexagon(A,B,C,D,E,F)"), "Regular(Pentagon(A,B,C,D,E))"),
        ("Regular(Hexagon($))", ("Pentagon(A,B,C,D,E)", "Hexagon(A,B,C,D,E,F)"), "Regular(Hexagon(A,B,C,D,E,F))"),
        ("Heptagon($)", ("Polygon(A,B,C,D,E,F,G)", "Octagon(A,B,C,D,E,F,G,H)"), "Heptagon(A,B,C,D,E,F,G)"),
        ("Octagon($)", ("Polygon(A,B,C,D,E,F,G)", "Shape(A,B,C,D,E,F,G,H)"), "Octagon(A,B,C,D,E,F,G,H)"),
        ("Find(AreaOf(Shaded(Shape($))))", ("Triangle(A,B,C)",), "Find(AreaOf(Shaded(Shape(A,B,C))))"),
        ("Find(AreaOf(Shape($)))", ("Triangle(A,B,C)", "Square(A,B,D,E)"), "Find(AreaOf(Shape($)))"),
        ("RadiusOf(Circle($))", ("Circle(O)", "Tangent(Line(A,B),Circle(O))", "Circle(O,r)"), "RadiusOf(Circle(O))"),
        ("RadiusOf(Circle($))", ("Circle(O)", "Circle(P)"), "RadiusOf(Circle($))"),
        ("RadiusOf(Circle($))", ("Circle($)", "Triangle(A,B,C)"), "RadiusOf(Circle($))"),
        ("LengthOf(Line($))", ("Triangle(A,B,C)",), "LengthOf(Line($))"),
    ],
)
def test_the_one_figure_that_is_named(form: str, others: tuple[str, ...], wanted: str) -> None:
    assert named(form, *others) == wanted


@pytest.mark.parametrize(
    ("form", "others", "places", "wanted"),
    [
        ("Square($)", SIDES, {}, "Square(A,B,C,D)"),
        ("Square($)", (*SIDES, "Line(A,C)", "Line(B,D)"), {}, "Square(A,B,C,D)"),
        ("Square($)", SIDES[:3], {}, "Square($)"),
        ("Square($)", ("Equals(LengthOf(Line(D,A)),3)", *SIDES[:3]), {}, "Square(A,B,C,D)"),
        ("Rhombus($)", SIDES, {"A": (50, -5), "B": (55, 0), "C": (50, 5), "D": (45, 0)}, "Rhombus(A,B,C,D)"),
        ("Rhombus($)", SIDES, {"A": (-5, 50), "B": (0, 45), "C": (5, 50), "D": (0, 55)}, "Rhombus(A,B,C,D)"),
        ("Square($)", SIDES, {"D": (9.5, 9.0)}, "Square($)"),  # beyond the diagonal: dented
        ("Square($)", SIDES, {"D": (4.452, 5.548)}, "Square(A,B,C,D)"),  # it turns there by 12.5 degrees
        ("Square($)", SIDES, {"D": (4.497, 5.503)}, "Square($)"),  # by 11.5: as good as straight
        ("Square($)", SIDES, {"D": (5.0, 4.9)}, "Square($)"),  # no corner: on the line between its neighbours
        ("Triangle($)", (*SIDES, "Line(A,C)"), {}, "Triangle($)"),  # there are two
        ("Triangle($)", (*SIDES[:2], "Line(C,A)", SIDES[2]), {}, "Triangle(A,B,C)"),
        ("Polygon($)", SIDES, {}, "Polygon($)"),
    ],
)
def test_the_one_outline_of_a_sketch(
    form: str, others: tuple[str, ...], places: dict[str, tuple[float, float]], wanted: str
) -> None:
    for turn in (1, -1):  # rows that run down, rows that run up
        sketch = {name: (x, turn * y) for name, (x, y) in (SQUARE | places).items()}
        found = named(form, *others, sketch=sketch)
        head, corners = found.split("(")
        assert (head, sorted(corners)) == (wanted.split("(")[0], sorted(wanted.split("(")[1])), found
        if len(corners) == len("A,B,C,D)"):  # in the order in which they follow each other
            assert corners[:-1].replace(",", "") in "ABCDABCDCBADCBA", found


def test_many_points_are_not_tried_in_all_ways() -> None:
    names = [f"P{number}" for number in range(40)]
    sketch = {name: (float(number), float(number**2)) for number, name in enumerate(names)}
    lines = [f"Line({a},{b})" for a, b in zip(names, [*names[1:], names[0]], strict=True)]
    assert named("Octagon($)", *lines, sketch=sketch) == "Octagon($)"


def test_a_text_of_the_quadrilateral_is_solved_on_the_diagram() -> None:
    given = (*SIDES, "Equals(LengthOf(Line(A,B)),2x+3)", "Equals(LengthOf(Line(C,D)),x+8)", "Find(x)")
    assert solve(given, SQUARE).status == "open"
    found = solve(("Parallelogram($)", *given), SQUARE)
    assert found.value == pytest.approx(5)
    assert not found.unread
