"""How a step turns rollouts into updates, and which rollouts it asks for; no network is run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rewards.rollouts import TASK
from tests.training.rl.support import group, rollout

from saccade.errors import TrainingError
from saccade.training.rl.metrics import StepTiming, UpdateMetrics
from saccade.training.rl.recipe import Recipe
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.rollouts import GenerationSettings, RolloutTiming
from saccade.training.rl.step import Trainer, Updater


def recipe(**more: Any) -> Recipe:
    return Recipe.model_validate({"dialect": "direct", "reward": {"preset": "pyvision-rl@1:paper"}, **more})


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


def trainer(in_process: bool = False, **more: Any) -> tuple[Trainer, list[str]]:
    entered: list[str] = []

    @contextmanager
    def gathered() -> Any:
        entered.append("whole")
        yield

    learner = SimpleNamespace(processes=SimpleNamespace(share=lambda places: list(places)[::2]), gathered=gathered)
    resources: Any = SimpleNamespace(store=None, engine=SimpleNamespace(in_process=in_process))
    one: Any = SimpleNamespace(learner=learner)
    given: Any = None
    return Trainer(recipe(**more), given, resources, GenerationSettings(), given, one), entered


@pytest.mark.parametrize("in_process", [False, True])
async def test_the_rollouts_of_a_step_are_asked_for_under_numbers_used_once(
    in_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, entered = trainer(in_process, rollout={"group_size": 2}, seed=7)
    asked: list[Any] = []

    async def generate(plans: Sequence[Any], *rest: Any) -> tuple[Sequence[Any], RolloutTiming]:
        asked.append((rest[1:], entered[:]))
        return plans, RolloutTiming(5.0, 2.0, 3)

    monkeypatch.setattr("saccade.training.rl.step.generate_rollouts", generate)
    monkeypatch.setattr(
        "saccade.training.rl.step.rollout_plan",
        lambda recipe, dialect, task, number, name, temperature: (task.id, number, name, temperature),
    )
    timing = StepTiming(1.0, 1.0)
    tasks = {place: TASK.model_copy(update={"id": f"t{place}"}) for place in (4, 6)}
    played = await made.roll_out(tasks, timing)
    assert played == [
        [("t4", 8, "t4@4", None), ("t4", 9, "t4@4", None)],
        [("t6", 12, "t6@6", None), ("t6", 13, "t6@6", None)],
    ]
    assert asked == [((GenerationSettings(), 7), ["whole"] * in_process)]
    assert (timing.decoding, timing.sandbox, timing.replayed) == (3.0, 4.0, 3)
    assert isinstance(made.sampling(), nullcontext) is not in_process
    taken = SimpleNamespace(at=lambda place, seed: (place, seed), make=lambda name, store: name)
    assert await made.take(taken, range(4, 8)) == {4: (4, 7), 6: (6, 7)}  # type: ignore[arg-type, comparison-overlap]
    assert made.plan(TASK, 3, "g", temperature=0.5) == ("t", 3, "g", 0.5)  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(("rewards", "updated"), [([1.0, 0.0], True), ([1.0, 1.0], False)])
async def test_servers_rest_before_an_update_and_get_its_weights(
    rewards: list[float], updated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.training.rl.train.test_step import Given, step

    done: list[str] = []

    def noting(name: str) -> Any:
        async def note(engine: Any, learner: Any) -> None:
            done.append(name)

        return note

    monkeypatch.setattr("saccade.training.rl.step.rest_servers", noting("rest"))
    monkeypatch.setattr("saccade.training.rl.step.sync_weights", noting("sync"))

    class Updating(Given):
        def hear(self, rollouts: list[Rollout], number: int) -> UpdateMetrics:
            done.append(f"update {number} with {len(rollouts)}")
            return UpdateMetrics(tokens=7.0, updates=len(rollouts) // 2)

    rules = recipe(rounds={"tasks": 1, "groups": 1, "rounds": 1}, selection={"rule": "dynamic-sampling"})
    result = await step(Updating([[group("a", rewards)]], rules), 3)
    assert done == (["rest", "update 0 with 2", "sync"] if updated else ["update 0 with 0"])
    assert (result.tokens, result.cursor) == (7, 4)
    assert [item.id for item in result.rollouts] == ["a#0", "a#1"]
