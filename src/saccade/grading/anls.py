"""ANLS, the average normalised Levenshtein similarity of DocVQA (Biten et al. 2019), for one answer.

    1 - distance / longer length, if that is more than 0.5, else 0; the best over all gold answers

`anls` differs from the published score in one point: a gold answer that is a number gives full or no credit, since 1000
is not almost 100. `anls-published` is the published score, for comparison with papers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from saccade.grading.base import Verdict, golds_of, judged
from saccade.grading.clean import folded
from saccade.grading.quantities import quantity
from saccade.grading.text import same_text, starts_as_number
from saccade.record.task import Task


@dataclass(frozen=True, slots=True)
class AnlsGrader:
    """Similarity of text from 0 to 1; the gold answer may be a JSON array of several accepted ones."""

    strict_numbers: bool = True
    """Whether a gold answer that is a number must be met exactly."""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """A similarity up to it has no credit."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        golds = golds_of(task)

        def compare(prediction: str) -> Verdict:
            best = max(self._similarity(prediction, gold) for gold in golds)
            return Verdict(best, f"similarity {best:.3f}", prediction)

        return judged(answer, compare)

    def _similarity(self, prediction: str, gold: str) -> float:
        if self.strict_numbers:
            if same_text(prediction, gold):
                return 1.0
            if starts_as_number(gold) and quantity(gold) is not None:
                return 0.0
        return similarity(folded(prediction), folded(gold), self.threshold)


def similarity(left: str, right: str, threshold: float = 0.5) -> float:
    """One less the Levenshtein distance over the longer length; 0 where that is `threshold` or less."""
    longest = max(len(left), len(right))
    if left == right:
        return 1.0
    if min(len(left), len(right)) <= threshold * longest:  # the distance takes steps by both lengths
        return 0.0
    score = 1 - _distance(left, right) / longest
    return score if score > threshold else 0.0


def _distance(left: str, right: str) -> int:
    """Levenshtein distance: characters to insert, to leave out or to replace."""
    row = list(range(len(right) + 1))
    for i, sign in enumerate(left, start=1):
        previous, row[0] = row[0], i
        for j, other in enumerate(right, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (sign != other))
    return row[-1]


ANLS = AnlsGrader()
PUBLISHED = AnlsGrader(strict_numbers=False)
