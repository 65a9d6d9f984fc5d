"""Rewards of one task's rollouts, and of held-out tasks: whose parameters, which grader, how many in a group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.rewards.rollouts import TASK, answered, ran, rollout
from tests.training.rl.train.support import metrics, rl_settings, toy

from saccade.record.task import RewardParameter
from saccade.rewards.registry import load_reward
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.run import train
from saccade.training.rl.scoring import AnswerGrading, Scorer, accuracy_alone

TOKENS: Any = object()  # only whether there are any is looked at
DEEP = RewardSettings(preset="deepeyes@1:repo")
SCORER = Scorer(
    load_reward(DEEP.preset), preset_of=lambda task: DEEP.load_with((), {own.name: own.value for own in task.reward})
)


def played(answer: str, name: str, **task: Any) -> Rollout:
    return Rollout(rollout(ran("a", "a"), answered(answer), task=TASK.model_copy(update=task), id=name), TOKENS)


async def test_a_task_with_parameters_of_its_own_is_paid_by_them() -> None:
    own = (RewardParameter(name="accuracy_weight", value=0.5),)
    for given, scorer, weight in (((), SCORER, 0.8), (own, SCORER, 0.5), (own, Scorer(SCORER.preset), 0.8)):
        (scored,) = await scorer([played("red", "a", reward=given)])
        assert scored.reward.part("accuracy").weight == weight
    assert await SCORER([]) == []


async def test_a_rollout_without_a_turn_to_train_on_has_no_reward() -> None:
    without = Rollout(played("red", "a").trajectory)
    for scored in ((await SCORER([without]))[0], accuracy_alone(without)):
        assert scored.reward.total is None
        assert "no turn to be trained on" in scored.reward.parts[0].detail
    assert accuracy_alone(played("red", "a")).reward.total == 1.0


@pytest.mark.parametrize(
    ("tags", "grader", "is_open"),
    [((), "", False), (("essay",), "", True), (("other",), "", False), ((), "judge", True)],
)
def test_which_answers_only_a_model_can_call_wrong(tags: tuple[str, ...], grader: str, is_open: bool) -> None:
    task = TASK.model_copy(update={"tags": tags, "grader": grader})
    assert AnswerGrading(open_tags=("essay", "sketch")).is_open(task) is is_open
    assert AnswerGrading(open_tags=("*",)).is_open(task)


def test_held_out_answers_are_scored_and_shown(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    validation = {"every": 1, "source": str(tasks), "tasks": 3, "samples": 2, "temperature": 1.0}
    train(rl_settings(tiny, tasks, recipe={"steps": 1}, validation=validation), tmp_path)
    before, _, after = metrics(tmp_path)
    assert (before["step"], after["step"]) == (0, 1)
    assert 0 <= before["validation/accuracy"] <= before["validation/pass_at_k"] <= 1
    shown = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [line["id"].partition("#")[0] for line in shown[:4]] == ["t0", "t0", "t1", "t1"]
    assert {line["expected"] for line in shown} == {"red"}


async def test_the_grader_of_a_run_stands_in_place_of_the_tasks() -> None:
    for grader, name in (("", "text@1"), ("yes-no", "yes-no@1")):
        graded = await AnswerGrading(grader).graded(played("red", "a").trajectory)
        assert json.loads(graded.scores[-1].detail)["grader"] == name
