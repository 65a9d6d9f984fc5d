"""When a step stops asking for rollouts, how it turns them into updates, and when it ends the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.rewards.rollouts import SEARCH, TASK, answered, ran
from tests.rewards.rollouts import rollout as trajectory
from tests.training.rl.support import group, rollout
from tests.training.rl.train.support import metrics, rl_settings, toy

from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import TrainingError
from saccade.record.codec import read_lines, write_lines
from saccade.record.execution import Status
from saccade.record.task import RewardParameter
from saccade.record.trajectory import Trajectory, total
from saccade.rewards.reward import JudgeVerdict, NoVerdict, RewardGroup, load_reward
from saccade.training.rl.metrics import ADVANTAGE, UpdateMetrics, open_rollout_store, rollout_metrics, with_worth
from saccade.training.rl.recipe import Recipe, RewardSettings
from saccade.training.rl.rollout import Rollout, RolloutGroup, group_of, per_token
from saccade.training.rl.run import train
from saccade.training.rl.scoring import AnswerGrading, Scorer, accuracy_alone
from saccade.training.rl.select import KeepAll, TurnLevel
from saccade.training.rl.step import Updater, check_judged, check_lost


def recipe(**more: Any) -> Recipe:
    return Recipe.model_validate({"dialect": "direct", "reward": {"preset": "pyvision-rl@1:paper"}, **more})


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

    def gradient(self, rollouts: Sequence[Rollout], old: object) -> UpdateMetrics:
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


def test_the_parts_of_reward_and_advantage_are_on_the_rollout() -> None:
    good = trajectory(ran("a", "a"), answered(), id="good")
    bad = trajectory(ran("b", status=Status.ERROR), ran("c", "c"), answered("blue"), correct=0.0, id="bad")
    rewards = load_reward("codedance@1:paper")(RewardGroup((good, bad)))
    scored = [Rollout(item, reward=reward) for item, reward in zip((good, bad), rewards, strict=True)]
    found = {item.id: item for item in TurnLevel()(KeepAll()([group_of(scored)]))}
    kept = {name: with_worth(item) for name, item in found.items()}

    scores = {score.name: score for score in kept["bad"].scores}
    assert total(kept["bad"].scores) == pytest.approx(rewards[1].total)
    assert (scores["correct"].value, scores["correct"].weight) == (0.0, 0.0)
    assert scores["reward.returns.turns"].detail == "turn 1: -0.5, turn 2: +0, turn 3: none"
    # Of the returns 0, -0.5 and 0 the mean is -1/6 and the deviation 0.2357: z = -1.4142 and 0.7071, times 0.2.
    assert scores[ADVANTAGE].value == pytest.approx(-0.7071, abs=1e-4)
    assert scores[ADVANTAGE].detail == "turn 1: -0.9899, turn 2: -0.5657, turn 3: -0.7071"
    advantage = found["bad"].advantage
    tokens = per_token(advantage.sequence, np.array([0, -1, 1, 2]), advantage.turns)
    assert tokens.round(4).tolist() == [-0.9899, 0.0, -0.5657, -0.7071]
    assert {score.name: score for score in kept["good"].scores}[ADVANTAGE].detail == "turn 1: +0.8485, turn 2: +0.7071"


def test_what_was_not_trained_on_has_no_advantage_and_a_sequence_alone_no_turns() -> None:
    item = trajectory(ran("a", "a"), answered())
    [reward] = load_reward("pyvision-rl@1:paper")(RewardGroup((item,)))
    scored = Rollout(item, reward=reward)
    assert ADVANTAGE not in {score.name for score in with_worth(scored).scores}
    plain = with_worth(scored.with_advantage(0.25)).scores[-1]
    assert (plain.name, plain.value, plain.detail) == (ADVANTAGE, 0.25, "")


def test_a_resumed_run_keeps_what_came_before_the_cursor_and_no_torn_line(tmp_path: Path) -> None:
    before, after = (
        trajectory(answered(), id=f"r{place}").model_copy(update={"group": f"t@{place}"}) for place in (1, 2)
    )
    file = tmp_path / TRAJECTORIES
    write_lines(file, [after, before])
    with file.open("ab") as lines:
        lines.write(b'{"schema_version":1,"id":"r3","gro')
    assert "r1" in open_rollout_store(tmp_path, cursor=2)
    assert list(read_lines(file, Trajectory)) == [before]


TOKENS: Any = object()  # only whether there are any is looked at
DEEP = RewardSettings(preset="deepeyes@1:repo")

SCORER = Scorer(
    load_reward(DEEP.preset), preset_of=lambda task: DEEP.load_with((), {own.name: own.value for own in task.reward})
)


def played(answer: str, name: str, **task: Any) -> Rollout:
    return Rollout(trajectory(ran("a", "a"), answered(answer), task=TASK.model_copy(update=task), id=name), TOKENS)


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
