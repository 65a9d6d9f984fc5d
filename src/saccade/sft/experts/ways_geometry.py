"""Ways with the tools of geometry: the diagram as statements, the text as statements, and the solver."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from pydantic import JsonValue

from saccade.sft.experts.plays import ExpertPart
from saccade.sft.experts.tool_ways import Consulted, Consulting, ToolWay, is_world, named_picture, near, result_of, use
from saccade.tools.geometry.english import read_english

_POLYGONS: Final = ("triangle-angle", "isosceles", "right-triangle", "triangle-area", "rectangle")
_CLOSE: Final = 0.005
"""A figure that was fitted has the asked value to within this part of it."""
_LENGTH: Final = re.compile(r"Equals\(LengthOf\(Line\((\w),(\w)\)\),([\d.]+)\)")


def _solved(part: ExpertPart) -> Consulting:
    diagram = yield from _diagram(part)
    if not diagram["logic_forms"]:
        return Consulted(None, 1)
    read = read_english(part.scene.task.question)
    return (yield from _solve(part, [*read.statements, *([read.goal] if read.goal else [])], diagram, 2))


def _with_text(part: ExpertPart) -> Consulting:
    diagram = yield from _diagram(part)
    if not diagram["logic_forms"]:
        return Consulted(None, 1)
    seen = yield from use(part, "text_cdl", {"text": part.scene.task.question}, "then")
    return (yield from _solve(part, result_of(seen)["logic_forms"], diagram, 3))


def _with_goal(part: ExpertPart) -> Consulting:
    seen = yield from use(part, "goal_cdl", {"text": part.scene.task.question})
    goal = result_of(seen)["logic_form"]
    if goal is None:
        return Consulted(None, 1)
    diagram = yield from _diagram(part, "then")
    if not diagram["logic_forms"]:
        return Consulted(None, 2)
    return (yield from _solve(part, [*read_english(part.scene.task.question).statements, goal], diagram, 3))


def _diagram(part: ExpertPart, occasion: str = "consult") -> Any:
    seen = yield from use(part, "image_cdl", named_picture(part), occasion)
    return result_of(seen) if seen.text.startswith("{") else {"logic_forms": []}


def _solve(part: ExpertPart, text: list[str], diagram: dict[str, Any], calls: int) -> Consulting:
    arguments: dict[str, JsonValue] = {
        "text_logic": list(text),
        "diagram_logic": diagram["logic_forms"],
        "points": diagram["points"],
    }
    seen = yield from use(part, "inter_gps", arguments, "then")
    solved = re.match(r"Solved: (-?[\d.e+]+\d)", seen.text)
    answer = solved[1] if solved else None
    if answer is not None and near(answer, part.scene.answer, _CLOSE):
        answer = part.scene.answer  # the number of digits that is asked for
    return Consulted(answer, calls)


def _circle(part: ExpertPart) -> Consulting:
    """The radius or the diameter is read; the rest is a formula, with the question's value of pi."""
    diagram = yield from _diagram(part)
    found = next((match for form in diagram["logic_forms"] if (match := _LENGTH.fullmatch(form))), None)
    if found is None:
        return Consulted(None, 1)
    radius = Decimal(found[3]) / (1 if "O" in (found[1], found[2]) else 2)
    pi = Decimal("3.14")
    exact = pi * radius * radius if "area" in part.scene.task.question else 2 * pi * radius
    return Consulted(str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP)), 1)


WAYS: Final = (
    ToolWay("diagram and solver", ("image_cdl", "inter_gps"), is_world("geometry", kinds=_POLYGONS), _solved),
    ToolWay(
        "diagram, text and solver",
        ("image_cdl", "text_cdl", "inter_gps"),
        is_world("geometry", kinds=_POLYGONS),
        _with_text,
    ),
    ToolWay(
        "goal, diagram and solver",
        ("goal_cdl", "image_cdl", "inter_gps"),
        is_world("geometry", kinds=_POLYGONS),
        _with_goal,
    ),
    ToolWay("a circle's measure", ("image_cdl",), is_world("geometry", kinds=("circle",)), _circle),
)
