"""Selections that look at little: keep everything that can be used, or what is neither too easy nor too hard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from saccade.rl.groups import RolloutGroup
from saccade.rl.select.selection import KeptRollout, Reason, Selection, SelectionRule, keep_groups, keep_usable

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
        chosen = keep_groups(keep_usable(groups), Reason.TOO_FEW, lambda item: len(item.ids) >= self.fewest)
        chosen = keep_groups(chosen, Reason.TOO_HARD, lambda item: _rate(item) >= self.lowest)
        return keep_groups(chosen, Reason.TOO_EASY, lambda item: _rate(item) <= self.highest)


def _rate(item: KeptRollout) -> float:
    return sum(rollout.right for rollout in item.rollouts) / len(item.ids)
