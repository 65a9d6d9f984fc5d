"""What came of a job: a trajectory to keep, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.errors import SaccadeError
from saccade.grading.grade import scored_by_rule
from saccade.record.score import CORRECT
from saccade.record.trajectory import Trajectory
from saccade.rewards.rubric import ExactMatch


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of one job."""

    trajectory: Trajectory | None
    discarded: str = ""
    """The kind of reason for which there is nothing to keep: `invalid output`, `code failed`, a stop reason, ..."""
    detail: str = ""
    final: bool = False
    """Whether it is of no use to try again: the episode was played to its end, and what came of it is not wanted."""


class DiscardedError(SaccadeError):
    """A trajectory that must not be kept."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


def graded(trajectory: Trajectory, *, exactly: bool) -> Trajectory:
    """The trajectory with its score `correct`: by strict equality, or by the grader that the task names."""
    if exactly:
        return trajectory.with_scores(ExactMatch()(trajectory))
    return trajectory.with_scores([scored_by_rule(trajectory.answer, trajectory.task)])


def is_right(trajectory: Trajectory) -> bool:
    """Whether the score `correct` is 1."""
    return any(score.name == CORRECT and score.value == 1.0 for score in trajectory.scores)
