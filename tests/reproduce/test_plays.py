"""Demonstrations that go wrong in a known way."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reproduce.support import NEAR, drawn, plan_of

from saccade.errors import SettingsError
from saccade.record.action import Answer, Code
from saccade.reproduce.plays import guessed, script
from saccade.reproduce.settings import Lesson, Play, TaskSet
from saccade.reproduce.tasks import LESSONS_END, set_of, write_tasks
from saccade.rl.train.tasks import open_tasks
from saccade.tasks.worlds.rng import Rng


def played(play: Play, world: str, root: Path, **knobs: object):
    plan = plan_of(drawn(world, root, **knobs))
    return plan, *script(plan, Lesson(tasks="any", play=play, n=1, calls=3), Rng(1))


def test_a_program_is_run_once_several_times_or_first_with_a_wrong_name(tmp_path: Path) -> None:
    plan, (good,), answer = played("right", "touching-circles", tmp_path)
    assert answer is None
    assert "image_clue_0" in good.code
    _, again, _ = played("again", "touching-circles", tmp_path)
    assert again == (good,) * 3
    _, (bad, then), answer = played("stumble", "touching-circles", tmp_path)
    assert then == good
    assert answer is None
    assert "image_clue_0" not in bad.code
    assert bad.code.replace("image_clue", "image_clue_0") == good.code
    assert plan.opening.bindings.keys() == {"image_clue_0"}


def test_a_crop_goes_astray(tmp_path: Path) -> None:
    plan, (good,), answer = played("right", "visual-search", tmp_path, **NEAR)
    assert answer == Answer(text=plan.task.answer or "")
    places = set()
    for seed in range(8):
        (astray,), told = script(plan, Lesson(tasks="any", play="astray", n=1), Rng(seed))
        assert isinstance(astray, Code)
        assert astray.code.splitlines()[1:] == good.code.splitlines()[1:]
        assert told is not None
        assert told.text in plan.task.choices
        places.add(astray.code.splitlines()[0])
    assert len(places) > 4
    with pytest.raises(SettingsError, match="no crop"):
        played("astray", "touching-circles", tmp_path)


def test_answers_at_once(tmp_path: Path) -> None:
    plan, calls, answer = played("known", "visual-search", tmp_path, **NEAR)
    assert (calls, answer) == ((), Answer(text=plan.task.answer or ""))
    said = {guessed(plan.task, Rng(seed)) for seed in range(40)}
    assert said == set(plan.task.choices)
    circles, squares = drawn("touching-circles", tmp_path), drawn("nested-squares", tmp_path)
    assert {guessed(circles, Rng(seed)) for seed in range(20)} == {"yes", "no"}
    assert {guessed(squares, Rng(seed)) for seed in range(80)} == set(map(str, range(10)))
    with pytest.raises(SettingsError, match="cannot be guessed"):
        guessed(drawn("grid-count", tmp_path, kinds=["both"]), Rng(0))


SETS = (
    TaskSet(name="circles", worlds=("touching-circles", "nested-squares"), train=2, held_out=1),
    TaskSet(name="near-signs", worlds=("visual-search",), knobs={"visual-search": NEAR}, train=3, held_out=2),
)


def test_tasks_of_sets(tmp_path: Path) -> None:
    train = open_tasks(str(write_tasks(SETS, "train", tmp_path / "train")), "train", 99)
    held = open_tasks(str(write_tasks(SETS, "held-out", tmp_path / "held-out")), "train", 99)
    assert [set_of(name) for name in train.ids] == ["circles", "near-signs"] * 3 + ["circles"]
    assert [set_of(name) for name in held.ids] == ["circles", "near-signs", "circles", "near-signs"]
    assert all(int(name.rpartition("-")[2]) >= LESSONS_END for name in train.ids)
    assert not set(train.ids) & set(held.ids)
    before = (tmp_path / "train" / "tasks.jsonl").stat().st_mtime_ns
    write_tasks(SETS, "train", tmp_path / "train")
    assert (tmp_path / "train" / "tasks.jsonl").stat().st_mtime_ns == before
