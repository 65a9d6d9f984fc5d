"""Trajectories with too few or too many calls (PyVision-RL leaves out those with fewer than two)."""

from __future__ import annotations

from pydantic import NonNegativeInt

from saccade.record.action import Code, ToolCall
from saccade.record.status import Status
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import KEEP, Drop, FilterContext, FilterOutcome, FilterSettings, FilterStage, each


class ToolTurns(FilterSettings):
    """Leaves out trajectories with too few or too many turns of code or tool calls."""

    at_least: NonNegativeInt = 2
    at_most: NonNegativeInt | None = None
    successful: bool = False
    """Whether only calls that ended well count; data of other projects hold no executions, so none of theirs do."""

    def start(self, around: FilterContext) -> FilterStage:
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        count = tool_turns(trajectory, successful=self.successful)
        if count < self.at_least:
            return Drop(f"fewer than {self.at_least} tool turns", str(count))
        if self.at_most is not None and count > self.at_most:
            return Drop(f"more than {self.at_most} tool turns", str(count))
        return KEEP


def tool_turns(trajectory: Trajectory, *, successful: bool = False) -> int:
    """Turns that ran something: code or a tool call that was answered; with `successful`, that ended well."""
    count = 0
    for turn in trajectory.turns:
        if not isinstance(turn.action, Code | ToolCall):
            continue
        if successful:
            count += turn.execution is not None and turn.execution.status is Status.OK
        else:
            count += turn.execution is not None or turn.observation is not None
    return count
