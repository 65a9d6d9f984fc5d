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
    UNSOLVED_MOSTLY,
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


def test_paper_ranks_whole_groups_by_spread() -> None:
    chosen = OversampleFilterRank(groups=2)([FLAT, NARROW, LEANING, WIDE])
    assert names(chosen) == ["wide", "leaning"]
    assert chosen.reasons() == {DropReason.NO_SPREAD: 4, DropReason.RANKED_OUT: 4}
    assert len(chosen) == 8


def test_without_ranking_the_first_that_pass_are_kept() -> None:
    chosen = OversampleFilterRank(groups=2, rank=False)([FLAT, NARROW, LEANING, WIDE])
    assert names(chosen) == ["narrow", "leaning"]


def test_paper_keeps_the_given_order_among_equals() -> None:
    copies = [RolloutGroup(name, tuple(renamed(r, f"{name}{r.id}") for r in WIDE.rollouts)) for name in "cab"]
    assert names(OversampleFilterRank(groups=2)(copies)) == ["c", "a"]


def test_paper_drops_a_group_only_if_all_of_it_is_broken() -> None:
    partly = group("partly", [0, 1, 1, 1], broken=[0])
    wholly = group("wholly", [0, 1], broken=[0, 1])
    assert names(OversampleFilterRank(broken="group")([partly, wholly])) == ["partly"]
    assert len(OversampleFilterRank(broken="group")([partly])) == 4
    # By default each broken one goes; without it nothing differs any more.
    chosen = OversampleFilterRank()([partly])
    assert chosen.reasons() == {DropReason.BROKEN: 1, DropReason.NO_SPREAD: 3}


def test_rounding_is_no_spread() -> None:
    rounded = group("rounded", [0.1 + 0.2, 0.3])
    assert rounded.rollouts[0].reward.total != rounded.rollouts[1].reward.total
    assert names(OversampleFilterRank()([rounded])) == []
    assert names(OversampleFilterRank(tolerance=0)([rounded])) == ["rounded"]


def test_a_group_that_shrank_to_one_is_gone() -> None:
    shrunk = group("shrunk", [1, None, 0], lost=[2])
    assert OversampleFilterRank()([shrunk]).reasons() == {DropReason.UNUSABLE: 2, DropReason.TOO_FEW: 1}


def test_repo_filters_rollouts_and_ranks_only_a_surplus() -> None:
    silent = group("silent", [0, 1, 0, 1], pictures=0)
    chosen = RepoRank(rollouts=100)([LEANING, silent, WIDE])
    assert names(chosen) == ["leaning", "wide"]
    assert chosen.reasons() == {DropReason.NO_PICTURES: 4}
    cut = RepoRank(rollouts=6)([LEANING, WIDE])
    assert [(item.id, len(item.kept)) for item in cut.kept] == [("wide", 4), ("leaning", 2)]
    assert cut.reasons() == {DropReason.RANKED_OUT: 2}


def test_repo_trains_on_errors_and_not_on_overlong_ones() -> None:
    failed = rollout("wide#0", 0, broken=Broken.EXECUTION_ERROR)
    rollouts = [failed, *group("wide", [0, 1, 0, 1], broken=[1]).rollouts[1:]]
    chosen = RepoRank()([RolloutGroup("wide", tuple(rollouts))])
    assert kept(chosen) == ["wide#0", "wide#2", "wide#3"]
    # Equal rewards are left, but the group had a spread when it was looked at, and keeps its baseline.
    assert len(chosen.kept[0].rollouts) == 4


def test_dynamic_sampling_takes_the_first_mixed_groups() -> None:
    assert names(DynamicSampling(groups=1)([FLAT, LEANING, WIDE])) == ["leaning"]
    assert names(DynamicSampling()([NARROW])) == []
    assert names(DynamicSampling(by="reward")([NARROW])) == ["narrow"]


def test_pass_rate_has_both_ends() -> None:
    easy, middle, hard = group("e", [1] * 8), group("m", [1, 1, 1, 0, 0, 0, 0, 0]), group("h", [0] * 8)
    tail = PassRateBand(lowest=0.125, highest=0.375)([easy, middle, hard])
    assert names(tail) == ["m"]
    assert tail.reasons() == {DropReason.TOO_EASY: 8, DropReason.TOO_HARD: 8}
    with pytest.raises(ValueError, match="above"):
        PassRateBand(lowest=0.5, highest=0.4)


def test_keep_all_keeps_uniform_groups() -> None:
    assert names(KeepAll()([FLAT, WIDE])) == ["flat", "wide"]
    assert KeepAll()([group("x", [None, 1], lost=[1])]).kept == ()


def test_groups_and_rollouts_are_told_apart_by_id() -> None:
    with pytest.raises(ValueError, match="share an id"):
        KeepAll()([FLAT, FLAT])
    with pytest.raises(ValueError, match="unique"):
        KeepAll()([FLAT, RolloutGroup("other", FLAT.rollouts)])


@pytest.mark.parametrize("rule", [PassRateBand(), OversampleFilterRank()], ids=lambda rule: rule.rule)
def test_two_rollouts_are_a_group_and_one_is_none(rule: SelectionRule) -> None:
    chosen = rule([group("pair", [1, 0]), group("one", [1]), group("left", [1, None])])
    assert names(chosen) == ["pair"]
    assert chosen.reasons() == {DropReason.UNUSABLE: 1, DropReason.TOO_FEW: 2}


def test_rollouts_without_pictures_may_stay() -> None:
    silent = group("silent", [0, 1, 0, 1], pictures=0)
    assert names(RepoRank(need_pictures=False)([silent])) == ["silent"]
    assert names(RepoRank()([silent])) == []


def test_what_breaks_a_rollout_of_the_released_code_is_a_setting() -> None:
    kinds = (Broken.OVER_LENGTH, Broken.OVER_IMAGES, Broken.TIMEOUT, Broken.NO_ACTION)
    broken = [rollout(f"wide#{number}", number % 2, broken=kind) for number, kind in enumerate(kinds)]
    given = [RolloutGroup("wide", tuple(broken))]
    assert kept(RepoRank()(given)) == ["wide#2", "wide#3"]
    assert kept(RepoRank(forbidden=(Broken.TIMEOUT,))(given)) == ["wide#0", "wide#1", "wide#3"]
    assert OversampleFilterRank()(given).reasons() == {DropReason.ALL_BROKEN: 4}


def test_a_band_of_one_rate_is_a_band() -> None:
    half = [group("half", [1, 0]), group("third", [1, 0, 0])]
    assert names(PassRateBand(lowest=0.5, highest=0.5)(half)) == ["half"]
    assert names(PassRateBand(fewest=3)(half)) == ["third"]
    assert names(PassRateBand(lowest=0.4)(half)) == ["half"]
    assert names(PassRateBand(highest=0.4)(half)) == ["third"]


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
    assert in_band(tried, UNSOLVED_MOSTLY) == ("nine", "eight")


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


def test_ids_are_unique() -> None:
    one = group("a", [0.0]).rollouts[0]
    with pytest.raises(ValueError, match="share an id"):
        group("a", [0.0]).__class__("a", (one, one))
