"""Trajectories that ended otherwise than they should, or with too many turns."""

from __future__ import annotations

from pydantic import PositiveInt

from saccade.record.trajectory import StopReason, Trajectory
from saccade.sft.curate.stage import KEEP, Drop, FilterContext, FilterOutcome, FilterSettings, FilterStage, each


class Ended(FilterSettings):
    """Leaves out trajectories that did not end in one of the ways named, or that took too many turns."""

    stops: tuple[StopReason, ...] = (StopReason.ANSWERED,)
    turns: PositiveInt | None = None
    """Most turns, the answer included."""

    def start(self, around: FilterContext) -> FilterStage:
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        if trajectory.stop not in self.stops:
            return Drop(f"ended as {trajectory.stop or 'not yet'}", trajectory.stop_detail)
        if self.turns is not None and len(trajectory.turns) > self.turns:
            return Drop(f"more than {self.turns} turns", str(len(trajectory.turns)))
        return KEEP
