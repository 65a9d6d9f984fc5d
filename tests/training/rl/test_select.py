"""Rules on groups small enough to check by eye, and what holds for every rule and any groups."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rewards.rollouts import answered, lost, ran, wrote
from tests.rewards.rollouts import rollout as trajectory
from tests.training.rl.support import group, groups, renamed, rollout

from saccade.errors import TrainingError
from saccade.record.execution import Status
from saccade.record.trajectory import Broken, Score, StopReason
from saccade.rewards.reward import Reward
from saccade.training.rl.rollout import DropReason, Rollout, RolloutGroup, broken, group_of, spread
from saccade.training.rl.select import (
    TAIL_PATCH,
    Band,
    DynamicSampling,
    KeepAll,
    OversampleFilterRank,
    PassRateBand,
    RepoRank,
    Selection,
    SelectionRule,
    epoch_order,
    in_band,
    pass_rates,
)


def names(selection: Selection) -> list[str]:
    return [group.id for group in selection.kept]


def kept(selection: Selection) -> list[str]:
    return [item.id for item in selection.rollouts]


FLAT = group("flat", [1, 1, 1, 1])
NARROW = group("narrow", [1, 1.1, 1, 1])
WIDE = group("wide", [0, 1, 0, 1])
LEANING = group("leaning", [0, 1, 1, 1])
FOUR = [FLAT, NARROW, LEANING, WIDE]
EQUALS = [RolloutGroup(name, tuple(renamed(r, f"{name}{r.id}") for r in WIDE.rollouts)) for name in "cab"]
PARTLY = group("partly", [0, 1, 1, 1], broken=[0])
WHOLLY = group("wholly", [0, 1], broken=[0, 1])
ROUNDED = group("rounded", [0.1 + 0.2, 0.3])
SILENT = group("silent", [0, 1, 0, 1], pictures=0)
PAIRS = [group("pair", [1, 0]), group("one", [1]), group("left", [1, None])]
RATES = [group("easy", [1] * 8), group("three", [1, 1, 1, 0, 0, 0, 0, 0]), group("hard", [0] * 8)]
HALVES = [group("half", [1, 0]), group("third", [1, 0, 0])]
NO_SPREAD, RANKED_OUT, TOO_FEW = DropReason.NO_SPREAD, DropReason.RANKED_OUT, DropReason.TOO_FEW
UNUSABLE, TOO_EASY, TOO_HARD = DropReason.UNUSABLE, DropReason.TOO_EASY, DropReason.TOO_HARD


@pytest.mark.parametrize(
    ("rule", "given_groups", "left", "reasons"),
    [
        # The paper ranks whole groups by spread, in the given order among equals; without ranking the first are kept.
        (OversampleFilterRank(groups=2), FOUR, ["wide", "leaning"], {NO_SPREAD: 4, RANKED_OUT: 4}),
        (OversampleFilterRank(groups=2), EQUALS, ["c", "a"], {RANKED_OUT: 4}),
        (OversampleFilterRank(groups=2, rank=False), FOUR, ["narrow", "leaning"], {NO_SPREAD: 4, RANKED_OUT: 4}),
        # A group goes if all of it is broken; by default each broken rollout goes, without which nothing may differ.
        (OversampleFilterRank(broken="group"), [PARTLY, WHOLLY], ["partly"], {DropReason.ALL_BROKEN: 2}),
        (OversampleFilterRank(), [PARTLY], [], {DropReason.BROKEN: 1, NO_SPREAD: 3}),
        # Rounding is no spread.
        (OversampleFilterRank(), [ROUNDED], [], {NO_SPREAD: 2}),
        (OversampleFilterRank(tolerance=0), [ROUNDED], ["rounded"], {}),
        (OversampleFilterRank(), [group("shrunk", [1, None, 0], lost=[2])], [], {UNUSABLE: 2, TOO_FEW: 1}),
        (OversampleFilterRank(), PAIRS, ["pair"], {UNUSABLE: 1, TOO_FEW: 2}),
        # The released code filters rollouts, and ranks only a surplus.
        (RepoRank(rollouts=100), [LEANING, SILENT, WIDE], ["leaning", "wide"], {DropReason.NO_PICTURES: 4}),
        (RepoRank(rollouts=6), [LEANING, WIDE], ["wide", "leaning"], {RANKED_OUT: 2}),
        (RepoRank(need_pictures=False), [SILENT], ["silent"], {}),
        (DynamicSampling(groups=1), [FLAT, LEANING, WIDE], ["leaning"], {NO_SPREAD: 4, RANKED_OUT: 4}),
        (DynamicSampling(), [NARROW], [], {NO_SPREAD: 4}),
        (DynamicSampling(by="reward"), [NARROW], ["narrow"], {}),
        # A band has both ends, and may be of one rate.
        (PassRateBand(lowest=0.125, highest=0.375), RATES, ["three"], {TOO_EASY: 8, TOO_HARD: 8}),
        (PassRateBand(), PAIRS, ["pair"], {UNUSABLE: 1, TOO_FEW: 2}),
        (PassRateBand(lowest=0.5, highest=0.5), HALVES, ["half"], {TOO_HARD: 3}),
        (PassRateBand(fewest=3), HALVES, ["third"], {TOO_FEW: 2}),
        (PassRateBand(lowest=0.4), HALVES, ["half"], {TOO_HARD: 3}),
        (PassRateBand(highest=0.4), HALVES, ["third"], {TOO_EASY: 2}),
        (KeepAll(), [FLAT, WIDE], ["flat", "wide"], {}),
        (KeepAll(), [group("x", [None, 1], lost=[1])], [], {UNUSABLE: 2}),
    ],
)
def test_rules_by_hand(
    rule: SelectionRule, given_groups: list[RolloutGroup], left: list[str], reasons: dict[DropReason, int]
) -> None:
    chosen = rule(given_groups)
    assert (names(chosen), chosen.reasons()) == (left, reasons)
    assert len(chosen) == sum(len(item.rollouts) for item in given_groups) - sum(reasons.values())


def test_the_released_code_takes_a_part_of_the_last_group() -> None:
    assert [(item.id, len(item.kept)) for item in RepoRank(rollouts=6)([LEANING, WIDE]).kept] == [
        ("wide", 4),
        ("leaning", 2),
    ]


def test_repo_trains_on_errors_and_not_on_overlong_ones() -> None:
    failed = rollout("wide#0", 0, broken=Broken.EXECUTION_ERROR)
    rollouts = [failed, *group("wide", [0, 1, 0, 1], broken=[1]).rollouts[1:]]
    chosen = RepoRank()([RolloutGroup("wide", tuple(rollouts))])
    assert kept(chosen) == ["wide#0", "wide#2", "wide#3"]
    # Equal rewards are left, but the group had a spread when it was looked at, and keeps its baseline.
    assert len(chosen.kept[0].rollouts) == 4


def test_groups_and_rollouts_are_told_apart_by_id() -> None:
    with pytest.raises(ValueError, match="share an id"):
        KeepAll()([FLAT, FLAT])
    with pytest.raises(ValueError, match="unique"):
        KeepAll()([FLAT, RolloutGroup("other", FLAT.rollouts)])
    with pytest.raises(ValueError, match="share an id"):
        RolloutGroup("a", FLAT.rollouts[:1] * 2)
    with pytest.raises(ValueError, match="above"):
        PassRateBand(lowest=0.5, highest=0.4)


def test_what_breaks_a_rollout_of_the_released_code_is_a_setting() -> None:
    kinds = (Broken.OVER_LENGTH, Broken.OVER_IMAGES, Broken.TIMEOUT, Broken.NO_ACTION)
    broken = [rollout(f"wide#{number}", number % 2, broken=kind) for number, kind in enumerate(kinds)]
    given = [RolloutGroup("wide", tuple(broken))]
    assert kept(RepoRank()(given)) == ["wide#2", "wide#3"]
    assert kept(RepoRank(forbidden=(Broken.TIMEOUT,))(given)) == ["wide#0", "wide#1", "wide#3"]
    assert OversampleFilterRank()(given).reasons() == {DropReason.ALL_BROKEN: 4}


def test_what_is_kept_says_its_rollouts_and_their_spread() -> None:
    shrunk = OversampleFilterRank()([group("a", [1, 0, 5, 0], broken=[2])]).kept[0]
    assert [item.id for item in shrunk.kept] == ["a#0", "a#1", "a#3"]
    assert shrunk.spread == pytest.approx(1 / 3**0.5)  # of 1, 0, 0 with one degree of freedom
    assert len(shrunk.rollouts) == 4


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
    assert in_band(tried, Band(highest=0.9, fewest=8)) == ("nine", "eight")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.TIMEOUT, Broken.TIMEOUT),
        (Status.KILLED, Broken.RUNTIME_DEATH),
        (Status.OUT_OF_MEMORY, Broken.RUNTIME_DEATH),
        (Status.ERROR, Broken.EXECUTION_ERROR),
        (Status.REFUSED, Broken.EXECUTION_ERROR),
    ],
)
def test_broken_kinds(status: Status, kind: Broken) -> None:
    assert broken(trajectory(ran(status=status), answered())) == {kind}


def test_limits_and_no_action_break_but_the_turn_limit_does_not() -> None:
    assert broken(trajectory(ran())) == frozenset()
    assert broken(trajectory(ran(), stop=StopReason.CONTEXT_LIMIT)) == {Broken.OVER_LENGTH}
    assert broken(trajectory(ran(), stop=StopReason.IMAGE_LIMIT)) == {Broken.OVER_IMAGES}
    assert broken(trajectory(wrote("Hm."))) == {Broken.NO_ACTION}


def test_a_lost_rollout_is_lost_and_not_broken() -> None:
    made = Rollout(lost(ran(status=Status.LOST)), reward=Reward(parts=(Score(name="accuracy"),)))
    assert made.lost
    assert not made.usable
    assert made.broken == frozenset()


def test_group_of_trajectories() -> None:
    trajectories = [trajectory(ran("a", "a"), answered(), id=f"t#{n}", correct=n, group="t") for n in (0, 1)]
    rewards = [Reward(parts=(Score(name="accuracy", value=float(n)),)) for n in (0, 1)]
    made = group_of([Rollout(item, reward=reward) for item, reward in zip(trajectories, rewards, strict=True)])
    assert made.id == "t"
    assert [item.reward.total for item in made.rollouts] == [0, 1]
    assert [item.right for item in made.rollouts] == [False, True]
    assert [item.pictures for item in made.rollouts] == [1, 1]
    assert made.pass_rate == 0.5
    other = trajectories[0].model_copy(update={"group": "u"})
    with pytest.raises(TrainingError, match="one name"):
        group_of([Rollout(trajectories[1]), Rollout(other)])


def test_spread_has_one_degree_of_freedom_and_leaves_out_what_is_not_usable() -> None:
    assert spread(group("a", [0, 1]).rollouts) == pytest.approx(0.70710678)
    assert spread(group("a", [0, 1, 1, None, 5], lost=[4]).rollouts) == pytest.approx(0.57735027)
    assert spread(group("a", [3]).rollouts) == 0
