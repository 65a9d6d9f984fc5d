"""When a step stops asking for rollouts, and when what it has ends the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rewards.rollouts import SEARCH, TASK, answered, ran, rollout
from tests.training.rl.support import group

from saccade.errors import TrainingError
from saccade.record.task import Task
from saccade.rewards.judges.verdict import JudgeVerdict, NoVerdict
from saccade.rewards.registry import load_reward
from saccade.rewards.reward import RewardGroup
from saccade.training.rl.metrics import StepTiming, UpdateMetrics, rollout_metrics
from saccade.training.rl.recipe import Recipe
from saccade.training.rl.rollout import Rollout, RolloutGroup
from saccade.training.rl.step import StepResult, Trainer, check_judged, check_lost
from saccade.training.rl.tasks import TaskList


class Given(Trainer):
    """Rolls out what it is given, round by round, and trains on nothing; notes the places of each round."""

    def __init__(self, rounds: Sequence[list[RolloutGroup]], recipe: Recipe) -> None:
        one: Any = SimpleNamespace(share=list, all_sum=list)
        model = SimpleNamespace(eval=lambda: None)
        learner = SimpleNamespace(processes=one, trained=SimpleNamespace(model=model), learning_rate=0.0)
        updater: Any = SimpleNamespace(learner=learner, update=self.hear)
        resources: Any = SimpleNamespace(store=None, engine=SimpleNamespace(in_process=True))
        given: Any = None
        super().__init__(recipe, given, resources, given, given, updater)
        object.__setattr__(self, "left", list(rounds))
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "heard", [])

    def hear(self, rollouts: list[Rollout], number: int) -> UpdateMetrics:
        self.heard.append(rollouts)  # type: ignore[attr-defined]
        return UpdateMetrics()

    async def roll_out(self, tasks: Mapping[int, Task], timing: StepTiming) -> Any:
        self.asked.append(list(tasks))  # type: ignore[attr-defined]
        return self.left.pop(0)  # type: ignore[attr-defined]

    async def score(self, own: Any, timing: StepTiming, *, trained_on: bool = True) -> list[RolloutGroup]:
        return own  # type: ignore[no-any-return]


def recipe(**more: Any) -> Recipe:
    return Recipe.model_validate({"dialect": "direct", "reward": {"preset": "pyvision-rl@1:paper"}, **more})


async def step(trainer: Trainer, cursor: int = 0) -> StepResult:
    return await trainer.step(0, TaskList(("a", "b"), lambda name, store: TASK), cursor)


def test_updates_add_up_and_the_largest_difference_stays() -> None:
    sums = UpdateMetrics()
    assert set(astuple(sums)) == set(astuple(StepTiming())) == {0}
    for largest in (0.5, 0.25):
        sums.add(UpdateMetrics(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, largest, 1))
    assert astuple(sums) == (2, 4, 6, 8, 10, 12, 0.5, 2)


def test_lost_rollouts_count_in_no_mean() -> None:
    found = rollout_metrics(group("a", [1.0, 0.5, 0.25, None], lost=[2]).rollouts)
    assert (found["lost"], found["reward"]) == (1, 0.75)
    assert rollout_metrics(group("a", [1.0], lost=[0]).rollouts).get("reward") is None


async def test_rounds_continue_until_there_is_enough() -> None:
    given = recipe(
        selection={"rule": "oversample-filter-rank", "groups": 2}, rounds={"tasks": 3, "groups": 2, "rounds": 4}
    )
    first, second = [group("a", [0, 1]), group("b", [1, 1])], [group("c", [0, 1])]
    trainer: Any = Given([first, second, []], given)
    made = await step(trainer, 5)
    assert trainer.asked == [[5, 6, 7], [8, 9, 10]]
    assert made.cursor == 11
    assert [item.id for item in trainer.heard[0]] == ["a#0", "a#1", "c#0", "c#1"]
    assert [item.id for item in made.rollouts] == ["a#0", "a#1", "b#0", "b#1", "c#0", "c#1"]
    assert [item.advantage is not None for item in made.rollouts] == [True, True, False, False, True, True]
    assert (made.metrics["trained_rollouts"], made.metrics["dropped/no_spread"]) == (4, 2)


async def test_rollouts_are_given_back_in_the_order_of_their_tasks_however_they_are_ranked() -> None:
    given = recipe(selection={"rule": "oversample-filter-rank"}, rounds={"groups": 2, "rounds": 1})
    trainer: Any = Given([[group("narrow", [0, 0.1]), group("wide", [0, 1])]], given)
    made = await step(trainer)
    assert [item.id for item in trainer.heard[0]] == ["wide#0", "wide#1", "narrow#0", "narrow#1"]
    assert [item.id for item in made.rollouts] == ["narrow#0", "narrow#1", "wide#0", "wide#1"]
    assert all(item.advantage is not None for item in made.rollouts)


async def test_rounds_always_end() -> None:
    given = recipe(selection={"rule": "oversample-filter-rank"}, rounds={"rounds": 3})
    trainer: Any = Given([[group(str(number), [0, 0])] for number in range(5)], given)
    await step(trainer)
    assert len(trainer.asked) == 3
    assert trainer.heard == [[]]


async def test_the_default_step_asks_for_32_tasks_three_times_until_16_groups_are_enough() -> None:
    rounds = [[group(f"{number}-{n}", [0, 1]) for n in range(5)] for number in range(5)]
    trainer: Any = Given(rounds, recipe(selection={"rule": "dynamic-sampling"}))
    await step(trainer)
    assert [len(places) for places in trainer.asked] == [32, 32, 32]
    assert len(trainer.heard[0]) == 2 * 15
    trainer = Given([[group(str(n), [0, 1]) for n in range(16)]], recipe(selection={"rule": "dynamic-sampling"}))
    await step(trainer)
    assert len(trainer.asked) == 1


async def test_a_single_round_is_enough_or_short() -> None:
    limits = {"groups": 1, "rounds": 1}
    for given in ([group("a", [0, 1])], [group("a", [None]), group("b", [1])]):
        trainer: Any = Given([given], recipe(rounds=limits))
        await step(trainer)
        assert len(trainer.asked) == 1


async def test_a_round_brings_new_tasks() -> None:
    again = [[group("a", [0, 1])], [group("a", [0, 1])]]
    with pytest.raises(ValueError, match="two groups share an id"):
        await step(Given(again, recipe(rounds={"groups": 2})))


def test_a_step_of_nothing_but_outages_ends_the_run() -> None:
    with pytest.raises(TrainingError, match="every rollout of a step was lost"):
        check_lost([group("a", [None, None], lost=[0, 1])])
    check_lost([group("a", [None, 1], lost=[0])])


def judged(*verdicts: JudgeVerdict) -> list[RolloutGroup]:
    played = [rollout(ran("crop()", "a"), answered(), task=SEARCH, id=f"r{number}") for number in range(len(verdicts))]
    rewards = load_reward("codev@1:paper")(RewardGroup(tuple(played), tuple((verdict, None) for verdict in verdicts)))
    return [
        RolloutGroup("g", tuple(Rollout(item, reward=reward) for item, reward in zip(played, rewards, strict=True)))
    ]


def test_a_step_without_any_verdict_ends_the_run() -> None:
    for reason in (NoVerdict.OUTAGE, NoVerdict.REFUSED, NoVerdict.MALFORMED):
        none = JudgeVerdict(invalid=reason)
        with pytest.raises(TrainingError, match=f"no verdict.*{reason.value}"):
            check_judged(judged(none, none))
        check_judged(judged(none, JudgeVerdict(score=0.5)))
    check_judged(judged(JudgeVerdict(invalid=NoVerdict.NOT_ASKED)))
