"""What is demonstrated: real looks, real programs, answers that need no gold where a program finds them."""

import asyncio
from pathlib import Path

import pytest
from tests.sft.tiny.cases import NEAR

from saccade.dialects.registry import load_dialect
from saccade.episode.plan import Plan
from saccade.episode.run_folder import RunFolder
from saccade.record.action import Answer, Code
from saccade.record.trajectory import Trajectory
from saccade.sft.tiny.demonstrator import first_action
from saccade.sft.tiny.lessons import hold
from saccade.sft.tiny.settings import Lesson
from saccade.tasks.worlds.base import Split, make_task
from saccade.tasks.worlds.registry import load_world


def plan_of(world: str, dialect: str, store: RunFolder, index: int = 0, split: Split = "train") -> Plan:
    loaded = load_world(world)
    knobs = loaded.knobs(**NEAR) if world == "visual-search" else None
    return Plan(make_task(loaded, split, index, store.store, knobs), load_dialect(dialect))


def test_a_question_without_code_is_answered_at_once(tmp_path: Path) -> None:
    plan = plan_of("sign-close-up", "tiny:direct", RunFolder(tmp_path))
    assert first_action(plan.task, plan.dialect, plan.opening) == Answer(text=plan.task.answer or "")


def test_a_look_names_the_place_in_hundredths_and_nothing_else(tmp_path: Path) -> None:
    plan = plan_of("visual-search", "tiny:look", RunFolder(tmp_path))
    action = first_action(plan.task, plan.dialect, plan.opening)
    assert isinstance(action, Code)
    first, *others = action.code.splitlines()
    left, top, right, bottom = plan.task.evidence[0].xyxy
    x, y = (float(value) for value in first.removeprefix("x, y = ").split(", "))
    part = plan.task.media[0].part
    assert abs(x * part.width - (left + right) / 2) <= part.width / 100
    assert abs(y * part.height - (top + bottom) / 2) <= part.height / 100
    assert others == first_lines(tmp_path)


def first_lines(folder: Path) -> list[str]:
    """The lines after the first of another task's look."""
    other = plan_of("visual-search", "tiny:look", RunFolder(folder), index=1)
    action = first_action(other.task, other.dialect, other.opening)
    assert isinstance(action, Code)
    return action.code.splitlines()[1:]


def test_a_program_depends_on_the_wording_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    by_question: dict[str, set[str]] = {}
    for index in range(12):
        plan = plan_of("touching-circles", "tiny:look", folder, index)
        action = first_action(plan.task, plan.dialect, plan.opening)
        assert isinstance(action, Code)
        by_question.setdefault(plan.task.question, set()).add(action.code)
    assert all(len(programs) == 1 for programs in by_question.values())


@pytest.mark.slow
async def test_a_lesson_is_played_and_gone_on_with(tmp_path: Path) -> None:
    lesson = Lesson(name="x", worlds=("visual-search", "touching-circles"), n=2, knobs={"visual-search": NEAR})
    progress = await hold(lesson, tmp_path, workers=2)
    assert (progress.kept, progress.right) == (4, 4)
    again = await hold(lesson.model_copy(update={"n": 3}), tmp_path, workers=2)
    assert (again.skipped, again.kept) == (4, 2)
    from saccade.record.codec import read_lines

    played = await asyncio.to_thread(lambda: list(read_lines(tmp_path / "trajectories.jsonl", Trajectory)))
    assert len(played) == 6
    looked = next(item for item in played if item.task.source == "visual-search@1")
    assert looked.turns[0].execution is not None
    assert [(picture.image.width, picture.image.height) for picture in looked.turns[0].execution.pictures] == [(84, 84)]
    assert looked.answer == looked.task.answer
