"""What a run says of its tasks before its first step."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewards.rollouts import SEARCH, TASK

from saccade.dialects.registry import load_dialect
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.task import Task
from saccade.rewards.judges.answer import AnswerJudge
from saccade.rewards.registry import load_reward
from saccade.rewards.reward import ByTag
from saccade.rl.recipe import RewardSettings
from saccade.rl.train.check_tasks import MOST, check_form, check_rewards, check_tasks
from saccade.rl.train.scoring import AnswerGrading, Scorer
from saccade.rl.train.tasks import TaskList
from saccade.tasks.sources.settings import SourceSettings
from saccade.tasks.sources.task_set import open_tasks

TAGGED = TASK.model_copy(update={"tags": ("data_source=chart",)})
OPEN = TASK.model_copy(update={"grader": "judge"})
JUDGE = AnswerJudge(ScriptedModel([]))


@pytest.mark.parametrize(
    ("dialect", "reward", "told"),
    [
        ("vista", "vista-r1", False),
        ("direct:think", "vista-r1", False),
        ("direct", "vista-r1", True),
        ("pyvision-rl-image", "vista-r1", True),
        ("codedance", "codedance", False),
        ("codev", "codev", False),
        ("deepeyes", "deepeyes", False),
        ("pyvision-rl-image", "pyvision-rl", False),
    ],
)
def test_a_reward_of_another_form_than_the_dialects_is_said(
    dialect: str, reward: str, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    check_form(load_dialect(dialect), load_reward(reward), (dialect, reward))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == told
    assert all(f"The reward {reward} wants another form than the dialect {dialect}" in line for line in said)


def test_parameters_by_a_tag_that_no_task_has_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    usual = load_reward("codedance@1:paper")
    preset = ByTag(usual, {"data_source=chart": usual, "math": usual})
    check_tasks(TaskList(("a", "b"), lambda name, _: TAGGED), Scorer(preset), MediaStore(tmp_path))
    assert [record.getMessage() for record in caplog.records] == [
        "reward.by_tag.math has no effect: none of the 2 tasks has that tag."
    ]


@pytest.mark.parametrize(
    ("task", "reward", "answers", "says"),
    [
        (TAGGED, "codev@1:paper", AnswerGrading(), "search_tags; they have: data_source=chart"),
        (SEARCH, "codev@1:paper", AnswerGrading(), ""),
        (TASK.model_copy(update={"tags": ("data_source=vstar",)}), "codev@1:paper", AnswerGrading(), ""),
        (TAGGED, "codedance@1:paper", AnswerGrading(), ""),
        (TAGGED, "codedance@1:paper", AnswerGrading(judge=JUDGE), "never asked"),
        (TAGGED, "codedance@1:paper", AnswerGrading(judge=JUDGE, open_tags=("data_source=chart",)), ""),
        (OPEN, "codedance@1:paper", AnswerGrading(judge=JUDGE), ""),
        (OPEN, "codedance@1:paper", AnswerGrading(), "reward.answer_judge names no model"),
    ],
)
def test_a_part_that_nothing_feeds_is_said(
    task: Task, reward: str, answers: AnswerGrading, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[str] = []

    def make(name: str, _: MediaStore) -> Task:
        made.append(name)
        return task

    tasks = TaskList(tuple(map(str, range(1000))), make)
    check_tasks(tasks, Scorer(load_reward(reward), answers=answers), MediaStore(tmp_path))
    assert len(made) == MOST
    assert int(made[-1]) > 900
    told = " ".join(record.getMessage() for record in caplog.records)
    assert (says in told) if says else not told


def test_tasks_that_no_reward_can_be_paid_for_are_refused_before_the_first_step(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "a?", "answer": "x"}\n{"question": "b?"}\n', encoding="utf-8")
    with pytest.raises(
        SettingsError, match=r"1 of 2 tasks of .*rows\.jsonl have no gold answer \(the first: .*/rows-1"
    ):
        check_rewards(open_tasks([str(rows)]), RewardSettings(preset="codedance@1"))
    check_rewards(open_tasks([str(rows)]), RewardSettings(preset="my_reward.py:PAY"))  # may need none
    own = SourceSettings(name="maze", most=2, reward={"accuracy_wieght": 1.2})
    with pytest.raises(SettingsError, match=r"(?s)of maze \(.*accuracy_wieght.*accuracy_weight"):
        check_rewards(open_tasks([own]), RewardSettings(preset="codedance@1"))
