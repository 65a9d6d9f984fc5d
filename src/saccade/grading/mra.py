"""Mean relative accuracy of VSI-Bench (Yang et al. 2024): how many of ten tolerances an estimate meets.

    mean over t in 0.50, 0.55, ..., 0.95 of: relative error <= 1 - t

The bound itself is near enough, as in the official code: 3 for 4 is 0.6. A gold answer of 0 is met by 0 alone. The
number is that of the final answer, not the first one of the transcript.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from saccade.grading.base import Verdict, gold_of, judged, unread, unreadable
from saccade.grading.compare import comparable, number_said
from saccade.grading.quantities import quantity
from saccade.record.task import Task

THRESHOLDS = tuple(Fraction(step, 20) for step in range(10, 20))


@dataclass(frozen=True, slots=True)
class MraGrader:
    """Mean relative accuracy, from 0 to 1 in steps of 0.1."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = quantity(gold_of(task))
        if gold is None:
            raise unreadable(task, "number")

        def compare(prediction: str) -> Verdict:
            estimate = quantity(prediction)
            if estimate is None:
                return unread("states no single number", prediction)
            best = max((mean_relative_accuracy(*values) for values in comparable(estimate, gold)), default=0.0)
            return Verdict(best, f"mean relative accuracy {best:.1f}", prediction)

        return judged(answer, compare, number_said, prose=True)


def mean_relative_accuracy(estimate: Fraction, gold: Fraction) -> float:
    """Share of the ten thresholds that `estimate` meets."""
    if gold == 0:
        return float(estimate == 0)
    error = abs(estimate - gold) / abs(gold)
    return sum(error <= 1 - threshold for threshold in THRESHOLDS) / len(THRESHOLDS)


MRA = MraGrader()
