"""Grade numbers: exact, rounded like the gold answer, or within a tolerance; counts and years exact.

number            the same value: 2.4 is 2.40, 12/5 and 240%; 2.41 is not
number-rounded    a gold answer with decimals is met by what rounds to it: 3.14159 is 3.14; a whole one is exact
number-1pct       within 1 % of the gold answer
                  (`number:relative=0.02` and `number:absolute=1` state other tolerances)
count             a whole number, exact; units or nouns may follow
year              four digits, exact
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Final

from pydantic import Field

from saccade.grading.asked import asked_for, asks_year, strays, told_first
from saccade.grading.base import Compare, Verdict, golds_of, judged, right, unread, unreadable, wrong
from saccade.grading.clean import LONGEST_ANSWER, clean, folded
from saccade.grading.extract import in_final_part, without_question
from saccade.grading.languages import DOUBT, any_of
from saccade.grading.notation import in_one_notation, scale_asked
from saccade.grading.quantities import Quantity, Unit, is_known, numerals, quantity, unit_named
from saccade.grading.reckoned import reckoned
from saccade.grading.text import Tolerance, number_said, same_quantity
from saccade.record.task import Task


@dataclass(frozen=True, slots=True)
class NumberGrader:
    """A number with or without unit, within a tolerance; by default the same value."""

    relative: Annotated[float, Field(ge=0, le=1)] = 0
    """How far an answer may lie from the gold one, as a share of that: 0.05 is 5 %."""
    absolute: Annotated[float, Field(ge=0)] = 0
    """How far it may lie in the gold answer's unit; the wider of both holds."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        golds = [(text, quantity(text)) for text in golds_of(task)]
        known = [(text, self._within(text, gold)) for text, gold in golds if gold is not None]
        if not known:
            raise unreadable(task, "number")
        asked = _Asked(task.question, scale_asked(task.question), _READ_OFF.search(task.question) is not None)
        return _judged(answer, task, lambda prediction: _best(prediction, known, asked))

    def _within(self, text: str, gold: Quantity) -> Tolerance:
        # Through the decimal text: 0.05 is a twentieth and not the float nearest to it.
        return Tolerance(Fraction(str(self.relative)), Fraction(str(self.absolute)))


@dataclass(frozen=True, slots=True)
class _Rounded(Tolerance):
    places: int = 0

    def holds(self, answer: Fraction, gold: Fraction) -> bool:
        # As MathVista rounds: the nearest float decides at halves, so 2.55 is 2.5 and 2.65 is 2.6.
        return round(float(answer), self.places) == float(gold) or Tolerance.holds(self, answer, gold)


@dataclass(frozen=True, slots=True)
class RoundedGrader(NumberGrader):
    """A number that rounds to the gold answer at the last decimal place that the gold answer has."""

    def _within(self, text: str, gold: Quantity) -> Tolerance:
        stated = NumberGrader._within(self, text, gold)
        decimals = re.findall(r"[0-9]?\.([0-9]+)(?![0-9]*[eE^])", text)
        if len(decimals) != 1:
            return stated
        return _Rounded(stated.relative, stated.absolute, len(decimals[0]))


@dataclass(frozen=True, slots=True)
class CountGrader:
    """How many: a whole number, exact. `5.0` is 5, `5%` and "about 5" are not."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        golds = [quantity(text) for text in golds_of(task)]
        known = [gold for gold in golds if gold is not None and gold.value.denominator == 1 and not gold.percent]
        if not known:
            raise unreadable(task, "whole number")
        return _judged(answer, task, lambda prediction: _compare_count(prediction, known))


@dataclass(frozen=True, slots=True)
class YearGrader:
    """A year of four digits, exact: "in 2010" is 2010; `2,010` and `2010.5` are no years."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        golds = [year for year in map(_year, golds_of(task)) if year is not None]
        if not golds:
            raise unreadable(task, "year of four digits")
        return judged(answer, task, lambda prediction: _compare_year(prediction, golds), _year, prose=True)


