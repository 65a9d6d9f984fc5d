"""Selections that rank nothing: keep everything usable, what is neither too easy nor too hard, or what differs.

Groups that are all right or all wrong teach nothing: DAPO's dynamic sampling replaces them by further ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from saccade.rl.rollout import DropReason, RolloutGroup
from saccade.rl.select.selection import TOLERANCE, Selection, SelectionRule, best, keep_groups, keep_usable

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
