"""A grader that rows name and that there is not ends a run before its first sample, and `tasks check` names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tasks.sources.files import jsonl

from saccade.cli.main import main
from saccade.episode.task_graders import check_graders, grader_problems
from saccade.errors import SettingsError
from saccade.evals.settings import EvalSettings
from saccade.evals.sources import open_sources
from saccade.rl.recipe import RewardSettings
from saccade.rl.train.check_tasks import check_rewards
from saccade.sft.synth.jobs import Jobs
from saccade.sft.synth.settings import SynthSettings
from saccade.tasks.sources.task_set import open_tasks


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """Tasks of which two name a grader that there is not, one has it behind a judge, and one names code."""
    graders = ["", "relaxed@1", "relxed@1", "relxed@1", "judge", "judge|relaxed@1", "judge|nope@1", "own.py:G"]
    graders += ["relaxed@1:tolerance=0.1", "relaxed@1:tol=1"]
    listed = [{"question": f"{at}?", "answer": "1", "grader": grader} for at, grader in enumerate(graders)]
    return str(jsonl(tmp_path / "rows.jsonl", listed))


def test_each_is_named_with_its_number_and_its_reason(rows: str) -> None:
    said = list(grader_problems(open_tasks([rows]).parts))
    assert [text.partition(" (the first")[0].removeprefix(f"{rows}: ") for text in said] == [
        "2 tasks name the grader 'relxed@1'",
        "1 task names the grader 'judge|nope@1'",
        "1 task names the grader 'own.py:G'",
        "1 task names the grader 'relaxed@1:tol=1'",
    ]
    assert "/rows-2)" in said[0]
    assert "Did you mean 'relaxed@1'" in said[0]
    assert "is not run by itself" in said[2]
    assert "is no parameter of grader relaxed" in said[3]


def evaluated(rows: str) -> object:
    return open_sources(EvalSettings(sources=(rows,), model="scripted:s.json"))


def synthesised(rows: str) -> object:
    return Jobs(SynthSettings(sources=(rows,), dialect="direct"))


def trained(rows: str) -> object:
    return check_rewards(open_tasks([rows]), RewardSettings(preset="codedance@1"))


@pytest.mark.parametrize("take", [evaluated, synthesised, trained])
def test_every_command_refuses_them_before_the_first_sample(rows: str, take: Callable[[str], object]) -> None:
    with pytest.raises(SettingsError, match="2 tasks name the grader 'relxed@1'"):
        take(rows)


def test_another_grader_for_all_makes_them_of_no_account(rows: str) -> None:
    assert open_sources(EvalSettings(sources=(rows,), model="scripted:s.json", grader="text@1"))
    check_rewards(open_tasks([rows]), RewardSettings(preset="codedance@1", grader="text@1"))
    check_graders(open_tasks(["visual-search"]).parts)


def test_the_check_of_tasks_says_so_and_fails(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "check", rows]) == 1
    said = capsys.readouterr().err
    assert "2 tasks name the grader 'relxed@1'" in said
    assert "broken rows: 4" in said
