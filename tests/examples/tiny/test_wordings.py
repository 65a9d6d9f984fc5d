"""Other wordings ask the same."""

from pathlib import Path

import pytest

from saccade.media.store import MediaStore
from saccade.plugins.worlds.solvers.questions import solver_for
from saccade.tasks.worlds.base import load_world, make_task
from saccade.tasks.worlds.rng import Rng
from saccade_tiny.wordings import reworded

WORLDS = ("shape-count", "line-crossings", "nested-squares", "grid-count", "touching-circles")


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_is_asked(world: str, tmp_path: Path) -> None:
    texts = set()
    for index in range(12):
        task = make_task(load_world(world), "train", index, MediaStore(tmp_path))
        other = reworded(task, Rng(index))
        before, after = solver_for(task.question), solver_for(other.question)
        assert before is not None
        assert after is not None
        assert after.family == before.family, other.question
        if world != "grid-count":
            assert {**after.parameters} == {**before.parameters} or world == "line-crossings"
            assert other.answer == task.answer
        texts.add(other.question)
    assert len(texts) > 3


def test_rows_and_columns_are_answered_in_the_form_of_the_question(tmp_path: Path) -> None:
    world = load_world("grid-count")
    task = make_task(world, "train", 0, MediaStore(tmp_path), world.knobs(kinds=("both",)))
    rows, columns = (task.answer or "").split(", ")
    assert reworded(task, Rng(1)).answer == f"rows={{{rows}}} columns={{{columns}}}"


def test_a_task_of_another_kind_stays(tmp_path: Path) -> None:
    task = make_task(load_world("maze"), "train", 0, MediaStore(tmp_path))
    assert reworded(task, Rng(0)) is task
