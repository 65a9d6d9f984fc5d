"""Misuse of tools that TAPO punishes, found by types alone (CodeV, section 4).

What these rules do not see: a crop shifted by one pixel is no repetition, and a copy saved with other pixels is no
scratch file. An outage of ours, and a tool's own failure, cross no line.
"""

from __future__ import annotations

from enum import StrEnum

from saccade.record.status import Status
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.rewards.reading import failed, is_call
from saccade.tools.problem import ProblemKind


class Redline(StrEnum):
    """The four kinds."""

    INVALID_COORDINATES = "invalid_coordinates"
    """Arguments that a tool refused. A crop that was clamped is forgiven, as the sandbox forgives it; one of which
    nothing is left is an avoidable error."""
    REPEATED_NOOP = "repeated_noop"
    """Every picture that came back had been seen before."""
    SCRATCH_FILE = "scratch_file"
    """Files were written, and none of them came back as a picture."""
    AVOIDABLE_ERROR = "avoidable_error"
    """The code or the call failed through what the model wrote."""


def redlines(trajectory: Trajectory) -> tuple[tuple[Redline, ...], ...]:
    """The lines that each turn crosses, in the order of the kinds."""
    seen = {item.part.sha256 for item in trajectory.task.media}
    seen |= {part.sha256 for message in trajectory.prompt for part in message.media}
    crossed = []
    for turn in trajectory.turns:
        shown = {picture.image.sha256 for picture in turn.execution.pictures} if turn.execution is not None else set()
        crossed.append(_crossed(turn, bool(shown) and shown <= seen))
        seen |= shown
    return tuple(crossed)


def _crossed(turn: Turn, stale: bool) -> tuple[Redline, ...]:
    run = turn.execution
    if run is None or not is_call(turn):
        return ()
    back = {picture.path for picture in run.pictures}
    crossed = {
        Redline.INVALID_COORDINATES: run.problem == ProblemKind.ARGUMENT_FORMAT,
        Redline.REPEATED_NOOP: stale and run.status is Status.OK,
        Redline.SCRATCH_FILE: bool(run.files) and not any(file.path in back for file in run.files),
        Redline.AVOIDABLE_ERROR: failed(turn),
    }
    return tuple(kind for kind, yes in crossed.items() if yes)
