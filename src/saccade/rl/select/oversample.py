"""Oversample, filter, rank: PyVision-RL's choice of groups, as its paper and as its code has it.

More tasks are rolled out than a step needs; groups without spread and broken ones go; the groups with the largest
spread of rewards stay. `OversampleFilterRank` is Algorithm 1 of the paper: whole groups, ranked stably. `RepoRank` is
the released code: filters look at single rollouts, only a surplus is ranked, and the cut may split a group; the
advantage that belongs to it takes its baseline from the full group, what was filtered out included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import NonNegativeFloat, PositiveInt

from saccade.record.stop_facts import Broken
from saccade.rl.groups import RolloutGroup
from saccade.rl.select.selection import (
    TOLERANCE,
    DroppedRollout,
    KeptRollout,
    Reason,
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
        chosen = keep_groups(chosen, Reason.ALL_BROKEN, lambda item: any(not one.broken for one in item.rollouts))
        if self.broken == "rollout":
            chosen = keep_rollouts(chosen, Reason.BROKEN, lambda one: not one.broken)
        chosen = keep_groups(chosen, Reason.TOO_FEW, lambda item: len(item.ids) >= self.fewest)
        chosen = keep_groups(chosen, Reason.NO_SPREAD, lambda item: item.spread > self.tolerance)
        if self.rank:
            ranked = sorted(chosen.kept, key=lambda item: item.spread, reverse=True)
            chosen = Selection(tuple(ranked), chosen.dropped)
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
        chosen = keep_groups(chosen, Reason.NO_SPREAD, lambda item: item.spread > self.tolerance)
        spreads = {item.group.id: item.spread for item in chosen.kept}
        if self.need_pictures:
            chosen = keep_rollouts(chosen, Reason.NO_PICTURES, lambda one: one.pictures > 0)
        chosen = keep_rollouts(chosen, Reason.BROKEN, lambda one: one.broken.isdisjoint(self.forbidden))
        if len(chosen) <= self.rollouts:
            return chosen
        ranked = sorted(chosen.kept, key=lambda item: -spreads[item.group.id])
        return _cut(Selection(tuple(ranked), chosen.dropped), self.rollouts)


def _cut(selection: Selection, most: int) -> Selection:
    """The first `most` rollouts; the last group may lose some of its own."""
    kept, dropped = [], list(selection.dropped)
    for item in selection.kept:
        ids = item.ids[:most]
        most -= len(ids)
        dropped += [DroppedRollout(item.group.id, name, Reason.RANKED_OUT) for name in item.ids[len(ids) :]]
        if ids:
            kept.append(KeptRollout(item.group, ids))
    return Selection(tuple(kept), tuple(dropped))
