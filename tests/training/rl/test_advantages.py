"""Advantages: numbers worked by hand, and what holds for any rewards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.training.rl.support import group

from saccade.rewards.reward import TurnPart
from saccade.tokens.segments import SegmentKind, TokenSegment, TokenTrajectory
from saccade.training.rl.metrics import StepTiming, UpdateMetrics, step_metrics
from saccade.training.rl.rollout import (
    Array,
    Rollout,
    RolloutGroup,
    as_returns,
    batch_normalised,
    leave_one_out,
    mean_baseline,
    per_token,
    standardised,
)
from saccade.training.rl.select import Grpo, KeepAll, OversampleFilterRank, Rloo, Selection, TurnLevel


def sequences(rollouts: list[Rollout]) -> list[float]:
    return [item.advantage.sequence for item in rollouts]


def with_returns(given: RolloutGroup, part: str, values: list[tuple[float | None, ...]]) -> RolloutGroup:
    """The group with a part of the turns in each reward."""
    rollouts = (
        replace(item, reward=item.reward.model_copy(update={"turns": (TurnPart(name=part, values=row),)}))
        for item, row in zip(given.rollouts, values, strict=True)
    )
    return RolloutGroup(given.id, tuple(rollouts))


ESTIMATES = [mean_baseline, standardised, leave_one_out]
each_estimate = pytest.mark.parametrize("estimate", ESTIMATES)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Array, np.ndarray]:  # type: ignore[type-arg]
    size = draw(st.integers(1, 12))
    rewards = draw(st.lists(st.floats(-5, 5), min_size=size, max_size=size))
    groups = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    return np.array(rewards), np.array(groups)


def test_by_hand() -> None:
    rewards, groups = np.array([1.0, 0.0, 0.0, 1.0, 3.0]), np.array([7, 7, 7, 7, 2])
    assert mean_baseline(rewards, groups) == pytest.approx([0.5, -0.5, -0.5, 0.5, 0])
    # Standard deviation with one degree of freedom: sqrt(1/3).
    assert standardised(rewards, groups) == pytest.approx([0.8660, -0.8660, -0.8660, 0.8660, 0], abs=1e-4)
    assert leave_one_out(rewards, groups) == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3, 0])


@each_estimate
@given(batch=batches())
def test_sums_to_zero_in_each_group(estimate, batch) -> None:  # type: ignore[no-untyped-def]
    rewards, groups = batch
    advantages = estimate(rewards, groups)
    for number in set(groups):
        assert advantages[groups == number].sum() == pytest.approx(0, abs=1e-6)


@each_estimate
@given(batch=batches(), shift=st.floats(-3, 3), scale=st.floats(0.5, 4))
def test_shift_and_scale(estimate, batch, shift: float, scale: float) -> None:  # type: ignore[no-untyped-def]
    rewards, groups = np.round(batch[0], 2), batch[1]
    plain = estimate(rewards, groups)
    assert estimate(rewards + shift, groups) == pytest.approx(plain, abs=1e-6)
    factor = 1 if estimate is standardised else scale
    assert estimate(scale * rewards, groups) == pytest.approx(factor * plain, abs=2e-3)


@each_estimate
@given(batch=batches(), seed=st.integers(0, 99))
def test_permutations_permute(estimate, batch, seed: int) -> None:  # type: ignore[no-untyped-def]
    rewards, groups = batch
    order = np.random.default_rng(seed).permutation(len(rewards))
    assert estimate(rewards[order], groups[order]) == pytest.approx(estimate(rewards, groups)[order], abs=1e-9)


@each_estimate
def test_equal_rewards_give_zero_and_bad_ones_are_refused(estimate) -> None:  # type: ignore[no-untyped-def]
    assert estimate(np.full(4, 0.7), np.zeros(4, np.int64)) == pytest.approx(np.zeros(4))
    with pytest.raises(ValueError, match="finite"):
        estimate(np.array([np.nan, 1]), np.array([0, 0]))
    with pytest.raises(ValueError, match="shapes"):
        estimate(np.array([1.0]), np.array([0, 0]))


def test_turn_terms_by_hand() -> None:
    # All known returns: -0.5, 0, -0.1, -0.5; mean -0.275, population deviation 0.22776.
    rows = [as_returns([-0.5, 0, None]), as_returns([-0.1, -0.5, None]), as_returns([None])]
    first, second, third = batch_normalised(rows)
    assert first == pytest.approx([-0.98788, 1.20742, 0], abs=1e-4)
    assert second == pytest.approx([0.76836, -0.98788, 0], abs=1e-4)
    assert third == pytest.approx([0])


@given(st.lists(st.lists(st.one_of(st.none(), st.floats(-1, 0)), max_size=4), max_size=5))
def test_turn_terms_sum_to_zero_over_the_batch(values: list[list[float | None]]) -> None:
    terms = batch_normalised([as_returns(row) for row in values])
    assert [len(term) for term in terms] == [len(row) for row in values]
    assert sum(float(term.sum()) for term in terms) == pytest.approx(0, abs=1e-6)
    for row, term in zip(values, terms, strict=True):
        assert all(number == 0 for value, number in zip(row, term, strict=True) if value is None)


def test_tokens_get_the_term_of_their_turn_and_observations_get_nothing() -> None:
    turns = np.array([-1, 0, 0, -1, -1, 1, -1])
    tokens = per_token(1.0, turns, np.array([0.5, -0.25]))
    assert tokens == pytest.approx([0, 1.5, 1.5, 0, 0, 0.75, 0])
    assert per_token(1.0, turns) == pytest.approx([0, 1, 1, 0, 0, 1, 0])
    with pytest.raises(ValueError, match="turn 1"):
        per_token(1.0, turns, np.array([0.5]))


def test_rules_name_every_kept_rollout_once() -> None:
    selection = KeepAll()([group("a", [1, 0, 0, 1]), group("b", [2, 0])])
    made = Grpo(divide_by_std=False)(selection)
    assert [item.id for item in made] == [item.id for group in selection.kept for item in group.kept]
    assert sequences(made) == pytest.approx([0.5, -0.5, -0.5, 0.5, 1, -1])
    assert sequences(Rloo()(selection))[4:] == pytest.approx([2, -2])


def test_turn_level_adds_a_fifth_of_the_term() -> None:
    tokens = TokenTrajectory(
        "a",
        (
            TokenSegment(SegmentKind.PROMPT, ()),
            TokenSegment(SegmentKind.SAMPLED, (1,), turn=0),
            TokenSegment(SegmentKind.OBSERVATION, (2,)),
            TokenSegment(SegmentKind.SAMPLED, (3,), turn=1),
        ),
    )
    given = with_returns(group("a", [1, 0]), "returns", [(-0.5, None), (0.0, None)])
    first, second = TurnLevel()(KeepAll()([given]))
    assert first.advantage.turns == pytest.approx([-0.2, 0], abs=1e-5)
    assert second.advantage.turns == pytest.approx([0.2, 0], abs=1e-5)
    played = replace(first, tokens=tokens)
    assert played.token_advantages() == pytest.approx([0.70711 - 0.2, 0, 0.70711], abs=1e-4)


def test_a_millionth_beside_the_deviation() -> None:
    # Deviations of 1e-6: sqrt(2)/2 of the difference with one degree of freedom, half of it with none.
    rewards = np.array([0.0, np.sqrt(2) * 1e-6])
    assert standardised(rewards, np.zeros(2, np.int64)) == pytest.approx([-np.sqrt(2) / 4, np.sqrt(2) / 4])
    (terms,) = batch_normalised([np.array([0.0, 2e-6])])
    assert terms == pytest.approx([-0.5, 0.5])
    assert standardised(rewards, np.zeros(2, np.int64), epsilon=0.0) == pytest.approx([-np.sqrt(0.5), np.sqrt(0.5)])


def test_no_turn_at_all() -> None:
    assert batch_normalised([]) == []
    first, second = batch_normalised([as_returns([None, None]), as_returns([])])
    assert first.tolist() == [0, 0]
    assert second.tolist() == []
    assert per_token(1.0, np.array([], np.int64), np.array([0.5])).tolist() == []
    assert per_token(1.0, np.array([-1, -1]), np.array([])).tolist() == [0, 0]
    assert per_token(2.0, np.array([0, -1]), np.array([0.25])).tolist() == [2.25, 0]


@pytest.mark.parametrize(
    ("rule", "kept", "by_group"),
    [
        # Rewards 1, 0, 1 and a broken 0; a lost one counts nowhere. Means 2/3 and 1/2.
        (Grpo(divide_by_std=False), [1 / 3, -2 / 3, 1 / 3], [0.5, -0.5, 0.5]),
        (Rloo(), [0.5, -1.0, 0.5], [2 / 3, -2 / 3, 2 / 3]),
        (Grpo(), [0.57735, -1.15470, 0.57735], [0.86603, -0.86603, 0.86603]),
    ],
)
def test_the_baseline_is_of_what_is_kept_or_of_the_usable_group(
    rule: Rloo | Grpo, kept: list[float], by_group: list[float]
) -> None:
    selection = OversampleFilterRank()([group("a", [1, 0, 1, 0, 7, None], broken=[3], lost=[4])])
    assert [item.id for item in selection.rollouts] == ["a#0", "a#1", "a#2"]
    for more, expected in (({}, kept), ({"baseline": "group"}, by_group)):
        made = rule.model_copy(update=more)(selection)
        assert [item.id for item in made] == ["a#0", "a#1", "a#2"]
        assert sequences(made) == pytest.approx(expected, abs=1e-4)
        assert all(item.advantage.turns is None for item in made)


def test_turn_level_takes_its_part_weight_and_baseline_from_the_settings() -> None:
    given = with_returns(group("a", [2, 0, 0], broken=[2]), "mine", [(3.0,), (1.0,), (9.0,)])
    selection = OversampleFilterRank()([given])
    rule = TurnLevel(weight=0.5, part="mine", divide_by_std=False, baseline="group")
    first, second = rule(selection)
    assert sequences([first, second]) == pytest.approx((4 / 3, -2 / 3))
    assert first.advantage.turns == pytest.approx([0.5], abs=1e-5)
    assert second.advantage.turns == pytest.approx([-0.5], abs=1e-5)
    assert sequences(rule.model_copy(update={"baseline": "kept"})(selection))[0] == pytest.approx(1.0)
    with pytest.raises(KeyError):
        TurnLevel()(selection)


def test_the_distribution_of_a_steps_advantages_is_logged() -> None:
    worth = [-1.0, -0.5, 0.0, 0.5, 1.0, 0.0]
    rollouts = [item.with_advantage(value) for item, value in zip(group("g", [0.0] * 6).rollouts, worth, strict=True)]
    numbers = step_metrics(rollouts, Selection(), UpdateMetrics(), StepTiming(), 1e-6)
    # By hand, sorted -1, -0.5, 0, 0, 0.5, 1: the places 5 * 10 // 100 = 0, 2 and 4; variance 2.5 / 6.
    assert [numbers[f"advantage/{part}%"] for part in (10, 50, 90)] == [-1.0, 0.0, 0.5]
    assert numbers["advantage/spread"] == pytest.approx((2.5 / 6) ** 0.5)
    unselected = step_metrics(group("g", [0.0]).rollouts, Selection(), UpdateMetrics(), StepTiming(), 1e-6)
    assert not any(name.startswith("advantage") for name in unselected)
