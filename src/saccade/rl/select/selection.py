"""What a selection says: the groups of a step, and of each rollout whether it is trained on or why it was dropped.

Rules are pure: the same groups in the same order give the same selection, ties keep that order, rollouts of two groups
are never mixed, and one that is lost or has no reward is never kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BeforeValidator, SerializeAsAny

from saccade.record.registry import Registry, is_subclass
from saccade.rl.rollout import DropReason, Rollout, RolloutGroup
from saccade.rl.rules import Rule, named

TOLERANCE: Final = 1e-6
"""Spread of rewards up to which a group has none: equal sums of parts differ by rounding."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a rule decided: every group that it was given, with the rollouts that it dropped marked."""

    groups: tuple[RolloutGroup, ...] = ()
    """Best first where the rule ranks, else in the given order."""

    def __len__(self) -> int:
        """Rollouts that enter the loss."""
        return len(self.rollouts)

    @property
    def kept(self) -> tuple[RolloutGroup, ...]:
        """The groups of which something is trained on. A baseline may be that of the whole group."""
        return tuple(group for group in self.groups if group.kept)

    @property
    def rollouts(self) -> tuple[Rollout, ...]:
        """Those that enter the loss."""
        return tuple(item for group in self.groups for item in group.kept)

    @property
    def dropped(self) -> tuple[Rollout, ...]:
        """Those that do not."""
        return tuple(item for group in self.groups for item in group.rollouts if item.dropped is not None)

    def reasons(self) -> dict[DropReason, int]:
        """How many rollouts were left out for each reason."""
        counts = Counter(item.dropped for item in self.dropped)
        return {reason: counts[reason] for reason in DropReason if reason in counts}


class SelectionRule(Rule):
    """Base of all rules that select: settings, called with groups of rollouts."""

    @abstractmethod
    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """The rollouts that are trained on. Raises `ValueError` if two groups share an id."""


_HERE = "saccade.rl.select"

SELECTIONS: Final = Registry[type[SelectionRule]](
    "selections",
    {
        "none@1": "saccade.rl.select.plain:KeepAll",
        "pass-rate@1": "saccade.rl.select.plain:PassRateBand",
        "oversample-filter-rank@1": "saccade.rl.select.oversample:OversampleFilterRank",
        "oversample-filter-rank-repo@1": "saccade.rl.select.oversample:RepoRank",
        "dynamic-sampling@1": "saccade.rl.select.plain:DynamicSampling",
    },
    is_subclass(SelectionRule, f"a subclass of {_HERE}.selection.SelectionRule"),
)
"""Other packages add rules by the entry point group `saccade.selections`."""

NamedSelection = Annotated[SerializeAsAny[SelectionRule], BeforeValidator(named(SELECTIONS, "none"))]
"""What a recipe holds: a table that names a rule."""


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
    return keep_rollouts(Selection(tuple(groups)), DropReason.UNUSABLE, lambda rollout: rollout.usable)


def keep_rollouts(selection: Selection, reason: DropReason, wanted: Callable[[Rollout], bool]) -> Selection:
    """The selection with only the rollouts that are `wanted`; a group that loses all of them is gone."""
    return Selection(tuple(group.dropping(reason, lambda one: not wanted(one)) for group in selection.groups))


def keep_groups(selection: Selection, reason: DropReason, wanted: Callable[[RolloutGroup], bool]) -> Selection:
    """The selection with only the groups that are `wanted`; of one that is gone already nothing is asked."""
    return Selection(
        tuple(
            group if not group.kept or wanted(group) else group.dropping(reason, lambda _: True)
            for group in selection.groups
        )
    )


def best(selection: Selection, groups: int) -> Selection:
    """The first `groups` groups; the others were ranked out."""
    first = {group.id for group in selection.kept[:groups]}
    return keep_groups(selection, DropReason.RANKED_OUT, lambda group: group.id in first)
