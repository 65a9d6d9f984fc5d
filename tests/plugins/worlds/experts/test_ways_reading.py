"""Experts that call typed tools: what they read off results, and what they do where a result is of no use."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.worlds.experts.cases import is_right, plan_for, trajectories

from saccade.plugins.worlds.experts.plays import ExpertPart
from saccade.plugins.worlds.experts.scene import ExpertSettings, StyleWeights
from saccade.plugins.worlds.experts.ways import answer_of, charted, rows_of, text_rows
from saccade.record.content import Answer, ToolCall
from saccade.record.trajectory import Trajectory

CONSULT = ExpertSettings(styles=StyleWeights(crop=0, compute=0, mistake=0, direct=0))
MEASURED = {
    "pixel-colour": {"kinds": ["value", "same", "share"]},
    "shape-count": {"kinds": ["scatter"]},
    "touching-circles": {},
    "region-map": {"kinds": ["class", "higher", "count"]},
    "solid-scene": {"kinds": ["count", "left"]},
}
READ = {
    "chart-bar": {},
    "chart-line": {},
    "chart-pie": {},
    "table-arithmetic": {},
    "geometry": {"kinds": ["triangle-angle", "isosceles", "right-triangle", "triangle-area", "rectangle", "circle"]},
    "region-map": {"kinds": ["highest"]},
    "form-page": {},
    "pictograph": {"kinds": ["value", "difference"]},
    "rotated-dark-text": {"kinds": ["rotated"]},
}


def called(trajectory: Trajectory) -> tuple[str, ...]:
    return tuple(turn.action.name for turn in trajectory.turns if isinstance(turn.action, ToolCall))


async def played(out: Path, knobs: dict[str, Any], n: int, **more: Any) -> list[Trajectory]:
    made = {"sources": tuple(knobs), "dialect": "vista", "knobs": knobs, "n": n, "expert": CONSULT.model_dump()}
    return await trajectories(out, **made, **more)


async def test_tools_that_measure_give_the_answer(tmp_path: Path) -> None:
    made = await played(tmp_path, MEASURED, 2)
    assert all(map(is_right, made))
    assert {item.provenance.model for item in made} == {"expert:consult@1"}
    tools = Counter(name for item in made for name in called(item))
    assert tools.keys() == {"color_stats", "color_mask", "contours"}
    for item in made:
        assert all(turn.execution is not None and turn.execution.status == "ok" for turn in item.turns[:-1])
        assert item.answer == item.task.answer


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_tools_that_read_and_solve_give_most_answers(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    made = await played(tmp_path, READ, 8, limits={"turns": 5})
    assert all(map(is_right, made))
    tools = Counter(name for item in made for name in called(item))
    assert tools.keys() >= {"chartocr", "ocr", "image_cdl", "inter_gps", "color_mask", "crop"}
    assert tools["text_cdl"] + tools["goal_cdl"] > 0
    by_eye = [item for item in made if called(item)[-1] == "crop"]
    assert len(by_eye) < 0.25 * len(made), "mostly the tools lead to the answer"


async def test_an_expert_has_the_tools_that_the_recipe_offers_and_no_other(tmp_path: Path) -> None:
    made = await played(tmp_path, {"touching-circles": {}}, 2, tools=("contours",))
    assert {called(item) for item in made} == {("contours",)}
    assert {item.provenance.tools for item in made} == {("contours",)}


def test_a_result_of_no_use_is_said_to_be_and_the_expert_looks(tmp_path: Path) -> None:
    from saccade.plugins.worlds.experts.plays import Seen
    from saccade.plugins.worlds.experts.scene import ExpertScene
    from saccade.plugins.worlds.experts.ways import consult
    from saccade.tasks.worlds.rng import Rng

    plan, notes = plan_for("touching-circles", "vista", tmp_path)
    wrong = 2 if plan.task.answer == "yes" else 1
    for turns, ends in ((3, ["contours", "crop"]), (2, ["contours"])):
        scene = ExpertScene(plan.task, plan.dialect, plan.opening, Rng(0), ExpertSettings(), notes, turns)
        play = consult(ExpertPart.of(scene), turns)
        moves = [next(play)]
        moves.append(play.send(Seen(f'{{"count": {wrong}, "contours": []}}', 1, None)))
        if len(ends) == 2:
            moves.append(play.send(Seen("", 1, None)))
        assert [move.action.name for move in moves if isinstance(move.action, ToolCall)] == ends
        assert moves[-1].action == Answer(text=str(plan.task.answer))
        assert moves[1].thought


LINES = [
    {"text": "Shop", "box": [10, 5, 60, 25]},
    {"text": "Price", "box": [120, 40, 160, 56]},
    {"text": "Item", "box": [12, 40, 50, 56]},
    {"text": "Kite", "box": [12, 70, 50, 86]},
    {"text": "$1,250.50", "box": [120, 71, 190, 87]},
    {"text": "$3.00", "box": [120, 100, 160, 116]},
    {"text": "Mug", "box": [12, 101, 50, 117]},
]


def test_lines_become_rows() -> None:
    assert text_rows(LINES) == [["Shop"], ["Item", "Price"], ["Kite", "$1,250.50"], ["Mug", "$3.00"]]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How much do 3 pieces of Mug and one of Kite cost together, in dollars?", "1259.50"),
        ("How much do 3 pieces of Rug and one of Kite cost together, in dollars?", None),
        ("Which item has the most price?", "Kite"),
        ("What is the median of the numbers in the table?", "626.75"),
        ("What is the weather?", None),
    ],
)
def test_questions_about_a_table(question: str, answer: str | None) -> None:
    assert answer_of(question, text_rows(LINES)) == answer


CHART = "bar chart, values:\nToads | Home | 359.7\nToads | Away | 519.5\nFi! | Away | unread"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the value of Away for Toads?", "519.5"),
        ("For how many categories is the value of Home above 400?", "0"),
        ("Which category has the largest value of Away?", "Toads"),
        ("By how much is the value of Away for Toads larger than for Newts?", None),
        ("What is the value for Toads?", None),
    ],
)
def test_questions_about_a_chart(question: str, answer: str | None) -> None:
    assert charted(question, (), rows_of(CHART)) == answer
