"""Numbers: exact, rounded as the gold answer is, or within a stated tolerance; counts and years exact.

number            the same value: 2.4 is 2.40, 12/5 and 240%; 2.41 is not
number-rounded    a gold answer with decimals is met by what rounds to it: 3.14159 is 3.14; a whole one is exact
number-1pct       within 1 % of the gold answer
                  (`number:relative=0.02` and `number:absolute=1` state other tolerances)
count             a whole number, exact; units or nouns may follow
year              four digits, exact
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from saccade.grading.base import Verdict, gold_of, judged, right, unreadable, wrong
from saccade.grading.clean import folded
from saccade.grading.compare import EXACT, Tolerance, same_quantity
from saccade.grading.quantities import Quantity, quantity
from saccade.record.task import Task


@dataclass(frozen=True, slots=True)
class NumberGrader:
    """A number with or without unit, within a tolerance; by default the same value."""

    relative: Annotated[float, Field(ge=0, le=1)] = 0
    """How far an answer may lie from the gold one, as a share of that: 0.05 is 5 %."""
    absolute: Annotated[float, Field(ge=0)] = 0
    """How far it may lie in the gold answer's unit; the wider of both holds."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        text = gold_of(task)
        gold = quantity(text)
        if gold is None:
            raise unreadable(task, "number")
        return judged(answer, lambda said: compare_number(said, text, self._within(text, gold)))

    def _within(self, text: str, gold: Quantity) -> Tolerance:
        # Through the decimal text: 0.05 is a twentieth and not the float nearest to it.
        return Tolerance(Fraction(str(self.relative)), Fraction(str(self.absolute)))


@dataclass(frozen=True, slots=True)
class RoundedGrader(NumberGrader):
    """A number that rounds to the gold answer at the last decimal place that the gold answer has."""

    def _within(self, text: str, gold: Quantity) -> Tolerance:
        stated = NumberGrader._within(self, text, gold)
        decimals = re.findall(r"[0-9]?\.([0-9]+)(?![0-9]*[eE^])", text)
        if len(decimals) != 1:
            return stated
        return Tolerance(stated.relative, max(stated.absolute, Fraction(1, 2 * 10 ** len(decimals[0]))))


@dataclass(frozen=True, slots=True)
class CountGrader:
    """How many: a whole number, exact. `5.0` is 5, `5%` and "about 5" are not."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = quantity(gold_of(task))
        if gold is None or gold.value.denominator != 1 or gold.percent:
            raise unreadable(task, "whole number")
        return judged(answer, lambda said: _compare_count(said, gold))


@dataclass(frozen=True, slots=True)
class YearGrader:
    """A year of four digits, exact: "in 2010" is 2010; `2,010` and `2010.5` are no years."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = _year(gold_of(task))
        if gold is None:
            raise unreadable(task, "year of four digits")
        return judged(answer, lambda said: _compare_year(said, gold))


def compare_number(said: str, gold: str, tolerance: Tolerance = EXACT) -> Verdict:
    """The verdict on the candidate `said`; `gold` is a text that states one number."""
    if folded(said) == folded(gold):
        return right("same text", said)
    answer, wanted = quantity(said), quantity(gold)
    if answer is None or wanted is None:
        return wrong("states no single number", said)
    if same_quantity(answer, wanted, tolerance):
        return right("same number" if tolerance.exact else "within tolerance", said)
    if answer.about and tolerance.exact:
        return wrong("an approximate number where an exact one is asked for", said)
    return wrong("another number or unit", said)


def _compare_count(said: str, gold: Quantity) -> Verdict:
    answer = quantity(said)
    if answer is None:
        return wrong("states no single number", said)
    if answer.percent or answer.value.denominator != 1:
        return wrong("is no count", said)
    if same_quantity(answer, gold):
        return right("same count", said)
    return wrong("an approximate count" if answer.about else "another count", said)


def _year(text: str) -> str | None:
    found = re.findall(r"(?<![\w.,:/%$-])[0-9]{4}(?![\w,:/%]|\.[0-9])", folded(text))
    said = quantity(text)
    return found[0] if len(found) == 1 and said is not None and not said.about and not said.percent else None


def _compare_year(said: str, gold: str) -> Verdict:
    answer = _year(said)
    if answer is None:
        return wrong("states no single year", said)
    return right("same year", said) if answer == gold else wrong("another year", said)


NUMBER = NumberGrader()
ROUNDED = RoundedGrader()
ONE_PERCENT = NumberGrader(relative=0.01)
COUNT = CountGrader()
YEAR = YearGrader()
