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
from saccade.sft.tiny.demonstrator import first_action, looks
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
    assert first_action(plan) == Answer(text=plan.task.answer or "")


def test_looks_name_places_in_twentieths_and_nothing_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    steps = []
    for index in range(12):
        task = plan_of("visual-search", "tiny:look", folder, index).task
        part = task.media[0].part
        (first, *others), (second, *more) = (look.code.splitlines() for look in looks(task, "red"))
        assert (others, more) == tuple(look.code.splitlines()[1:] for look in looks(task, "blue"))
        left, top, right, bottom = task.evidence[0].xyxy
        x, y = named(first)
        steps.append(max(abs(x - (left + right) / 2 / part.width), abs(y - (top + bottom) / 2 / part.height)) * 20)
        # The second look's view has its middle where the first place was, and is as wide as a fifth of the picture.
        side = int((part.width * part.height) ** 0.5 / 5)
        corner = int(x * part.width) - side // 2, int(y * part.height) - side // 2
        x, y = named(second)
        assert abs(corner[0] + x * side - (left + right) / 2) <= side / 38
        assert abs(corner[1] + y * side - (top + bottom) / 2) <= side / 38
    # Most first looks are as near as a twentieth can be; some are a step off, so that the second has to mend them.
    assert max(steps) <= 1.6
    assert sum(step <= 0.51 for step in steps) >= 6


def named(line: str) -> tuple[float, float]:
    name, _, place = line.removeprefix("x, y = ").partition(" = ")
    assert name in {"red_sign", "blue_sign"}
    x, y = place.split(", ")
    return float(x), float(y)


def test_a_program_depends_on_the_wording_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    by_question: dict[str, set[str]] = {}
    for index in range(12):
        plan = plan_of("touching-circles", "tiny:look", folder, index)
        action = first_action(plan)
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
    shown = [turn.execution.pictures[0].image for turn in looked.turns if turn.execution is not None]
    assert [(picture.width, picture.height) for picture in shown] == [(140, 140), (84, 84)]
    assert looked.answer == looked.task.answer
