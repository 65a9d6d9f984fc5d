"""What a selection says: the groups to train on, which of their rollouts, and why everything else was left out.

Rules are pure: the same groups in the same order give the same selection, ties keep that order, rollouts of two groups
are never mixed, and one that is lost or has no reward is never kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from saccade.rl.groups import Rollout, RolloutGroup, spread
from saccade.rl.rules import Rule

TOLERANCE: Final = 1e-6
"""Spread of rewards up to which a group has none: equal sums of parts differ by rounding."""


class Reason(StrEnum):
    """Why a group or a rollout was left out."""

    UNUSABLE = "unusable"
    """Lost, or without a reward."""
    ALL_BROKEN = "all_broken"
    BROKEN = "broken"
    NO_SPREAD = "no_spread"
    """All rewards are equal: no advantage differs from zero."""
    NO_PICTURES = "no_pictures"
    TOO_FEW = "too_few"
    """Fewer rollouts left than a group needs."""
    TOO_EASY = "too_easy"
    TOO_HARD = "too_hard"
    RANKED_OUT = "ranked_out"
    """There were enough better ones."""


@dataclass(frozen=True, slots=True)
class KeptRollout:
    """A group that is trained on."""

    group: RolloutGroup
    """With all its rollouts: a baseline may be that of the whole group."""
    ids: tuple[str, ...]
    """The rollouts that enter the loss, in the order of the group."""

    @property
    def rollouts(self) -> tuple[Rollout, ...]:
        """The rollouts that enter the loss."""
        return tuple(item for item in self.group.rollouts if item.id in self.ids)

    @property
    def spread(self) -> float:
        """Sample standard deviation of their rewards."""
        return spread(self.rollouts)


@dataclass(frozen=True, slots=True)
class DroppedRollout:
    """A rollout that is not trained on."""

    group: str
    id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Selection:
    """What a rule decided; every rollout is in it once."""

    kept: tuple[KeptRollout, ...]
    """Best first where the rule ranks, else in the given order."""
    dropped: tuple[DroppedRollout, ...] = ()

    def __len__(self) -> int:
        """Rollouts that enter the loss."""
        return sum(len(item.ids) for item in self.kept)

    def reasons(self) -> dict[Reason, int]:
        """How many rollouts were left out for each reason."""
        return dict(Counter(item.reason for item in self.dropped))


class SelectionRule(Rule):
    """Base of all rules that select: settings, called with groups of rollouts."""

    @abstractmethod
    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """The rollouts that are trained on. Raises `ValueError` if two groups share an id."""


def keep_usable(groups: Sequence[RolloutGroup]) -> Selection:
    """Every usable rollout of every group.

    Raises:
        ValueError: two groups share an id, or two rollouts do.
    """
    if len({group.id for group in groups}) < len(groups):
        raise ValueError("two groups share an id; put rollouts of one task into one group")
    ids = [item.id for group in groups for item in group.rollouts]
    if len(set(ids)) < len(ids):
        raise ValueError("two rollouts of different groups share an id; ids must be unique in a step")
    everything = Selection(tuple(KeptRollout(group, tuple(item.id for item in group.rollouts)) for group in groups))
    return keep_rollouts(everything, Reason.UNUSABLE, lambda rollout: rollout.usable)


def keep_rollouts(selection: Selection, reason: Reason, keep: Callable[[Rollout], bool]) -> Selection:
    """The selection with only the rollouts that are `wanted`; a group that loses all of them is gone."""
    kept, dropped = [], list(selection.dropped)
    for item in selection.kept:
        left = tuple(rollout.id for rollout in item.rollouts if keep(rollout))
        dropped += [DroppedRollout(item.group.id, name, reason) for name in item.ids if name not in left]
        if left:
            kept.append(KeptRollout(item.group, left))
    return Selection(tuple(kept), tuple(dropped))


def keep_groups(selection: Selection, reason: Reason, keep: Callable[[KeptRollout], bool]) -> Selection:
    """The selection with only the groups that are `wanted`."""
    kept: list[KeptRollout] = []
    gone: list[KeptRollout] = []
    for item in selection.kept:
        (kept if keep(item) else gone).append(item)
    dropped = [DroppedRollout(item.group.id, name, reason) for item in gone for name in item.ids]
    return Selection(tuple(kept), (*selection.dropped, *dropped))


def best(selection: Selection, groups: int) -> Selection:
    """The first `groups` groups; the others were ranked out."""
    first = {item.group.id for item in selection.kept[:groups]}
    return keep_groups(selection, Reason.RANKED_OUT, lambda item: item.group.id in first)
