"""Relaxed accuracy of ChartQA (Masry et al. 2022): numbers within 5 %, years and all else exact.

A year is a whole number from 1800 to 2100 written as four bare digits. The published script knows no years (2019 passes
for 2010 there) and leaves out the percent sign; here `5%` and `0.05` are the same number (see `compare`). A gold
answer in square brackets is a list; each of its items is compared by this rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from saccade.grading.base import Verdict, gold_of, judged, right, wrong
from saccade.grading.clean import folded
from saccade.grading.compare import Tolerance, same_quantity
from saccade.grading.lists import items
from saccade.grading.quantities import quantity
from saccade.grading.text import same_text, starts_as_number
from saccade.record.task import Task

_YEAR = re.compile(r"18[0-9]{2}|19[0-9]{2}|20[0-9]{2}|2100")


@dataclass(frozen=True, slots=True)
class RelaxedGrader:
    """Numbers within a share of the gold answer, years and text exact."""

    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.05
    """As a share of the gold answer; 5 % in ChartQA."""
    exact_years: bool = True
    """Whether a gold answer that is a year must be met exactly; the published script does not ask for that."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = gold_of(task)
        return judged(answer, lambda prediction: self._compare(prediction, gold))

    def _compare(self, prediction: str, gold: str) -> Verdict:
        target = items(gold) if gold.strip().startswith("[") and gold.strip().endswith("]") else (gold,)
        predicted = items(prediction) if len(target) > 1 else (prediction,)
        share = f"{100 * self.tolerance:g} %"
        if len(target) == len(predicted) and all(self._same(*pair) for pair in zip(predicted, target, strict=True)):
            return right(f"same text, or within {share}", prediction)
        return wrong(f"another text, or not within {share}", prediction)

    def _same(self, prediction: str, gold: str) -> bool:
        if same_text(prediction, gold):
            return True
        answer, target = quantity(prediction), quantity(gold)
        year = self.exact_years and _YEAR.fullmatch(folded(gold)) is not None
        # Through the decimal text: 0.05 is a twentieth and not the float nearest to it.
        tolerance = Tolerance(relative=Fraction(str(self.tolerance)))
        number = answer is not None and target is not None and same_quantity(answer, target, tolerance)
        return number and starts_as_number(gold) and not year


RELAXED = RelaxedGrader()
