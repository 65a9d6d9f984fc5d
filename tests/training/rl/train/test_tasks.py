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
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import SourceSettings
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.scoring import AnswerGrading, Scorer
from saccade.training.rl.tasks import MOST, TaskList, as_list, check_form, check_rewards, check_tasks, validation_tasks

TAGGED = TASK.model_copy(update={"tags": ("data_source=chart",)})
OPEN = TASK.model_copy(update={"grader": "judge"})
JUDGE = AnswerJudge(ScriptedModel([]))


@pytest.mark.parametrize(
    ("dialect", "reward", "warned"),
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
    dialect: str, reward: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    check_form(load_dialect(dialect), load_reward(reward), (dialect, reward))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == warned
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
    logged = " ".join(record.getMessage() for record in caplog.records)
    assert (says in logged) if says else not logged


def test_of_many_tags_twelve_are_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tagged = TASK.model_copy(update={"tags": tuple(f"t{number:02}" for number in range(13))})
    check_tasks(TaskList(("a",), lambda name, _: tagged), Scorer(load_reward("codev@1:paper")), MediaStore(tmp_path))
    assert caplog.messages[0].endswith("they have: t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, t10, t11.")


def test_what_a_run_is_watched_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "a?", "answer": "x"}\n{"question": "b?", "answer": "y"}\n', encoding="utf-8")
    named = validation_tasks([str(rows)], ["maze"], 1)
    assert named is not None
    assert len(named.ids) == 1
    worlds = validation_tasks([], ["maze", str(rows)], 3)
    assert worlds is not None
    assert worlds.ids == as_list(open_tasks(["maze"], SourceDefaults(split="validation", most=3))).ids
    assert not caplog.messages
    assert validation_tasks([], [str(rows)], 3) is None
    assert caplog.messages == ["Nothing is validated: no world is trained on, and validation.source names no tasks."]


def test_tasks_are_drawn_in_shares_where_there_are_some() -> None:
    def listed(*weights: float | None) -> TaskList:
        names = ("maze", "touching-circles")
        sources = [
            SourceSettings(name=name, weight=weight, most=2) for name, weight in zip(names, weights, strict=False)
        ]
        return as_list(open_tasks(sources))

    assert [(len(each.groups), each.shares) for each in (listed(3, 1), listed(None, None), listed(2))] == [
        (2, (0.75, 0.25)), (0, ()), (0, ()),
    ]  # fmt: skip


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
