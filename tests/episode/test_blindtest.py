"""A scripted model writes the OpenCV program for a BlindTest question, and the whole loop finds the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.worlds.solvers.drawing import FOLDER, TASKS, needs_files, plain, rows

from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.plugins.worlds.solvers import solver_for
from saccade.record.codec import dumps, loads
from saccade.record.content import Answer, Code, Message, TextPart
from saccade.record.execution import Status
from saccade.record.trajectory import StopReason, Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.media import task_from_files

pytestmark = needs_files


def last_line(message: Message) -> str:
    """The last line of printed text in an observation of PyVision."""
    shown = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    return shown.partition("Text Result:\n")[2].partition("Image Result:")[0].strip().rpartition("\n")[2]


def solving(dialect: Dialect, question: str) -> ScriptedModel:
    """Writes the program first, then answers with the last line that it reads."""
    solver = solver_for(question)
    assert solver is not None, question
    code = dialect.write(Code(code=solver.program("image_clue_0")), "I measure it on the pixels.")

    def reply(messages: Sequence[Message]) -> str:
        if len(messages) == 1:
            return code
        return dialect.write(Answer(text=last_line(messages[-1])), "The program says it.")

    return ScriptedModel(reply)


async def look(row: dict[str, Any], box: LocalSandbox, store: MediaStore) -> Trajectory:
    dialect = load_dialect("pyvision")
    plan = Plan(task_from_files(row["question"], [FOLDER / row["image"]], store), dialect)
    trajectory = await run_episode(plan, solving(dialect, row["question"]), box, store)
    assert trajectory.stop is StopReason.ANSWERED, trajectory.stop_detail
    assert [turn.action.kind for turn in trajectory.turns] == ["code", "answer"]
    execution = trajectory.turns[0].execution
    assert execution is not None
    assert execution.status is Status.OK, execution.traceback
    assert execution.stdout.rstrip().endswith(trajectory.answer or "nothing")
    assert loads(dumps(trajectory), Trajectory) == trajectory
    return trajectory


async def check(task: str, step: int, folder: Path) -> None:
    asked = rows(task)[::step]
    store = MediaStore(folder)
    async with LocalSandbox(limits=load_dialect("pyvision").sandbox) as box:
        found = [await look(row, box, store) for row in asked]
    missed = [
        row["id"] for row, one in zip(asked, found, strict=True) if plain(one.answer or "") != plain(row["answer"])
    ]
    assert len(missed) <= 0.05 * len(asked), missed


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=() if task == "nested_squares" else pytest.mark.slow) for task in TASKS]
)
async def test_some_files(task: str, tmp_path: Path) -> None:
    await check(task, 20, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
async def test_all_files(task: str, tmp_path: Path) -> None:
    await check(task, 1, tmp_path)