_ANY_YEAR = re.compile(r"(?<![0-9.,])(?:1[89]|20)[0-9]{2}(?![0-9])")
_REMARK = re.compile(r"(?<=[^\s(])\s?\([^()0-9]{20,200}\)\W*\Z")
"""A remark of words in brackets at the end, which may hold number words: "-2 °C (it stands two marks below zero)"."""
_NOT_COUNTED = re.compile(
    r"\s?\((?:not\s(?:counting|including)|excluding|without|не\sсчитая|без|ohne|nicht\smitgezählt|sans(?:\scompter)?|sin(?:\scontar)?|sem(?:\scontar)?|senza(?:\scontare)?|esclus[oaie]|nie\slicząc|bez"
    r"|不算|不含|不包括|除|を除く)[^()0-9]{0,60}\)",
    re.IGNORECASE,
)
"""What a count leaves out, in brackets: "14 cars (not counting the engine)"."""
_SCALE = re.compile(r"\s(?:on|of)\s(?:the|a|its)\s[0-9.]{1,9}\s?(?:-|to)\s?[0-9.]{1,9}\s?\S{0,9}\s(?:scale|range)\b")
"""What a hand points along, which is no reading: "0.36 A on the 0-0.6 A scale"."""
_QUOTED = re.compile(r"[\"“„«「‘']([^\W\d_][^\"“”„»」’'\n0-9]{1,40})[\"”“»」’']")
_LONGEST = 20_000
"""Characters of an answer beyond which the question is not asked."""


def _judged(answer: str | None, task: Task, compare: Compare) -> Verdict:
    """Judge the one number that an answer states; of several, the one that the question asks for."""
    if answer is not None and len(answer) <= LONGEST_ANSWER:
        for quoted in filter(DOUBT.search, _QUOTED.findall(task.question)):
            answer = answer.replace(quoted, "so")  # an option called "Never" denies nothing
        golds = [quantity(text) for text in golds_of(task)]
        thousands = any(gold and gold.value >= 1000 and gold.value.denominator == 1 for gold in golds)
        answer = in_one_notation(answer, task.question, thousands)
    if answer is None or not task.question or len(answer) > _LONGEST:
        return judged(answer, task, compare, number_said, prose=True)
    whole = in_final_part(without_question(answer, task.question))
    told = (reckoned(whole, task.question) or told_first(whole, task.question)) if whole else None
    if told is not None and quantity(told) is not None:
        return compare(told)

    def meant(text: str) -> str:
        text = _NOT_COUNTED.sub("", text)
        text = _SCALE.sub("", _REMARK.sub("", text)) if DOUBT.search(text) is None else text
        if quantity(text) is not None and not asks_year(task.question):
            return text
        one_year = not asks_year(task.question) or len(set(_ANY_YEAR.findall(text))) < 2
        return asked_for(text, task.question) or (text if one_year else "")

    verdict = judged(answer, task, compare, number_said, prose=True)
    if verdict.read and not asks_year(task.question):
        said = numerals(verdict.extracted or "") if verdict.accepted and whole else None
        stray = said and said[0].value in strays(whole or "", task.question)
        return unread("says that of another year or in comparison", verdict.extracted) if stray else verdict
    again = judged(answer, task, lambda text: compare(meant(text)), lambda text: number_said(meant(text)), prose=True)
    return again if again.read or asks_year(task.question) else verdict


@dataclass(frozen=True, slots=True)
class _Asked:
    """How a question asks for its number."""

    question: str
    scale: int
    read_off: bool
    """Whether it is read off a chart or map, or a population or price, so that "about" hedges nothing."""

    def rounds(self, said: Quantity) -> bool:
        """Tell whether "about" only says that a number is rounded, where a count of few things would be another one."""
        return abs(said.value) >= (20 if self.read_off else 1000)


_READ_OFF = any_of("shown", r"\b(?:chart|graph|map|table|diagram|plot|population|price)s?\b")


def _compare(prediction: str, gold: str, tolerance: Tolerance, asked: _Asked) -> Verdict:
    """Return the verdict on a candidate; `gold` is a text that states one number, asked for in a scale or unit."""
    if folded(prediction) == folded(gold):
        return right("same text", prediction)
    answer, target = quantity(prediction), quantity(gold)
    if answer is None or target is None:
        return unread("states no single number", prediction)
    if answer.about and asked.rounds(answer):
        answer = replace(answer, about=False)
    if target.unit is None:
        answer = _in_unit_asked(answer, asked.question)
    if same_quantity(answer, target, tolerance):
        return right("same number" if tolerance.exact else "within tolerance", prediction)
    scaled = [replace(one, value=one.value / asked.scale) for one in (answer, target)]
    in_words = re.search(r"[^\W\d_]", gold) is not None  # a gold answer of 5000, in thousands, is not 5
    if same_quantity(scaled[0], target, tolerance) or (in_words and same_quantity(answer, scaled[1], tolerance)):
        return right("same number in the scale that the question asks for", prediction)
    if answer.about and tolerance.exact:
        return wrong("an approximate number where an exact one is asked for", prediction)
    return wrong("another number or unit", prediction)


