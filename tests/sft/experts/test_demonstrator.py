"""What is demonstrated: real looks, real programs, answers that need no gold where a program finds them."""

from pathlib import Path

import pytest
from tests.sft.experts.cases import NEAR

from saccade.dialects.registry import load_dialect
from saccade.episode.plan import Plan
from saccade.episode.run_folder import RunFolder
from saccade.record.action import Answer, Code
from saccade.sft.experts.demonstrator import first_action, looks
from saccade.sft.synth.experts import ExpertStopped
from saccade.tasks.worlds.base import Split, draw_sample, make_task
from saccade.tasks.worlds.parts import GRIDS, holds_middle, parts
from saccade.tasks.worlds.registry import load_world


def plan_of(world: str, dialect: str, store: RunFolder, index: int = 0, split: Split = "train") -> Plan:
    loaded = load_world(world)
    knobs = loaded.knobs(**NEAR) if world == "visual-search" else None
    return Plan(make_task(loaded, split, index, store.store, knobs), load_dialect(dialect))


def test_a_question_without_code_is_answered_at_once(tmp_path: Path) -> None:
    plan = plan_of("sign-close-up", "tiny:direct", RunFolder(tmp_path))
    assert first_action(plan) == Answer(text=plan.task.answer or "")


def test_of_each_part_the_signs_in_it_are_named(tmp_path: Path) -> None:
    folder, world = RunFolder(tmp_path), load_world("visual-search")
    for index in range(12):
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
