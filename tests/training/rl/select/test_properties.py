"""What holds for every rule and any groups."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.rl.support import group, groups

from saccade.training.rl.rollout import RolloutGroup
from saccade.training.rl.select import (
    TAIL_PATCH,
    UNSOLVED_MOSTLY,
    Band,
    DynamicSampling,
    KeepAll,
    OversampleFilterRank,
    PassRateBand,
    RepoRank,
    SelectionRule,
    epoch_order,
    in_band,
    pass_rates,
)

RULES: list[SelectionRule] = [
    KeepAll(),
    PassRateBand(lowest=0.1, highest=0.9),
    OversampleFilterRank(groups=2),
    OversampleFilterRank(groups=2, broken="rollout", tolerance=0),
    RepoRank(rollouts=5),
    DynamicSampling(groups=2),
    DynamicSampling(groups=2, by="reward"),
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)


@each_rule
@given(given_groups=groups())
def test_every_rollout_has_one_fate_and_stays_with_its_group(
    rule: SelectionRule, given_groups: list[RolloutGroup]
) -> None:
    chosen = rule(given_groups)
    assert sorted(item.id for item in (*chosen.rollouts, *chosen.dropped)) == sorted(
        item.id for group in given_groups for item in group.rollouts
    )
    unmarked = {group.id: tuple(replace(item, dropped=None) for item in group.rollouts) for group in chosen.groups}
    assert unmarked == {group.id: group.rollouts for group in given_groups}


@each_rule
@given(given_groups=groups())
def test_nothing_lost_or_unscored_is_kept(rule: SelectionRule, given_groups: list[RolloutGroup]) -> None:
    chosen = rule(given_groups)
    assert all(rollout.usable for rollout in chosen.rollouts)
    for left in chosen.kept:
        assert left.kept
        assert all(item in chosen.rollouts for item in left.kept)


@each_rule
@settings(max_examples=30, deadline=None)
@given(given_groups=groups())
def test_deterministic(rule: SelectionRule, given_groups: list[RolloutGroup]) -> None:
    assert rule(given_groups) == rule(list(given_groups))


@given(given_groups=groups(), order=st.randoms(use_true_random=False))
def test_ranking_by_spread_ignores_the_order_but_for_ties(given_groups: list[RolloutGroup], order: object) -> None:
    rule = OversampleFilterRank(groups=3)
    spreads = [round(item.spread, 9) for item in rule(given_groups).kept]
    shuffled = list(given_groups)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert [round(item.spread, 9) for item in rule(shuffled).kept] == spreads
    assert spreads == sorted(spreads, reverse=True)


def test_tail_patch_is_one_to_three_of_eight() -> None:
    tried = [group(str(right), [1.0] * right + [0.0] * (8 - right)) for right in range(9)]
    rates = pass_rates(tried)
    assert in_band(rates, TAIL_PATCH) == ("1", "2", "3")
    assert in_band(rates, Band(highest=0.9, fewest=8)) == tuple("01234567")
    assert in_band(rates, Band(fewest=9)) == ()
    assert pass_rates([group("none", [None])]) == {}


def test_epochs_are_shuffled_by_seed_and_epoch_alone() -> None:
    tasks = [str(number) for number in range(20)]
    first = epoch_order(tasks, 1, 0)
    assert first == epoch_order(reversed(tasks), 1, 0)
    assert sorted(first) == sorted(tasks)
    assert len({first, epoch_order(tasks, 1, 1), epoch_order(tasks, 2, 0)}) == 3


def test_bands_of_the_curriculum() -> None:
    rates = {"none": (0.0, 1), "half": (0.5, 1), "all": (1.0, 1)}
    assert in_band(rates, Band()) == ("none", "half", "all")
    assert in_band(rates, Band(lowest=0.5, highest=0.5)) == ("half",)
    assert in_band(rates, Band(fewest=2)) == ()
    with pytest.raises(ValueError, match=r"lowest \(0.6\) is above highest \(0.5\)"):
        Band(lowest=0.6, highest=0.5)
    counted = pass_rates([group("a", [1, 0, None, 1], lost=[3])])
    assert counted == {"a": (0.5, 2)}
    assert in_band(counted, Band(fewest=2)) == ("a",)
    # Nine of ten samples right is not more than 0.9; seven samples say too little.
    tried = {"nine": (0.9, 10), "few": (0.5, 7), "eight": (0.5, 8), "all": (1.0, 8)}
    assert in_band(tried, UNSOLVED_MOSTLY) == ("nine", "eight")
