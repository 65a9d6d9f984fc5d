"""Grade with partial credit: ANLS for text, mean relative accuracy for numbers.

ANLS (Biten et al. 2019) of one answer, the best over all gold answers:

    1 - distance / longer length, if that is more than 0.5, else 0

In `anls` a numeric gold answer gives full or no credit, since 1000 is not almost 100; `anls-published` is the published
score, for comparison with papers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from saccade.grading.base import Verdict, gold_of, golds_of, judged, unread, unreadable
from saccade.grading.clean import folded
from saccade.grading.quantities import quantity
from saccade.grading.text import comparable, number_said, same_text, starts_as_number
from saccade.record.task import Task


@dataclass(frozen=True, slots=True)
class AnlsGrader:
    """Text similarity from 0 to 1; the gold answer may be a JSON array of accepted ones."""

    strict_numbers: bool = True
    """Whether a gold answer that is a number must be met exactly."""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Similarities up to this get no credit."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        golds = golds_of(task)

        def compare(prediction: str) -> Verdict:
            best = max(self._similarity(prediction, gold) for gold in golds)
            return Verdict(best, f"similarity {best:.3f}", prediction)

        return judged(answer, task, compare)

    def _similarity(self, prediction: str, gold: str) -> float:
        if self.strict_numbers:
            if same_text(prediction, gold):
                return 1.0
            if starts_as_number(gold) and quantity(gold) is not None:
                return 0.0
        return similarity(folded(prediction), folded(gold), self.threshold)


def similarity(left: str, right: str, threshold: float = 0.5) -> float:
    """Return 1 - Levenshtein distance / longer length; 0 if that is `threshold` or less."""
    longest = max(len(left), len(right))
    if left == right:
        return 1.0
    if min(len(left), len(right)) <= threshold * longest:  # the distance takes steps by both lengths
        return 0.0
    score = 1 - _distance(left, right) / longest
    return score if score > threshold else 0.0


def _distance(left: str, right: str) -> int:
    """Compute the Levenshtein distance (insertions, deletions, replacements)."""
    row = list(range(len(right) + 1))
    for i, sign in enumerate(left, start=1):
        previous, row[0] = row[0], i
        for j, other in enumerate(right, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (sign != other))
    return row[-1]


ANLS = AnlsGrader()
PUBLISHED = AnlsGrader(strict_numbers=False)
THRESHOLDS = tuple(Fraction(step, 20) for step in range(10, 20))


@dataclass(frozen=True, slots=True)
class MraGrader:
    """Mean relative accuracy of VSI-Bench (Yang et al. 2024), from 0 to 1 in steps of 0.1.

        mean over t in 0.50, 0.55, ..., 0.95 of: relative error <= 1 - t

    The bound is included, as in the official code: 3 for 4 is 0.6. Only 0 meets 0. The final answer's number counts,
    not the first one of the transcript.
    """

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        gold = quantity(gold_of(task))
        if gold is None:
            raise unreadable(task, "number")

        def compare(prediction: str) -> Verdict:
            estimate = quantity(prediction)
            if estimate is None:
                return unread("states no single number", prediction)
            best = max((mean_relative_accuracy(*values) for values in comparable(estimate, gold)), default=0.0)
            return Verdict(best, f"mean relative accuracy {best:.1f}", prediction)

        return judged(answer, task, compare, number_said, prose=True)


def mean_relative_accuracy(estimate: Fraction, gold: Fraction) -> float:
    """Return the share of the ten thresholds that `estimate` meets."""
    if gold == 0:
        return float(estimate == 0)
    error = abs(estimate - gold) / abs(gold)
    return sum(error <= 1 - threshold for threshold in THRESHOLDS) / len(THRESHOLDS)


MRA = MraGrader()
