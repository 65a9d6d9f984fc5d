"""Mathematics: equal formulas, by math-verify where neither text nor number decides.

Numbers and plain text are compared as `number` and `text` do, formulas by their values (`formula`: units, matrices,
degrees); only what is left, and is a small formula on both sides, goes to the algebra system, in a process of its own
(`math_process`). 1/3 is not 0.333; a decimal against a root counts to six places. `x = 5` is 5. What could not be
decided within the limits is wrong, and the verdict says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from saccade.grading.base import Verdict, golds_of, judged, right, wrong
from saccade.grading.compare import number_said, same_quantity
from saccade.grading.extract import words_said
from saccade.grading.formula import differ_in_kind, same_formula
from saccade.grading.latex import comparable_formula
from saccade.grading.math_process import shared_comparer
from saccade.grading.quantities import DOUBT, quantity
from saccade.grading.text import same_text
from saccade.grading.wrappers import tight, unwrapped
from saccade.record.task import Task


@dataclass(frozen=True, slots=True)
class MathGrader:
    """Equality of formulas: fractions, roots, sets, intervals, equations."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`.

        Raises:
            UnavailableError: a formula has to be compared, and math-verify is not installed.
        """
        golds = golds_of(task)
        return judged(answer, lambda prediction: _best(prediction, golds), _said)


def _said(candidate: str) -> object:
    return number_said(candidate) or words_said(candidate)


def _best(prediction: str, golds: Sequence[str]) -> Verdict:
    """The verdict by the accepted answer that is met, or else by the first one."""
    concluded = re.split(r"\b(?:is|are|equals)\b", prediction)[-1].strip()
    if (
        concluded != prediction
        and DOUBT.search(prediction) is None
        and any(same_formula(concluded, gold) for gold in golds)
    ):
        return right("equal formulas", prediction)
    verdict = _compare(prediction, golds[0])
    others = (_compare(prediction, gold) for gold in golds[1:])
    return verdict if verdict.accepted else next((other for other in others if other.accepted), verdict)


def _compare(prediction: str, gold: str) -> Verdict:
    if same_text(prediction, gold) or tight(unwrapped(prediction)) == tight(unwrapped(gold)) != "":
        return right("same text", prediction)
    number, target = quantity(prediction), quantity(gold)
    if number is not None and target is not None:
        same = same_quantity(number, target)
        return right("same number", prediction) if same else wrong("another number or unit", prediction)
    if DOUBT.search(prediction):
        return wrong("takes something back", prediction)
    if same_formula(prediction, gold):
        return right("equal formulas", prediction)
    if differ_in_kind(prediction, gold):
        return wrong("another kind of formula: a set is no point, and a matrix no number", prediction)
    formulas = comparable_formula(unwrapped(gold)), comparable_formula(prediction)
    if formulas[0] is None or formulas[1] is None:
        return wrong("another text, and not two formulas that can be compared", prediction)
    found = shared_comparer().same(formulas[0], formulas[1])
    if found is None:
        return wrong("could not be compared within the limits", prediction)
    return right("equal formulas", prediction) if found else wrong("another formula", prediction)


MATH = MathGrader()
