"""The programs on the real files of BlindTest: at least 95 of 100 right in every task."""

from __future__ import annotations

import pytest
from tests.plugins.worlds.solvers.blindtest import TASKS, needs_files, picture, rows
from tests.plugins.worlds.solvers.running import plain, printed

pytestmark = needs_files


def wrong(task: str, step: int) -> tuple[list[str], int]:
    """The ids answered wrongly, and how many were asked."""
    asked = rows(task, step)
    missed = [row["id"] for row in asked if plain(printed(row["question"], picture(row))) != plain(row["answer"])]
    return missed, len(asked)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.slow
def test_some_files(task: str) -> None:
    missed, asked = wrong(task, 10)
    assert asked >= 4
    assert missed == []


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_all_files(task: str) -> None:
    missed, asked = wrong(task, 1)
    assert asked >= 40
    assert len(missed) <= 0.05 * asked, missed
