"""What rewards read from a trajectory: was it right, which turns called something, how those calls ended.

Typed statuses decide. The text that a program or a tool printed is never searched, so nothing that is printed can make
a call look better or worse.
"""

from __future__ import annotations

from typing import Final

from saccade.record.status import Status
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.tools.problem import ProblemKind

CORRECT: Final = "correct"
"""Name of the grader's score, 0 to 1."""
LONGEST_ANSWER: Final = 1000
"""Characters from which an answer is wrong whatever a grader says, as in the code of DeepEyes and PyVision-RL."""
_OURS: Final = (ProblemKind.TOOL_FAILURE, ProblemKind.UNAVAILABLE)


def accuracy(trajectory: Trajectory, longest: int = LONGEST_ANSWER) -> float | None:
    """The score `correct`; 0 without an answer or with one of `longest` characters or more; None if not graded."""
    score = next((score.value for score in trajectory.scores if score.name == CORRECT), None)
    if score is None or trajectory.lost:
        return None
    answer = trajectory.answer
    return 0.0 if answer is None or len(answer) >= longest else score


def is_call(turn: Turn) -> bool:
    """Whether the turn ran code or a tool, and that was no outage."""
    return turn.execution is not None and turn.execution.status is not Status.LOST


def calls(trajectory: Trajectory) -> tuple[int, ...]:
    """Numbers of the turns that ran code or a tool."""
    return tuple(number for number, turn in enumerate(trajectory.turns) if is_call(turn))


def silent(turn: Turn) -> bool:
    """Whether a call ended well and gave nothing back: no text, no value, no picture."""
    run = turn.execution
    if run is None or run.status is not Status.OK:
        return False
    return not run.pictures and not any((text or "").strip() for text in (run.stdout, run.stderr, run.value))


def succeeded(turn: Turn) -> bool:
    """Whether a call ended well."""
    return turn.execution is not None and turn.execution.status is Status.OK


def failed(turn: Turn) -> bool:
    """Whether a call failed through what the model wrote: not through an outage or a tool's own failure."""
    return is_call(turn) and not succeeded(turn) and (turn.execution is None or turn.execution.problem not in _OURS)


def returned_pictures(trajectory: Trajectory) -> int:
    """Pictures that calls gave back."""
    return sum(len(turn.execution.pictures) for turn in trajectory.turns if turn.execution is not None)