def _best(prediction: str, golds: Sequence[tuple[str, Tolerance]], asked: _Asked) -> Verdict:
    """Return the verdict by the accepted answer that is met, or else by the first one."""
    verdicts = [_compare(prediction, text, within, asked) for text, within in golds]
    return next((verdict for verdict in verdicts if verdict.accepted), verdicts[0])


def _compare_count(prediction: str, golds: Sequence[Quantity]) -> Verdict:
    answer = quantity(prediction)
    if answer is None:
        return unread("states no single number", prediction)
    if answer.percent or answer.value.denominator != 1:
        return wrong("is no count", prediction)
    if any(same_quantity(answer, gold) for gold in golds):
        return right("same count", prediction)
    return wrong("an approximate count" if answer.about else "another count", prediction)


def _year(text: str) -> str | None:
    found = re.findall(r"(?<![\w.,:/%$-])[0-9]{4}(?![\w,:/%]|\.[0-9])", folded(text))
    year = quantity(text)
    return found[0] if len(found) == 1 and year is not None and not year.about and not year.percent else None


def _compare_year(prediction: str, golds: Sequence[str]) -> Verdict:
    answer = _year(prediction)
    if answer is None:
        return unread("states no single year", prediction)
    return right("same year", prediction) if answer in golds else wrong("another year", prediction)


NUMBER = NumberGrader()
ROUNDED = RoundedGrader()
ONE_PERCENT = NumberGrader(relative=0.01)
COUNT = CountGrader()
YEAR = YearGrader()


_HOW_MANY: Final = (
    r"how\s(?:many|much)|cuánt[oa]s?|combien(?:\sde|\sd')?|wie\s?viele?|quant[oaie]s?|сколько|скільки|ile|hoeveel|kaç|bao\snhiêu|mấy"
    r"|berapa|كم|چند|کتنے|कितन[ेीा]|কত|hur\smånga|hvor\smange|kolik|câ[tț][ie]|câte|πόσ[αεο][ςι]?|כמה|hány|kuinka\smonta"
)
_SQUARED: Final = r"(?P<square>square\s|sq\.?\s|cubic\s)?"
_ASKED: Final = re.compile(
    rf"(?<![^\W\d_])(?:in|en|em|i|в|у|w|v|σε|{_HOW_MANY})(?:\s|(?<=')){_SQUARED}(?P<unit>[^\W\d_]+[²³]?)"
    r"|(?:多少|几|幾|何|몇\s?|单位\s?[:是为]?\s?|單位\s?:?\s?|単位\s?[:は]?\s?|단위\s?:?\s?|กี่\s?)(?P<near>[^\W\d_]{1,7}[²³]?)"
    r"|[(\[]\s?(?P<bracketed>[^\W\d_]+[²³]?)\s?[)\]]",
    re.IGNORECASE,
)
_NO_UNIT: Final = frozenset("in s a h st nd rd th".split())  # noqa: SIM905
"""Words that are a unit elsewhere: "in", and letters."""
_MONEY: Final = ("dollar", "euro", "pound")


@lru_cache(maxsize=1024)
def _units_asked(question: str) -> tuple[Unit, ...]:
    found = []
    for match in _ASKED.finditer(clean(question)):
        word = (match["unit"] or match["bracketed"] or match["near"]).casefold()
        if match["near"]:
            word = next((word[:end] for end in range(len(word), 0, -1) if is_known(word[:end])), "")
        if match["square"]:
            word = ""
        if is_known(word) and word not in _NO_UNIT:
            found.append(unit_named(word))
    return tuple(dict.fromkeys(found))


def _in_unit_asked(answer: Quantity, question: str) -> Quantity:
    """Return `answer` in the unit of its dimension that the question asks for, if there is one and no other."""
    unit = answer.unit
    asked = [one for one in _units_asked(question) if unit is not None and one.dimension == unit.dimension]
    money = [one for one in _units_asked(question) if one.dimension in _MONEY]
    if unit is None or unit.dimension == "percent":
        return answer
    if unit == unit_named("cents") and money and all(one.factor == 1 for one in money):
        return replace(answer, value=answer.value / 100, unit=money[0])
    if len(asked) != 1:
        return answer
    return replace(answer, value=answer.value * unit.factor / asked[0].factor, unit=asked[0])
