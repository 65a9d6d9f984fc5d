"""DAPO's dynamic sampling: groups that are all right or all wrong teach nothing and are replaced by further ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import NonNegativeFloat, PositiveInt

from saccade.rl.groups import RolloutGroup
from saccade.rl.select.selection import (
    TOLERANCE,
    KeptRollout,
    Reason,
    Selection,
    SelectionRule,
    best,
    keep_groups,
    keep_usable,
)


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
        return best(keep_groups(keep_usable(groups), Reason.NO_SPREAD, self._differs), self.groups)

    def _differs(self, item: KeptRollout) -> bool:
        if self.by == "reward":
            return item.spread > self.tolerance
        return len({rollout.right for rollout in item.rollouts}) > 1
