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
from saccade.sft.tiny.demonstrator import LEVELS, first_action, looks
from saccade.sft.tiny.lessons import hold
from saccade.sft.tiny.settings import Lesson
from saccade.tasks.worlds.base import Split, make_task
from saccade.tasks.worlds.parts import best_part, parts
from saccade.tasks.worlds.registry import load_world


def plan_of(world: str, dialect: str, store: RunFolder, index: int = 0, split: Split = "train") -> Plan:
    loaded = load_world(world)
    knobs = loaded.knobs(**NEAR) if world == "visual-search" else None
    return Plan(make_task(loaded, split, index, store.store, knobs), load_dialect(dialect))


def test_a_question_without_code_is_answered_at_once(tmp_path: Path) -> None:
    plan = plan_of("sign-close-up", "tiny:direct", RunFolder(tmp_path))
    assert first_action(plan) == Answer(text=plan.task.answer or "")


def test_looks_close_in_on_the_sign_and_say_what_each_part_shows(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for index in range(12):
        task = plan_of("visual-search", "tiny:look", folder, index).task
        part = task.media[0].part
        view, on = (0, 0, part.width, part.height), 0
        first, *others = looks(task, {"plate": "red"})
        assert first.thought == ""
        for look in others:
            if isinstance(look.action, Answer):
                break
            shown = parts(view)[on]
            found = look.thought == "red"
            assert found or look.thought == "none"
            assert found == (shown == best_part(parts(view), task.evidence[0].xyxy))
            view, on = (shown, 0) if found else (view, on + 1)
        left, top, right, bottom = task.evidence[0].xyxy
        assert view[0] < (left + right) / 2 < view[2]
        assert view[1] < (top + bottom) / 2 < view[3]
        assert (right - left) * 4 > view[2] - view[0] or (bottom - top) * 4 > view[3] - view[1]


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
    assert [round((picture.width * picture.height) ** 0.5 / 28) for picture in shown] == [4] * len(shown)
    said = [turn.text.partition("\n")[0] for turn in looked.turns[1:-1]]
    assert len(said) == len(shown) - 1
    assert sum(text != "none" for text in said) == len(LEVELS) - 1
    assert looked.answer == looked.task.answer
