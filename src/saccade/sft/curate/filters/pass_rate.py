"""Tasks that a weak model finds too easy or too hard, by the share of its rollouts that are right.

CodeV leaves out what Qwen2.5-VL-7B answers rightly in more than 0.9 of 8 samples.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from pydantic import FiniteFloat, NonNegativeFloat, PositiveInt

from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SettingsError
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.filters.score import score_of
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


@dataclass(frozen=True, slots=True)
class ModelPassRate:
    """How a model fared on one task."""

    right: int
    rollouts: int
    """Those that were scored; outages of ours are none."""

    @property
    def value(self) -> float:
        """Share of rollouts that are right."""
        return self.right / self.rollouts


class Rollouts(FilterSettings):
    """Settings of filters that read another run, in which a model tried the same tasks (by id)."""

    rollouts: Path
    """Run folder of the model's rollouts."""
    score: str = "correct"
    right_from: FiniteFloat = 1.0
    """A rollout is right if its score is at least this."""
    at_least: PositiveInt = 8
    """Scored rollouts that a task needs; with fewer it is undecided."""

    def rates(self) -> dict[str, ModelPassRate]:
        """Task id -> its rate. Raises `SettingsError` if there is no such run, `RecordError` if it is broken."""
        file = self.rollouts / TRAJECTORIES
        if not file.is_file():
            raise SettingsError(f"rollouts: {self.rollouts} is no run folder; it has no {TRAJECTORIES}")
        right: defaultdict[str, int] = defaultdict(int)
        count: defaultdict[str, int] = defaultdict(int)
        for trajectory in read_lines(file, Trajectory):
            value = None if trajectory.lost else score_of(trajectory, self.score)
            if value is not None:
                count[trajectory.task.id] += 1
                right[trajectory.task.id] += value >= self.right_from
        return {task: ModelPassRate(right[task], total) for task, total in count.items()}

    def rate_of(self, trajectory: Trajectory, rates: dict[str, ModelPassRate]) -> ModelPassRate | Undecided:
        """The rate of the trajectory's task, if enough rollouts give one."""
        rate = rates.get(trajectory.task.id)
        if rate is None:
            return Undecided("no scored rollouts of the task", trajectory.task.id)
        if rate.rollouts < self.at_least:
            return Undecided(f"fewer than {self.at_least} scored rollouts", str(rate.rollouts))
        return rate


class PassRateFilter(Rollouts):
    """Leaves out tasks that a weak model, whose rollouts are in another run, finds too easy or too hard.

    A task's rate must lie within both bounds.
    """

    ABOUT_TASKS = True

    lowest: NonNegativeFloat = 0.0
    highest: NonNegativeFloat = 0.9

    def start(self, around: FilterContext) -> FilterStage:
        """A stage for one run over a set. Raises as `rates`."""
        rates = self.rates()

        def decide(trajectory: Trajectory) -> FilterOutcome:
            rate = self.rate_of(trajectory, rates)
            if isinstance(rate, Undecided):
                return rate
            detail = f"{rate.right} of {rate.rollouts}"
            if rate.value > self.highest:
                return Drop(f"pass rate above {self.highest:g}", detail)
            return KEEP if rate.value >= self.lowest else Drop(f"pass rate below {self.lowest:g}", detail)

        return each(decide)
