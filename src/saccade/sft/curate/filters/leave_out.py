"""Whole branches that are not wanted, such as sources that need knowledge beyond the picture."""

from __future__ import annotations

from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import Drop, FilterContext, FilterOutcome, FilterSettings, FilterStage, each


class LeaveOut(FilterSettings):
    """Leaves out everything in its branch, which `only` and `without` say."""

    ABOUT_TASKS = True

    reason: str = "not wanted"
    """What the report says."""

    def start(self, around: FilterContext) -> FilterStage:
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        return Drop(self.reason, trajectory.task.source)
