"""What is demonstrated: real looks, real programs, answers that need no gold where a program finds them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.worlds.running import NEAR, is_right, plan_for, printed, trajectories

from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.run_folder import RunFolder
from saccade.media.store import MediaStore
from saccade.plugins.worlds.canvas import GRIDS, holds_middle, parts
from saccade.plugins.worlds.experts.demonstrator import UNKNOWN, SolverModel, first_action, given_first, looks
from saccade.plugins.worlds.experts.plays import ExpertPart
from saccade.plugins.worlds.experts.scene import ExpertSettings, StyleWeights
from saccade.plugins.worlds.experts.ways import answer_of, charted, rows_of, text_rows
from saccade.record.content import Answer, Code, ToolCall
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.worlds import Split, draw_sample, load_world, make_task
from saccade.training.sft.synth.settings import ExpertStopped


def plan_of(world: str, dialect: str, store: RunFolder, index: int = 0, split: Split = "train") -> Plan:
    loaded = load_world(world)
    knobs = loaded.knobs(**NEAR) if world == "visual-search" else None
    return Plan(make_task(loaded, split, index, store.store, knobs), load_dialect(dialect))


def test_a_question_without_code_is_answered_at_once(tmp_path: Path) -> None:
    plan = plan_of("sign-close-up", "tiny:direct", RunFolder(tmp_path))
    assert first_action(plan) == Answer(text=plan.task.answer or "")


def test_of_each_part_the_signs_in_it_are_named(tmp_path: Path) -> None:
    folder, world = RunFolder(tmp_path), load_world("visual-search")
    for index in range(5):
        plan = plan_of("visual-search", "tiny:look", folder, index)
        task = plan.task
        notes = draw_sample(world, "train", index, world.knobs(**NEAR)).notes
        first, *others, answer = looks(plan, notes)
        assert answer == Answer(text=task.answer or "")
        assert isinstance(first, Code)
        assert first.code.startswith(f"asked = ['{notes['plate']}']\n")
        part = task.media[0].part
        view, on, closer = (0, 0, part.width, part.height), 0, 0
        for look in others:
            assert isinstance(look, Code)
            said = look.code.partition("\n")[0].removeprefix("seen = ")
            shown = parts(view, GRIDS[closer])[on]
            places = [line.split() for line in notes["signs"].splitlines()]
            inside = sorted({name for name, *box in places if holds_middle(shown, tuple(map(int, box)))})  # type: ignore[arg-type]
            assert said == repr(", ".join(inside) or "none")
            found = notes["plate"] in inside
            view, on, closer = (shown, 0, closer + 1) if found else (view, on + 1, closer)
        assert closer == len(GRIDS)
        assert holds_middle(view, task.evidence[0].xyxy)


def test_a_sign_that_its_colour_does_not_tell_is_not_looked_for(tmp_path: Path) -> None:
    plan = plan_of("visual-search", "tiny:look", RunFolder(tmp_path))
    with pytest.raises(ExpertStopped, match="several red signs"):
        looks(plan, {"plate": "red", "signs": "red 1 1 9 9\nblue 20 20 28 28\nred 40 40 48 48"})
    with pytest.raises(ExpertStopped, match="no part"):
        looks(plan, {"plate": "red", "signs": "red -1000 1 -990 9"})


def test_a_program_depends_on_the_wording_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    by_question: dict[str, set[str]] = {}
    for index in range(12):
        plan = plan_of("touching-circles", "tiny:look", folder, index)
        action = first_action(plan)
        assert isinstance(action, Code)
        by_question.setdefault(plan.task.question, set()).add(action.code)
    assert all(len(programs) == 1 for programs in by_question.values())


@pytest.mark.parametrize("world", ["chart-bar", "chart-pie", "table-arithmetic", "pixel-colour", "path-follow", "maze"])
@pytest.mark.few(1)
def test_the_program_still_finds_the_answer(world: str) -> None:
    for index in range(3):
        sample = draw_sample(load_world(world), "test", index)
        code = given_first(sample.program, sample.question, sample.choices)
        assert printed(code, **sample.media) == sample.answer


@pytest.mark.parametrize("world", ["chart-bar", "chart-line", "chart-pie", "chart-scatter", "table-arithmetic"])
@pytest.mark.few(2)
def test_what_follows_depends_on_the_kind_of_question_alone(world: str) -> None:
    """Nothing of a program has to be read off the picture."""
    ends = set()
    for index in range(60):
        sample = draw_sample(load_world(world), "train", index)
        code = given_first(sample.program, sample.question, sample.choices)
        ends.add("\n".join(line for line in code.splitlines() if not line.startswith(("asked = ", "choices = "))))
    assert len(ends) <= 30


def squares(store: MediaStore) -> Task:
    return make_task(load_world("nested-squares"), "test", 3, store)


async def play(task: Task, dialect: str, store: MediaStore) -> Trajectory:
    plan = Plan(task, load_dialect(dialect))
    async with LocalSandbox(limits=plan.dialect.sandbox) as sandbox:
        return await run_episode(plan, SolverModel(plan), sandbox, store)


@pytest.mark.parametrize("dialect", ["pyvision", "codedance", "codev", "thyme", "native"])
async def test_the_program_runs_and_its_result_is_the_answer(dialect: str, tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    task = squares(store)
    played = await play(task, dialect, store)
    assert played.answer == task.answer
    assert played.provenance.model == "solver"
    assert len(played.turns) == 2


@pytest.mark.parametrize("dialect", ["direct", "vista"])
async def test_without_code_it_does_not_know(dialect: str, tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    played = await play(squares(store), dialect, store)
    assert (played.answer, len(played.turns)) == (UNKNOWN, 1)


async def test_a_question_of_another_kind_is_not_guessed(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    played = await play(squares(store).model_copy(update={"question": "Who painted this?"}), "pyvision", store)
    assert (played.answer, len(played.turns)) == (UNKNOWN, 1)


async def test_a_program_that_fails_gives_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SolverModel, "_program", lambda self: "raise ValueError('7')")
    store = MediaStore(tmp_path)
    played = await play(squares(store), "codedance", store)
    assert isinstance(played.turns[0].action, Code)
    assert played.answer == UNKNOWN


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
    from saccade.tasks.worlds import Rng

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
