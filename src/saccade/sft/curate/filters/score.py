"""Trajectories whose named score is too low, such as wrong answers."""

from __future__ import annotations

from pydantic import FiniteFloat

from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import (
    KEEP,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Undecided,
    each,
)


class MinimumScore(FilterSettings):
    """Leaves out trajectories whose named score is below a threshold.

    One that was never scored is undecided.
    """

    score: str = "correct"
    at_least: FiniteFloat = 1.0

    def start(self, around: FilterContext) -> FilterStage:
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        value = score_of(trajectory, self.score)
        if value is None:
            names = ", ".join(score.name for score in trajectory.scores if score.value is not None) or "none"
            return Undecided(f"no score {self.score}", f"scores: {names}")
        return KEEP if value >= self.at_least else Drop(f"{self.score} below {self.at_least:g}", f"{value:g}")


def score_of(trajectory: Trajectory, name: str) -> float | None:
    """The value of a score; None if it was never computed."""
    return next((score.value for score in trajectory.scores if score.name == name), None)
