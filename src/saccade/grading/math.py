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
        return judged(answer, lambda said: _best(said, golds), _said)


def _said(candidate: str) -> object:
    return number_said(candidate) or words_said(candidate)


def _best(said: str, golds: Sequence[str]) -> Verdict:
    """The verdict by the accepted answer that is met, or else by the first one."""
    concluded = re.split(r"\b(?:is|are|equals)\b", said)[-1].strip()
    if concluded != said and DOUBT.search(said) is None and any(same_formula(concluded, gold) for gold in golds):
        return right("equal formulas", said)
    verdict = _compare(said, golds[0])
    others = (_compare(said, gold) for gold in golds[1:])
    return verdict if verdict.accepted else next((other for other in others if other.accepted), verdict)


def _compare(said: str, gold: str) -> Verdict:
    if same_text(said, gold) or tight(unwrapped(said)) == tight(unwrapped(gold)) != "":
        return right("same text", said)
    number, wanted = quantity(said), quantity(gold)
    if number is not None and wanted is not None:
        same = same_quantity(number, wanted)
        return right("same number", said) if same else wrong("another number or unit", said)
    if DOUBT.search(said):
        return wrong("takes something back", said)
    if same_formula(said, gold):
        return right("equal formulas", said)
    if differ_in_kind(said, gold):
        return wrong("another kind of formula: a set is no point, and a matrix no number", said)
    formulas = comparable_formula(unwrapped(gold)), comparable_formula(said)
    if formulas[0] is None or formulas[1] is None:
        return wrong("another text, and not two formulas that can be compared", said)
    found = shared_comparer().same(formulas[0], formulas[1])
    if found is None:
        return wrong("could not be compared within the limits", said)
    return right("equal formulas", said) if found else wrong("another formula", said)


MATH = MathGrader()
