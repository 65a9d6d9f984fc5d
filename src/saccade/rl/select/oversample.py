"""Oversample, filter, rank: PyVision-RL's choice of groups, as its paper and as its code has it.

More tasks are rolled out than a step needs; groups without spread and broken ones go; the groups with the largest
spread of rewards stay. `OversampleFilterRank` is Algorithm 1 of the paper: whole groups, ranked stably. `RepoRank` is
the released code: filters look at single rollouts, only a surplus is ranked, and the cut may split a group; the
advantage that belongs to it takes its baseline from the full group, what was filtered out included.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Literal

from pydantic import NonNegativeFloat, PositiveInt

from saccade.record.stop_facts import Broken
from saccade.rl.rollout import DropReason, RolloutGroup
from saccade.rl.select.selection import (
    TOLERANCE,
    Selection,
    SelectionRule,
    best,
    keep_groups,
    keep_rollouts,
    keep_usable,
)


class OversampleFilterRank(SelectionRule):
    """PyVision-RL's algorithm 1: groups with spread that are not broken, the largest spread first."""

    rule: Literal["oversample-filter-rank"] = "oversample-filter-rank"
    groups: PositiveInt = 16
    """Groups of a step; as many again are rolled out at an oversampling of 2."""
    broken: Literal["group", "rollout"] = "rollout"
    """`group`: a group goes if all its rollouts are broken (Algorithm 1). `rollout`: each broken one goes too, as
    section 3.3 says."""
    tolerance: NonNegativeFloat = TOLERANCE
    fewest: PositiveInt = 2
    """Rollouts that a group needs to stay."""
    rank: bool = True
    """False: the first groups that pass the filters, which is the paper's ablation."""

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """At most `groups` groups, largest spread first."""
        chosen = keep_usable(groups)
        chosen = keep_groups(chosen, DropReason.ALL_BROKEN, lambda item: any(not one.broken for one in item.kept))
        if self.broken == "rollout":
            chosen = keep_rollouts(chosen, DropReason.BROKEN, lambda one: not one.broken)
        chosen = keep_groups(chosen, DropReason.TOO_FEW, lambda item: len(item.kept) >= self.fewest)
        chosen = keep_groups(chosen, DropReason.NO_SPREAD, lambda item: item.spread > self.tolerance)
        if self.rank:
            chosen = Selection(tuple(sorted(chosen.groups, key=lambda item: item.spread, reverse=True)))
        return best(chosen, self.groups)


class RepoRank(SelectionRule):
    """PyVision-RL's released code: filters look at single rollouts, and only a surplus is ranked."""

    rule: Literal["oversample-filter-rank-repo"] = "oversample-filter-rank-repo"
    rollouts: PositiveInt = 512
    """Rollouts of a step: groups times rollouts of a group."""
    forbidden: tuple[Broken, ...] = (Broken.OVER_LENGTH, Broken.OVER_IMAGES)
    """What takes a rollout out; errors and time-outs are trained on there, as rollouts without reward."""
    need_pictures: bool = True
    """Whether a rollout whose calls gave no picture goes, a right one too."""
    tolerance: NonNegativeFloat = TOLERANCE

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """At most `rollouts` rollouts; ranked by the spread of their group only if there are more."""
        chosen = keep_usable(groups)
        chosen = keep_groups(chosen, DropReason.NO_SPREAD, lambda item: item.spread > self.tolerance)
        spreads = {group.id: group.spread for group in chosen.groups}
        if self.need_pictures:
            chosen = keep_rollouts(chosen, DropReason.NO_PICTURES, lambda one: one.pictures > 0)
        chosen = keep_rollouts(chosen, DropReason.BROKEN, lambda one: one.broken.isdisjoint(self.forbidden))
        if len(chosen) <= self.rollouts:
            return chosen
        ranked = Selection(tuple(sorted(chosen.groups, key=lambda group: spreads[group.id], reverse=True)))
        place = count()
        return keep_rollouts(ranked, DropReason.RANKED_OUT, lambda _: next(place) < self.rollouts)
