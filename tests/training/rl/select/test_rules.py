"""What each rule keeps, on groups small enough to check by eye."""

from __future__ import annotations

import pytest
from tests.training.rl.support import group, renamed, rollout

from saccade.record.trajectory import Broken
from saccade.training.rl.rollout import DropReason, RolloutGroup
from saccade.training.rl.select import (
    Band,
    DynamicSampling,
    KeepAll,
    OversampleFilterRank,
    PassRateBand,
    RepoRank,
    Selection,
    SelectionRule,
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


@pytest.mark.parametrize("rule", [KeepAll(), OversampleFilterRank(), RepoRank()], ids=lambda rule: rule.rule)
def test_two_groups_of_one_id_are_refused(rule: SelectionRule) -> None:
    other = RolloutGroup(WIDE.id, tuple(renamed(one, f"other-{one.id}") for one in WIDE.rollouts))
    with pytest.raises(ValueError, match="two groups share an id"):
        rule([WIDE, other])


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


@pytest.mark.parametrize("kind", [PassRateBand, Band])
def test_a_band_is_of_shares(kind: type[PassRateBand | Band]) -> None:
    assert (kind().lowest, kind().highest) == (0, 1)
    for wrong in ({"lowest": -0.1}, {"lowest": 1.1, "highest": 2}, {"highest": 1.1}):
        with pytest.raises(ValueError, match="or equal to"):
            kind.model_validate(wrong)
    for end in (0, 1):
        assert kind(lowest=end, highest=end).highest == end


def test_keep_all_keeps_uniform_groups() -> None:
    assert names(KeepAll()([FLAT, WIDE])) == ["flat", "wide"]
    assert KeepAll()([group("x", [None, 1], lost=[1])]).kept == ()


def test_groups_and_rollouts_are_told_apart_by_id() -> None:
    with pytest.raises(ValueError, match="share an id"):
        KeepAll()([FLAT, FLAT])
    with pytest.raises(ValueError, match="unique"):
        KeepAll()([FLAT, RolloutGroup("other", FLAT.rollouts)])


def mixed(count: int, size: int = 2) -> list[RolloutGroup]:
    """Groups with equal spread, the first rollout of each right."""
    return [group(f"g{number}", [1.0] + [0.0] * (size - 1)) for number in range(count)]


def test_a_step_has_as_many_as_its_rule_says() -> None:
    assert len(OversampleFilterRank()(mixed(17)).kept) == 16
    assert len(DynamicSampling()(mixed(65)).kept) == 64
    surplus = RepoRank()(mixed(65, size=8))
    assert len(surplus) == 512
    assert surplus.reasons() == {DropReason.RANKED_OUT: 8}
    assert len(RepoRank()(mixed(64, size=8))) == 512


@pytest.mark.parametrize("rule", [PassRateBand(), OversampleFilterRank()], ids=lambda rule: rule.rule)
def test_two_rollouts_are_a_group_and_one_is_none(rule: SelectionRule) -> None:
    chosen = rule([group("pair", [1, 0]), group("one", [1]), group("left", [1, None])])
    assert names(chosen) == ["pair"]
    assert chosen.reasons() == {DropReason.UNUSABLE: 1, DropReason.TOO_FEW: 2}


@pytest.mark.parametrize(
    ("rule", "least"),
    [
        (OversampleFilterRank, 0.7071067),
        (RepoRank, 0.7071067),
        (lambda **more: DynamicSampling(by="reward", **more), 0.7071067),
    ],
)
def test_a_spread_must_be_above_the_tolerance(rule: type[SelectionRule], least: float) -> None:
    pair = group("pair", [1, 0])  # a spread of 1 / sqrt(2)
    exact = RolloutGroup("pair", pair.rollouts)
    assert names(rule(tolerance=least)([exact])) == ["pair"]
    assert names(rule(tolerance=0.7071069)([exact])) == []
    even = group("even", [2.0, 2.0, 2.0])
    assert names(rule(tolerance=0)([even])) == []


def test_sizes_that_just_fit_are_not_ranked() -> None:
    assert names(RepoRank(rollouts=8)([LEANING, WIDE])) == ["leaning", "wide"]
    assert names(RepoRank(rollouts=7)([LEANING, WIDE])) == ["wide", "leaning"]
    cut = RepoRank(rollouts=4)([LEANING, WIDE, NARROW])
    assert [(item.id, len(item.kept)) for item in cut.kept] == [("wide", 4)]
    assert [(item.id, item.dropped) for item in cut.dropped] == [
        (f"{name}#{number}", DropReason.RANKED_OUT) for name in ("leaning", "narrow") for number in range(4)
    ]
    one = RepoRank(rollouts=1)([WIDE])
    assert kept(one) == ["wide#0"]
    assert [item.id for item in one.dropped] == ["wide#1", "wide#2", "wide#3"]


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
