"""Trajectories with turns that failed: code that raised, calls that were refused, texts that asked for nothing."""

from __future__ import annotations

from pydantic import NonNegativeInt

from saccade.record.action import ParseError
from saccade.record.status import Status
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.sft.curate.stage import KEEP, Drop, FilterContext, FilterOutcome, FilterSettings, FilterStage, each


class ErrorTurns(FilterSettings):
    """Leaves out trajectories with too many error turns, or with one that was never made good.

    An error turn holds no action, or its execution did not end well.
    """

    at_most: NonNegativeInt | None = None
    """Error turns that a trajectory may have; None for any number."""
    recovered: bool = True
    """Whether a failed call must be followed, at once or later, by one that ended well, and a text without an action
    by one with an action."""

    def start(self, around: FilterContext) -> FilterStage:
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        errors = [number for number, turn in enumerate(trajectory.turns) if is_error(turn)]
        if self.at_most is not None and len(errors) > self.at_most:
            return Drop(f"more than {self.at_most} error turns", f"turns {errors}")
        lasting = [number for number in errors if not _recovered(trajectory.turns[number:])]
        if self.recovered and lasting:
            return Drop("an error was never made good", f"turn {lasting[0]}")
        return KEEP


def is_error(turn: Turn) -> bool:
    """Whether a turn holds no action, or what it ran did not end well."""
    failed = turn.execution is not None and turn.execution.status is not Status.OK
    return failed or isinstance(turn.action, ParseError)


def _recovered(turns: tuple[Turn, ...]) -> bool:
    """Whether the error of the first of `turns` is made good by a later one."""
    if isinstance(turns[0].action, ParseError):
        return any(not isinstance(turn.action, ParseError) for turn in turns[1:])
    return any(turn.execution is not None and turn.execution.status is Status.OK for turn in turns[1:])
