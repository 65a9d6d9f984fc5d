"""Demonstrations that go wrong in a known way."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.examples.reproduce.support import NEAR, drawn, plan_of

from examples.reproduce.exam import DEMONSTRATIONS_END, set_of, write_tasks
from examples.reproduce.settings import (
    RECIPES,
    DemonstrationKind,
    DemonstrationSet,
    Reproduction,
    TaskSet,
    WeakDemonstrator,
    guessed,
)
from saccade.core.settings import load_settings
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.regions import StoredPixels, regions
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Request
from saccade.plugins.worlds.canvas import GRIDS
from saccade.record.content import Action, Answer, Code, Message, TextPart
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.rewards.judges.answer import BoxJudge
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.sources.task_set import open_tasks
from saccade.tasks.worlds import Rng, load_world, make_task

NOTES = {"plate": "red", "signs": "red 10 20 14 24\nblue 40 40 44 44"}
SEVEN = Execution(status=Status.OK, stdout="7\n")


async def _wrote(plan: Plan, player: WeakDemonstrator) -> list[Action]:
    """What a player does if every call of good code prints 7."""
    dialect, messages, actions = plan.dialect, plan.opening.messages, []
    while not (actions and isinstance(actions[-1], Answer)):
        said = await player.complete(Request(messages=messages, stop=dialect.stop), MediaStore(Path("none")))
        action = dialect.parse(said.text, said.finish)
        actions.append(action)
        bad = isinstance(action, Code) and "image_clue_0" not in action.code and "found" not in action.code
        execution = Execution(status=Status.ERROR, traceback="NameError: image_clue") if bad else SEVEN
        messages = (
            *messages,
            Message(role="assistant", parts=(TextPart(text=said.text),)),
            dialect.observe(execution, plan.opening.pictures).message,
        )
    return actions


def played(play: DemonstrationKind, task: Task, seed: int = 1, calls: int = 3) -> list[Action]:
    plan = plan_of(task)
    kind = DemonstrationSet(tasks="any", play=play, n=1, calls=calls)
    return asyncio.run(_wrote(plan, WeakDemonstrator(plan, kind, NOTES, Rng(seed))))


def test_a_program_is_run_once_several_times_or_first_with_a_wrong_name(tmp_path: Path) -> None:
    task = drawn("touching-circles", tmp_path)
    good, answer = played("right", task)
    assert answer == Answer(text="7")
    assert isinstance(good, Code)
    assert "image_clue_0" in good.code
    assert played("again", task) == [good] * 3 + [answer]
    bad, *rest = played("stumble", task)
    assert rest == [good, answer]
    assert isinstance(bad, Code)
    assert "image_clue_0" not in bad.code
    assert bad.code.replace("image_clue", "image_clue_0") == good.code


def test_a_crop_goes_astray(tmp_path: Path) -> None:
    task = drawn("visual-search", tmp_path, **NEAR)
    *good, answer = played("right", task)
    assert answer == Answer(text=task.answer or "")
    assert all(isinstance(item, Code) for item in good)
    strays = [played("astray", task, seed) for seed in range(8)]
    assert all(len(item) >= len(GRIDS) + 1 for item in strays)
    assert len({str(item[:-1]) for item in strays}) > 4
    assert all(isinstance(item[-1], Answer) and item[-1].text in task.choices for item in strays)
    assert len({str(item[-1]) for item in strays}) > 1
    again = played("again", task, calls=2)
    assert again == [good[0], *good, answer]
    with pytest.raises(SettingsError, match="no crop"):
        played("astray", drawn("touching-circles", tmp_path))


def test_answers_at_once(tmp_path: Path) -> None:
    task = drawn("visual-search", tmp_path, **NEAR)
    assert played("known", task) == [Answer(text=task.answer or "")]
    glance = Code(code="image_clue_0.show()")
    assert played("glance", task, calls=2) == [glance, glance, Answer(text=task.answer or "")]
    ((said,),) = [played("guess", task)]
    assert isinstance(said, Answer)
    assert {guessed(task, Rng(seed)) for seed in range(40)} == set(task.choices)
    circles, squares = drawn("touching-circles", tmp_path), drawn("nested-squares", tmp_path)
    assert {guessed(circles, Rng(seed)) for seed in range(20)} == {"yes", "no"}
    assert {guessed(squares, Rng(seed)) for seed in range(80)} == set(map(str, range(10)))
    with pytest.raises(SettingsError, match="cannot be guessed"):
        guessed(drawn("grid-count", tmp_path, kinds=["both"]), Rng(0))


async def test_the_middle_is_cut_out_and_holds_the_evidence(tmp_path: Path) -> None:
    (signs,) = load_settings(Reproduction, RECIPES / "faithful.toml").task_sets
    world, (knobs,) = load_world(signs.worlds[0]), signs.knobs.values()
    store = MediaStore(tmp_path)
    judge = BoxJudge(partial(regions, book=StoredPixels(store)))
    task = make_task(world, "test", 0, store, world.knobs(**knobs))
    plan = plan_of(task)
    async with LocalSandbox(limits=plan.dialect.sandbox) as sandbox:
        for play, level in (("middle", 1.0), ("glance", 0.25)):
            kind = DemonstrationSet(tasks="signs", play=play, n=1, calls=1)
            made = await run_episode(plan, WeakDemonstrator(plan, kind, {}, Rng(0)), sandbox, store)
            first, last = judge.verdicts(made)
            assert (made.answer, last) == (task.answer, None)
            assert first is not None
            assert first.score == level


def test_a_dialect_without_code(tmp_path: Path) -> None:
    plan = plan_of(drawn("touching-circles", tmp_path), "tiny:direct")
    player = WeakDemonstrator(plan, DemonstrationSet(tasks="any", play="again", n=1), {}, Rng(0))
    with pytest.raises(SettingsError, match="needs code"):
        asyncio.run(_wrote(plan, player))


SETS = (
    TaskSet(name="circles", worlds=("touching-circles", "nested-squares"), train=2, held_out=1),
    TaskSet(name="near-signs", worlds=("visual-search",), knobs={"visual-search": NEAR}, train=3, held_out=2),
)


def test_tasks_of_sets(tmp_path: Path) -> None:
    train = open_tasks([str(write_tasks(SETS, "train", tmp_path / "train"))])
    held = open_tasks([str(write_tasks(SETS, "held-out", tmp_path / "held-out"))])
    assert [set_of(name) for name in train.ids] == ["circles", "near-signs"] * 3 + ["circles"]
    assert [set_of(name) for name in held.ids] == ["circles", "near-signs", "circles", "near-signs"]
    assert all(int(name.rpartition("-")[2]) >= DEMONSTRATIONS_END for name in train.ids)
    assert not set(train.ids) & set(held.ids)
    before = (tmp_path / "train" / "tasks.jsonl").stat().st_mtime_ns
    write_tasks(SETS, "train", tmp_path / "train")
    assert (tmp_path / "train" / "tasks.jsonl").stat().st_mtime_ns == before
