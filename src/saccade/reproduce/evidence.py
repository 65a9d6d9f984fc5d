"""What the arms of a reproduction left behind, as the claims read it: examinations, and the steps of training."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from saccade.reproduce.exam_answers import ExamAnswer, read_exam
from saccade.reproduce.finding import MeasuredEffect
from saccade.reproduce.places import Places
from saccade.reproduce.settings import Arm, Reproduction
from saccade.rl.train.settings import RlSettings

BLOCKS = 8
"""Blocks that the steps of a run are divided into: steps next to each other are alike, so they do not count singly."""
LATE = 0.1
"""Share of the rollouts of training in which a call may be late: above it the machine is what is measured."""
Step = Mapping[str, float]
Measure = Callable[[ExamAnswer], float]


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured."""

    places: Places
    arms: Mapping[str, RlSettings]
    """The settings of each arm, by its name, as they are with the first seed."""
    _read: dict[Path, tuple[ExamAnswer, ...]] = field(default_factory=dict, repr=False)

    @property
    def settings(self) -> Reproduction:
        """Those of the reproduction."""
        return self.places.settings

    def start(self, arm: Arm) -> dict[str, ExamAnswer]:
        """The start's examination by the tasks of an arm, by task."""
        return self._exam(self.places.start_exam(arm))

    def exam(self, arm: Arm, seed: int) -> dict[str, ExamAnswer]:
        """The examination of an arm, by task; empty if the arm could not be trained."""
        return self._exam(self.places.exam(arm, seed))

    def steps(self, arm: Arm, seed: int) -> list[Step]:
        """What `metrics.jsonl` says of every step of training."""
        return self.read_steps(self.places.arm(arm, seed))

    @staticmethod
    def read_steps(run: Path) -> list[Step]:
        """The same of the run in a folder; none where nothing was trained."""
        path = run / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if "rollouts" in line]

    def _exam(self, folder: Path) -> dict[str, ExamAnswer]:
        if folder not in self._read:
            self._read[folder] = read_exam(folder)
        return {item.task: item for item in self._read[folder]}

    def busy(self) -> str:
        """Why nothing can be decided, where too many calls were late; empty where they were not."""
        runs = [self.steps(arm, seed) for arm in self.settings.arms for seed in self.settings.seeds]
        known = [step["broken/timeout"] for run in runs for step in run if "broken/timeout" in step]
        late = fmean(known) if known else 0.0
        if late <= LATE:
            return ""
        return f"in {late:.0%} of the rollouts a call ran into its limit of time: this machine is too slow or too busy"

    # -- Paired differences --------------------------------------------------------------------------------------

    def gained(self, arm: Arm, measure: Measure, within: str = "") -> MeasuredEffect:
        """An arm minus the start, task by task; `within` is a task set."""
        start = self.start(arm)
        return MeasuredEffect(
            tuple(_paired(self.exam(arm, seed), start, measure, within) for seed in self.settings.seeds)
        )

    def of(self, arm: Arm, measure: Measure, within: str = "") -> MeasuredEffect:
        """An arm by itself, task by task."""
        exams = (self.exam(arm, seed) for seed in self.settings.seeds)
        return MeasuredEffect(
            tuple(
                {name: measure(item) for name, item in exam.items() if not within or item.set == within}
                for exam in exams
            )
        )

    def between(self, left: Arm, right: Arm, measure: Measure, within: str = "") -> MeasuredEffect:
        """One arm minus another, task by task."""
        pairs = ((self.exam(left, seed), self.exam(right, seed)) for seed in self.settings.seeds)
        return MeasuredEffect(tuple(_paired(ours, theirs, measure, within) for ours, theirs in pairs))

    def between_steps(self, left: Arm, right: Arm, value: str, since: float = 0.0) -> MeasuredEffect:
        """One arm minus another, step by step from the fraction `since` of the steps on, in blocks."""
        made = []
        for seed in self.settings.seeds:
            ours, theirs = self.steps(left, seed), self.steps(right, seed)
            first = int(since * min(len(ours), len(theirs)))
            rows = zip(ours[first:], theirs[first:], strict=False)
            made.append(blocks([a[value] - b[value] if value in a and value in b else None for a, b in rows]))
        return MeasuredEffect(tuple(made))

    def later(self, arm: Arm, value: str) -> MeasuredEffect:
        """The last third of an arm's steps minus the mean of the third before it, in blocks."""
        made = []
        for seed in self.settings.seeds:
            values = [step.get(value) for step in self.steps(arm, seed)]
            third = len(values) // 3
            before = [item for item in values[third : 2 * third] if item is not None]
            rest = [None if item is None or not before else item - fmean(before) for item in values[2 * third :]]
            made.append(blocks(rest))
        return MeasuredEffect(tuple(made))


def blocks(values: list[float | None]) -> dict[str, float]:
    """Means of at most `BLOCKS` runs of neighbours, by their number; a block without any value is left out."""
    size = max(1, -(-len(values) // BLOCKS))
    made: dict[str, float] = {}
    for first in range(0, len(values), size):
        known = [item for item in values[first : first + size] if item is not None]
        if known:
            made[str(first // size)] = fmean(known)
    return made


def _paired(
    left: Mapping[str, ExamAnswer], right: Mapping[str, ExamAnswer], measure: Measure, within: str
) -> dict[str, float]:
    return {
        name: measure(item) - measure(right[name])
        for name, item in left.items()
        if name in right and (not within or item.set == within)
    }
