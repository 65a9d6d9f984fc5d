"""What a selection says: the groups of a step, and of each rollout whether it is trained on or why it was dropped.

Rules are pure: the same groups in the same order give the same selection, ties keep that order, rollouts of two groups
are never mixed, and one that is lost or has no reward is never kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Final, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveInt, SerializeAsAny, model_validator

from saccade.core.registry import Registry, is_subclass
from saccade.core.settings import Settings
from saccade.record.trajectory import Broken
from saccade.training.rl.rollout import DropReason, Rollout, RolloutGroup, Rule, named

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


_HERE = "saccade.training.rl"

SELECTIONS: Final = Registry[type[SelectionRule]](
    "selections",
    {
        "none@1": "saccade.training.rl.select:KeepAll",
        "pass-rate@1": "saccade.training.rl.select:PassRateBand",
        "oversample-filter-rank@1": "saccade.training.rl.select:OversampleFilterRank",
        "oversample-filter-rank-repo@1": "saccade.training.rl.select:RepoRank",
        "dynamic-sampling@1": "saccade.training.rl.select:DynamicSampling",
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


# Which tasks the next stage trains on, from how the last checkpoint did: difficulty filters and VISTA's tail patch.
#
# Pure: pass rates in, names of tasks out, in the given order. A task that was never rolled out is in no band.


class Band(Settings):
    """Pass rates from `lowest` to `highest`, both included."""

    lowest: Annotated[float, Field(ge=0, le=1)] = 0.0
    highest: Annotated[float, Field(ge=0, le=1)] = 1.0
    fewest: PositiveInt = 1
    """Usable rollouts that a task needs, so that its rate says something."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"lowest ({self.lowest}) is above highest ({self.highest})")
        return self


TAIL_PATCH: Final = Band(lowest=0.125, highest=0.375)
"""VISTA-R1: hard but learnable, one to three of eight rollouts right."""
UNSOLVED_MOSTLY: Final = Band(highest=0.9, fewest=8)
"""CodeV: what the start model solves in more than 0.9 of eight samples goes."""


def pass_rates(groups: Iterable[RolloutGroup]) -> dict[str, tuple[float, int]]:
    """For each group its share of right rollouts and the number of usable ones; groups without any are left out."""
    counted = ((group.id, group.pass_rate, len(group.usable)) for group in groups)
    return {name: (rate, usable) for name, rate, usable in counted if rate is not None}


def in_band(rates: Mapping[str, tuple[float, int]], band: Band) -> tuple[str, ...]:
    """The tasks whose pass rate lies in the band, in the order of `rates`."""
    return tuple(
        name for name, (rate, usable) in rates.items() if usable >= band.fewest and band.lowest <= rate <= band.highest
    )


def epoch_order(tasks: Iterable[str], seed: int, epoch: int) -> tuple[str, ...]:
    """The tasks in the order of an epoch: a shuffle that depends on the seed, the epoch and the tasks alone."""
    names = sorted(tasks)
    return tuple(names[index] for index in np.random.default_rng([seed, epoch]).permutation(len(names)))


# Oversample, filter, rank: PyVision-RL's choice of groups, as its paper and as its code has it.
#
# More tasks are rolled out than a step needs; groups without spread and broken ones go; the groups with the largest
# spread of rewards stay. `OversampleFilterRank` is Algorithm 1 of the paper: whole groups, ranked stably. `RepoRank` is
# the released code: filters look at single rollouts, only a surplus is ranked, and the cut may split a group; the
# advantage that belongs to it takes its baseline from the full group, what was filtered out included.


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


# Selections that rank nothing: keep everything usable, what is neither too easy nor too hard, or what differs.
#
# Groups that are all right or all wrong teach nothing: DAPO's dynamic sampling replaces them by further ones.


Share = Annotated[float, Field(ge=0, le=1)]


class KeepAll(SelectionRule):
    """Every usable rollout of every group, as VISTA-R1 trains: uniform groups too."""

    rule: Literal["none"] = "none"

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """Everything but lost rollouts and those without a reward."""
        return keep_usable(groups)


class PassRateBand(SelectionRule):
    """Groups whose share of right rollouts lies in a band, both ends included."""

    rule: Literal["pass-rate"] = "pass-rate"
    lowest: Share = 0.0
    highest: Share = 1.0
    fewest: PositiveInt = 2
    """Rollouts that a group needs to stay."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"lowest ({self.lowest}) is above highest ({self.highest})")
        return self

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """Groups inside the band, in the given order."""
        chosen = keep_groups(keep_usable(groups), DropReason.TOO_FEW, lambda item: len(item.kept) >= self.fewest)
        chosen = keep_groups(chosen, DropReason.TOO_HARD, lambda item: _rate(item) >= self.lowest)
        return keep_groups(chosen, DropReason.TOO_EASY, lambda item: _rate(item) <= self.highest)


class DynamicSampling(SelectionRule):
    """The first groups that hold right and wrong rollouts, in the given order."""

    rule: Literal["dynamic-sampling"] = "dynamic-sampling"
    groups: PositiveInt = 64
    """Groups of a step."""
    by: Literal["accuracy", "reward"] = "accuracy"
    """What must differ inside a group."""
    tolerance: NonNegativeFloat = TOLERANCE

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """At most `groups` groups; nothing is ranked."""
        return best(keep_groups(keep_usable(groups), DropReason.NO_SPREAD, self._differs), self.groups)

    def _differs(self, item: RolloutGroup) -> bool:
        if self.by == "reward":
            return item.spread > self.tolerance
        return len({rollout.right for rollout in item.kept}) > 1


def _rate(item: RolloutGroup) -> float:
    return sum(rollout.right for rollout in item.kept) / len(item.kept)
