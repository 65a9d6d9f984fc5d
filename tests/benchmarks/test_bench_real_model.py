"""A real trained language model behind a real server: small form of `python -m benchmarks real-model`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from benchmarks.real_model import DIALECTS, faults, measure_real_model, questions, real_model_table
from saccade.cli.output import plain_console
from saccade.errors import UnavailableError
from saccade.record.trajectory import StopReason

PYTHON = Path(os.environ.get("REAL_MODEL", Path(__file__).parents[2] / ".venv-real/bin/python"))


def test_without_the_environment_it_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="make real-model"):
        measure_real_model(tmp_path / "python", 16)


def test_questions_are_the_same_each_time_and_have_answers() -> None:
    tasks = list(questions(40))
    assert tasks == list(questions(40))
    assert len({task.id for task in tasks}) == 40
    assert all(task.answer and not task.media for task in tasks)
    assert {"picture" in task.question for task in tasks} == {True, False}


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment that `make real-model` builds")
def test_every_episode_ends_and_says_why(tmp_path: Path) -> None:
    played = measure_real_model(PYTHON, 16, tmp_path)
    assert faults(played) == []
    assert [(one.dialect, one.streamed) for one in played] == [(name, s) for name in DIALECTS for s in (False, True)]
    assert all(sum(one.stops.values()) == 2 for one in played)
    assert all(one.stops.keys() <= {str(reason) for reason in StopReason} for one in played)
    assert sum(one.turns for one in played) >= 16
    with plain_console().capture() as shown:
        plain_console().print(real_model_table(played))
    assert shown is not None
