"""The baseline without a model: its program runs, or it says that it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.dialects.registry import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.media.store import MediaStore
from saccade.plugins.worlds.experts.solver_model import UNKNOWN, SolverModel
from saccade.record.content import Code
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.worlds.base import load_world, make_task


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
