"""What holds for every rule and any groups."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rl.support import group, groups

from saccade.rl.groups import RolloutGroup
from saccade.rl.select.curriculum import TAIL_PATCH, UNSOLVED_MOSTLY, Band, epoch_order, in_band, pass_rates
from saccade.rl.select.dynamic import DynamicSampling
from saccade.rl.select.oversample import OversampleFilterRank, RepoRank
from saccade.rl.select.plain import KeepAll, PassRateBand
from saccade.rl.select.rounds import Generate, Ready, RoundLimits, Rounds, Short, decide
from saccade.rl.select.selection import SelectionRule

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
@settings(max_examples=60, deadline=None)
@given(given_groups=groups())
def test_every_rollout_has_one_fate_and_stays_with_its_group(
    rule: SelectionRule, given_groups: list[RolloutGroup]
) -> None:
    chosen = rule(given_groups)
    members = {item.id: group.id for group in given_groups for item in group.rollouts}
    kept = [(item.group.id, name) for item in chosen.kept for name in item.ids]
    fates = kept + [(item.group, item.id) for item in chosen.dropped]
    assert sorted(fates) == sorted((group, name) for name, group in members.items())


@each_rule
@settings(max_examples=60, deadline=None)
@given(given_groups=groups())
def test_nothing_lost_or_unscored_is_kept(rule: SelectionRule, given_groups: list[RolloutGroup]) -> None:
    for item in rule(given_groups).kept:
        assert item.ids
        assert all(rollout.usable for rollout in item.rollouts)
        assert item.group in given_groups


@each_rule
@settings(max_examples=30, deadline=None)
@given(given_groups=groups())
def test_deterministic(rule: SelectionRule, given_groups: list[RolloutGroup]) -> None:
    assert rule(given_groups) == rule(list(given_groups))


@settings(max_examples=60, deadline=None)
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


def test_rounds_go_on_until_there_is_enough() -> None:
    rule, limits = OversampleFilterRank(groups=2), RoundLimits(tasks=3, groups=2, rounds=4)
    state = Rounds(limits)
    assert decide(state, rule) == Generate(3)
    state = state.with_groups([group("a", [0, 1]), group("b", [1, 1])])
    assert decide(state, rule) == Generate(3)
    state = state.with_groups([group("c", [0, 1])])
    ready = decide(state, rule)
    assert isinstance(ready, Ready)
    assert [item.group.id for item in ready.selection.kept] == ["a", "c"]


def test_rounds_always_end() -> None:
    rule, state = OversampleFilterRank(), Rounds(RoundLimits(rounds=3))
    for number in range(3):
        assert isinstance(decide(state, rule), Generate)
        state = state.with_groups([group(str(number), [0, 0])])
    short = decide(state, rule)
    assert isinstance(short, Short)
    assert len(short.selection) == 0


def test_a_round_brings_new_tasks() -> None:
    state = Rounds(RoundLimits()).with_groups([group("a", [0, 1])])
    with pytest.raises(ValueError, match="before"):
        state.with_groups([group("a", [0, 1])])


def test_the_default_step_asks_for_32_tasks_three_times_until_16_groups_are_enough() -> None:
    rule, state = DynamicSampling(), Rounds(RoundLimits())
    for number in range(3):
        assert decide(state, rule) == Generate(32)
        state = state.with_groups([group(f"{number}-{n}", [0, 1]) for n in range(5)])
    short = decide(state, rule)
    assert isinstance(short, Short)
    assert len(short.selection.kept) == 15
    first = Rounds(RoundLimits()).with_groups([group(str(n), [0, 1]) for n in range(16)])
    assert isinstance(decide(first, rule), Ready)


def test_a_single_round_is_enough_or_short() -> None:
    limits = RoundLimits(groups=1, rounds=1)
    assert isinstance(decide(Rounds(limits).with_groups([group("a", [0, 1])]), KeepAll()), Ready)
    assert isinstance(decide(Rounds(limits).with_groups([]), KeepAll()), Short)


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
