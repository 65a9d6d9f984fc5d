"""Rewards of one task's rollouts, and of held-out tasks: whose parameters, which grader, how many in a group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rewards.rollouts import TASK, answered, ran, rollout
from tests.training.rl.train.support import rl_settings

from saccade.record.task import RewardParameter
from saccade.rewards.registry import load_reward
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.run import _RlRun
from saccade.training.rl.scoring import AnswerGrading, Scorer, accuracy_alone
from saccade.training.rl.tasks import TaskList

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


@pytest.mark.parametrize(("samples", "accuracy", "solved"), [(2, 1 / 4, 1 / 2), (1, 1 / 4, None)])
async def test_held_out_answers_are_scored_in_groups_of_one_task(
    samples: int, accuracy: float, solved: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    kept: list[dict[str, Any]] = []
    answers = [played(answer, f"r{number}") for number, answer in enumerate(["red", "blue", "blue", "blue"])]

    async def generate(plans: list[tuple[object, ...]], *_: object) -> tuple[Sequence[Rollout], None]:
        asked.extend(plans)
        return answers, None

    monkeypatch.setattr("saccade.training.rl.run.generate_rollouts", generate)
    settings = rl_settings(tmp_path, tmp_path, validation={"samples": samples, "temperature": 0.5, "grader": "text"})
    processes = SimpleNamespace(share=list, gather_shares=list)
    evaluated: list[bool] = []
    model = SimpleNamespace(eval=lambda: evaluated.append(True))
    learner: Any = SimpleNamespace(processes=processes, trained=SimpleNamespace(model=model))
    run: Any = SimpleNamespace(record_validation=lambda values, shown: kept.extend([values, *shown]))
    trainer: Any = SimpleNamespace(
        plan=lambda task, number, name, temperature: (name, number, temperature),
        sampling=nullcontext,
        resources=None,
        generation=None,
        scorer=SCORER,
    )
    names = tuple(f"t{number}" for number in range(4 // samples))
    tasks = TaskList(names, lambda name, store: TASK.model_copy(update={"id": name}))
    await _RlRun(settings, tmp_path, run, learner, run)._validate(trainer, tasks)
    assert evaluated == [True]
    assert asked == [(name, number, 0.5) for name in names for number in range(samples)]
    assert kept[0]["validation/accuracy"] == accuracy
    assert kept[0].get("validation/pass_at_k") == solved
    assert [item["id"] for item in kept[1:]] == ["r0", "r1", "r2", "r3"]
    assert kept[1] == {"id": "r0", "wrote": "\n".join(t.text for t in answers[0].trajectory.turns), "expected": "red"}


async def test_the_grader_of_a_run_stands_in_place_of_the_tasks() -> None:
    for grader, name in (("", "text@1"), ("yes-no", "yes-no@1")):
        graded = await AnswerGrading(grader).graded(played("red", "a").trajectory)
        assert json.loads(graded.scores[-1].detail)["grader"] == name
