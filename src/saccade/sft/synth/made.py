"""What came of a job: a trajectory to keep, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.env.rubric import ExactMatch
from saccade.errors import SaccadeError
from saccade.record.score import Score
from saccade.record.trajectory import Trajectory

EXACT = "exact"
"""Name of the score: 1.0 if the answer is the gold answer but for case and white space, else 0.0."""


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of one job."""

    trajectory: Trajectory | None
    discarded: str = ""
    """The kind of reason for which there is nothing to keep: `invalid output`, `code failed`, a stop reason, ..."""
    detail: str = ""


class DiscardedError(SaccadeError):
    """A trajectory that must not be kept."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


def graded(trajectory: Trajectory) -> Trajectory:
    """The trajectory with its score `exact`: strict equality, as the environment's default rubric has it."""
    (part,) = ExactMatch()(trajectory)
    return trajectory.with_scores([Score(name=EXACT, value=part.value)])


def is_right(trajectory: Trajectory) -> bool:
    """Whether the score `exact` is 1."""
    return any(score.name == EXACT and score.value == 1.0 for score in trajectory.scores)
