"""When a step stops asking for rollouts, how it turns them into updates, and when it ends the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rewards.rollouts import SEARCH, answered, ran
from tests.rewards.rollouts import rollout as trajectory
from tests.training.rl.support import group, rollout
from tests.training.rl.train.support import metrics, rl_settings, toy

from saccade.errors import TrainingError
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.verdict import JudgeVerdict, NoVerdict
from saccade.rewards.registry import load_reward
from saccade.rewards.reward import RewardGroup
from saccade.training.rl.metrics import StepTiming, UpdateMetrics, rollout_metrics
from saccade.training.rl.recipe import Recipe
from saccade.training.rl.rollout import Rollout, RolloutGroup
from saccade.training.rl.run import train
from saccade.training.rl.step import Updater, check_judged, check_lost


def recipe(**more: Any) -> Recipe:
    return Recipe.model_validate({"dialect": "direct", "reward": {"preset": "pyvision-rl@1:paper"}, **more})


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


@pytest.mark.parametrize(
    ("selection", "places", "updates"),
    [
        # Everything counts, so two rounds of one task are the two groups that are enough.
        ({"rule": "none"}, [0, 1], 1),
        # Noise is never right, so no group is ever enough, and the last round ends the step without an update.
        ({"rule": "pass-rate", "lowest": 0.5}, [0, 1, 2], 0),
        ({"rule": "oversample-filter-rank", "groups": 2}, [0, 1], 1),
    ],
)
def test_rounds_bring_new_tasks_until_groups_are_enough_or_rounds_are_over(
    selection: dict[str, Any],
    places: list[int],
    updates: int,
    tiny: Path,
    tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy(monkeypatch, talkative=True)
    rounds = {"tasks": 1, "groups": 2, "rounds": 3}
    train(rl_settings(tiny, tasks, recipe={"selection": selection, "rounds": rounds, "steps": 2}), tmp_path)
    kept = list(read_lines(tmp_path / "rollouts" / "trajectories.jsonl", Trajectory))
    assert len({item.id for item in kept}) == len(kept)
    found = [int(item.group.rpartition("@")[2]) for item in kept]
    everything = [*places, *(place + len(places) for place in places)]
    assert found == [place for place in everything for _ in range(4)], "in the order of tasks, however they are ranked"
    assert [line["updates"] for line in metrics(tmp_path)] == [updates] * 2


class Noted(Updater):
    """Notes what it updates with; an update's loss is its number, its difference a tenth of it."""

    def gradient(self, rollouts: Sequence[Rollout]) -> UpdateMetrics:
        notes: Any = self.learner
        notes.batches.append([item.id for item in rollouts])
        number = len(notes.batches)
        return UpdateMetrics(float(number), 10.0 * number, 2.0, 1.0, 0.5, 0.25, number / 10, 1)


def updater(most: float = 0.1, train_mode: bool = False, **optimizer: Any) -> tuple[Noted, Any]:
    notes: Any = SimpleNamespace(batches=[], factors=[], modes=[], forgotten=0)
    notes.trained = SimpleNamespace(model=SimpleNamespace(train=notes.modes.append))
    notes.step = notes.factors.append

    def zero_grad() -> None:
        notes.forgotten += 1

    notes.zero_grad = zero_grad
    return Noted(notes, Any, recipe(optimizer=optimizer), None, 100, most, train_mode), notes  # type: ignore[arg-type]


ROLLOUTS = [rollout(f"r{number}", 1.0) for number in range(5)]
NAMES = [item.id for item in ROLLOUTS]


def test_updates_are_counted_and_averaged_and_only_the_first_is_compared() -> None:
    made, notes = updater(updates=2, epochs=2, warmup_steps=4, train_mode=True)
    sums = made.update(ROLLOUTS, 1)
    assert (sums.updates, sums.loss, sums.gradient_norm) == (4, 2.5, 25.0)
    assert (sums.tokens, sums.clipped, sums.kl, sums.entropy, sums.max_logprob_diff) == (8, 4, 2, 1, 0.1)
    assert notes.factors == [0.5] * 4
    assert notes.modes == [True]
    assert [len(batch) for batch in notes.batches] == [3, 2, 3, 2]
    first, second = notes.batches[0] + notes.batches[1], notes.batches[2] + notes.batches[3]
    assert sorted(first) == sorted(second) == NAMES
    assert len({tuple(NAMES), tuple(first), tuple(second)}) == 3


@pytest.mark.parametrize(
    ("number", "warmup", "factor"), [(0, 4, 0.25), (3, 4, 1.0), (9, 4, 1.0), (0, 0, 1.0), (0, 1, 1.0)]
)
def test_the_learning_rate_warms_up(number: int, warmup: int, factor: float) -> None:
    made, notes = updater(warmup_steps=warmup)
    made.update(ROLLOUTS, number)
    assert notes.factors == [factor]
    assert notes.batches == [NAMES], "one update takes them as they are"
    assert notes.modes == [False]


def test_the_order_of_several_updates_follows_from_seed_and_step() -> None:
    orders = []
    for number in (0, 0, 1):
        made, notes = updater(updates=1, epochs=2)
        made.update(ROLLOUTS, number)
        orders.append(notes.batches)
    assert orders[0] == orders[1] != orders[2]
    made, notes = updater(updates=3)
    assert made.update(ROLLOUTS[:2], 0).updates == 2
    assert [len(batch) for batch in notes.batches] == [1, 1]
    made, notes = updater(updates=3)
    nothing = made.update([], 0)
    assert (nothing.updates, nothing.loss, nothing.gradient_norm, notes.factors) == (0, 0, 0, [])


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        (UpdateMetrics(max_logprob_diff=0.11), "differs by 0.11 .* at most 0.1 is allowed"),
        (UpdateMetrics(loss=float("nan")), "a loss of nan and a gradient of norm 0"),
        (UpdateMetrics(gradient_norm=float("inf")), "a gradient of norm inf"),
        (UpdateMetrics(max_logprob_diff=0.1), ""),
    ],
)
def test_an_update_that_must_not_be_made_is_forgotten(metrics: UpdateMetrics, why: str) -> None:
    made, notes = updater()
    if why:
        with pytest.raises(TrainingError, match=why):
            made.check(metrics)
    else:
        made.check(metrics)
    assert notes.forgotten == bool(why)


def test_a_step_of_nothing_but_outages_ends_the_run() -> None:
    with pytest.raises(TrainingError, match="every rollout of a step was lost"):
        check_lost([group("a", [None, None], lost=[0, 1])])
    check_lost([group("a", [None, 1], lost=[0])])


def judged(*verdicts: JudgeVerdict) -> list[RolloutGroup]:
    played = [
        trajectory(ran("crop()", "a"), answered(), task=SEARCH, id=f"r{number}") for number in range(len(verdicts))
    ]
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
