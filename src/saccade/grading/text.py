"""Grade text: the same words, ignoring letter case, white space, markup, quotes and punctuation at the ends.

Nothing is stemmed or searched inside a longer text. A time of day or number also matches another spelling of the same
value, unless the number has leading zeros, which make it a code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from saccade.grading.base import Verdict, golds_of, judged, right, wrong
from saccade.grading.clean import clean, folded, unwrapped
from saccade.grading.extract import emphasised
from saccade.grading.languages import DOUBT
from saccade.grading.number_words import date_of, same_time, with_digits
from saccade.grading.quantities import ORDINAL, Quantity, quantity
from saccade.record.task import Task

# Units of one dimension are converted (`100 cm` is `1 m`) and may be missing on either side. If only the gold answer
# has a percent sign, number and fraction match (`5%`: `5`, `0.05`); if only the answer has one, a gold value of at most
# 1 is a fraction (`0.05` is `5%`), a larger one is in percent (`5` is `5%`).

_HUNDRED = Fraction(100)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an answer may lie from the gold one; zero, zero means equal."""

    relative: Fraction = Fraction(0)
    """As a share of the gold value: 1/20 is 5 %."""
    absolute: Fraction = Fraction(0)

    @property
    def exact(self) -> bool:
        """Whether nothing but the same value will do."""
        return type(self) is Tolerance and not self.relative and not self.absolute

    def holds(self, answer: Fraction, gold: Fraction) -> bool:
        """Whether `answer` is near enough; the bound itself is near enough."""
        return abs(answer - gold) <= max(abs(gold) * self.relative, self.absolute)


EXACT = Tolerance()


def same_quantity(answer: Quantity, gold: Quantity, tolerance: Tolerance = EXACT) -> bool:
    """Whether `answer` is `gold` within `tolerance`. "About 5" is never exactly 5."""
    if answer.about and tolerance.exact:
        return False
    return any(tolerance.holds(*values) for values in comparable(answer, gold))


def comparable(answer: Quantity, gold: Quantity) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the values of both in one unit, in each reading that counts; none if their units do not agree."""
    if answer.percent and gold.unit is None:
        yield (answer.value / _HUNDRED if abs(gold.value) <= 1 else answer.value), gold.value
    elif gold.percent and answer.unit is None:
        yield answer.value, gold.value
        yield answer.value * _HUNDRED, gold.value
    elif gold.unit is None:
        if answer.unit is None or answer.unit.dimension != ORDINAL:
            yield answer.value, gold.value
    elif answer.unit is None:
        if gold.unit.dimension != ORDINAL:
            yield answer.value, gold.value
    elif answer.unit.dimension == gold.unit.dimension:
        yield answer.value * answer.unit.factor, gold.value * gold.unit.factor


@dataclass(frozen=True, slots=True, eq=False)
class StatedNumber:
    """A number that a text states, equal to another one of the same value and with no other unit."""

    quantity: Quantity

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StatedNumber):
            return NotImplemented
        pairs = (self.quantity, other.quantity), (other.quantity, self.quantity)
        return any(answer == gold for pair in pairs for answer, gold in comparable(*pair))

    __hash__ = None  # type: ignore[assignment]


def number_said(text: str) -> StatedNumber | None:
    """Return the number that `text` states, for `judged`; None if it states none, or several."""
    found = quantity(text)
    return None if found is None else StatedNumber(found)


_NUMERIC = re.compile(r"[-+$€£¥]{0,2}(?:0?\.|0(?![0-9])|[1-9])[0-9.,/\s]{0,80}(?:[%°]|per\s?cent)?|-?\\frac.{0,80}")


@dataclass(frozen=True, slots=True)
class TextGrader:
    """Exact text; the gold answer may be a JSON array of several accepted ones."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        golds = golds_of(task)
        verdict = judged(answer, task, lambda prediction: _compare(prediction, golds))
        if verdict.accepted or answer is None:
            return verdict
        stressed = [_compare(piece, golds) for piece in emphasised(answer, task.question)]
        return stressed[0] if stressed and stressed[0].accepted else verdict


_SUBSCRIPT = re.compile(r"(?<=[a-z)])_(?:([0-9])(?![0-9])|\{([0-9]{1,3})\})")  # H_2O


def bare(text: str) -> str:
    """Return `text` as it is compared."""
    plain = _SUBSCRIPT.sub(r"\1\2", folded(unwrapped(clean(text))).strip(" .,;:\"'"))
    return re.sub(r"(?<=[^\W\d_]{2})!+$", "", plain)  # "Yes!", but not `4!` or `n!`


def same_text(prediction: str, gold: str) -> bool:
    """Whether both are the same words, or, for a gold answer that is a bare number, the same number."""
    if bare(prediction) == bare(gold):
        return bare(gold) != "" or prediction.strip() == gold.strip()
    if same_time(prediction, gold):
        return True
    if _NUMERIC.fullmatch(bare(gold)) is None:
        return False
    answer, target = quantity(prediction), quantity(gold)
    return answer is not None and target is not None and same_quantity(answer, target)


def _measures(found: Quantity | None) -> bool:
    """Tell whether a number has a unit that is known: `5 km` is `5000 m`, but "5 cats" is a text."""
    unit = found.unit if found is not None else None
    return unit is not None and not unit.dimension.startswith("word:") and unit.dimension != ORDINAL


def starts_as_number(text: str) -> bool:
    """Whether `text` is a number with what may follow one, and no name with a number in it, such as "Top 5"."""
    return re.match(r"[-+~]?\s?[$€£¥]?\s?-?\.?[0-9]", bare(text)) is not None


# Sentences that state one thing and nothing else: "This is X", "Es ist X zu sehen", `这是X`, `X가 있습니다`.
_UP_TO: Final = r"(?P<said>[^.!?:;\n]{1,80}?)"
_STATED: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"(?:the|it|this|that|he|she|they)\b[^.!?:;,\n]{0,60}?(?:\s(?:is|are|was|were)|'s)\s(?:called\s|named\s)?"
        + _UP_TO,
        r"the\b[^.!?:;,\n]{0,60}?\s(?:shows?|says|reads|displays|depicts|spells)\s(?:as\s)?(?P<said>(?:[^.!?:;\n]|:(?=[0-9])){1,80}?)",
        r"the\b[^.!?:;,\n]{0,60}?\s(?:shows?|depicts|illustrates|represents)\sthe\sprocess\sof\s" + _UP_TO,
        r"(?:на|в)\s[^\W\d]+\s(?:изображ[её]н[аоы]?|показан[аоы]?|видн[аоы]|стоит|лежит|сидит|висит)\s" + _UP_TO,
        r"(?:это|це)\s" + _UP_TO,
        r"(?:هذه\sصورة\s|هذا\s|هذه\s|[^\W\d]+(?:\s[^\W\d]+){0,3}\s(?:هي|هو)\s)" + _UP_TO,
        r"(?:[^\x00-\x7f]{1,20}?(?:是|为)|这是|這是)(?:一[个個只隻头頭条條张張辆輛座匹位]?)?" + _UP_TO,
        r"(?:[^\x00-\x7f\s]{1,20}は)?\"?" + _UP_TO + r"\"?(?:です|である|だ)",
        r"(?:[가-힣]+\s){1,4}[가-힣]*(?:은|는|이|가)\s" + _UP_TO + r"(?:입니다|이다|이에요|예요)",
        r"(?:[가-힣]+\s){1,4}" + _UP_TO + r"(?:이|가)\s있습니다",
        r"[\u0900-\u097f]+\s(?:में|पर)\s(?:एक\s)?" + _UP_TO + r"\s(?:है|हैं|दिख(?:ता|ती|ाई\sदेता|ाई\sदेती)\sहै)",
        r"यह\s(?:एक\s)?" + _UP_TO + r"\s(?:है|हैं)",
        r"(?:la|el|le|les|l'|il|lo|o|a|das|die|der|de|het)\s?[^\W\d]+(?:\s[^\W\d]+){0,4}\s(?:es|est|è|é|ist|is)\s"
        + _UP_TO,
        r"es\shandelt\ssich\sum\s" + _UP_TO,
        r"es\s(?:ist|sind)\s" + _UP_TO,
        r"(?:es(?!\s(?:handelt|ist|sind))|é|è|c'est|ce\ssont|esto\ses|esta\ses|este\ses|isto\sé|este\sé|esta\sé|questo\sè|questa\sè|das\sist|dies\sist|dit\sis|to\sjest"
        r"|det\sär|bu\sbir|bu|ini\sadalah|đây\slà)\s" + _UP_TO,
        r"(?:auf|in)\s(?:dem|diesem)\s[^\W\d]+\s(?:ist|sind|sieht\sman)\s"
        + _UP_TO
        + r"(?:\s(?:zu\ssehen|abgebildet|dargestellt))?",
    )
)
_ASIDE = re.compile(
    r"\s?\([^()]{1,80}\)\Z|,\s(?:seen|standing|also|which|who|that|an?|the|dessen|das|die|der|que|qui|una?|une|el|la|le|i\.e\.)\s.*"
    r"|\s(?:in|at|on|near|standing|seen|located|im|dans|nel|nella|em|на|في)\s.*",
    re.IGNORECASE,
)
"""What follows the thing itself: "the Eiffel Tower in Paris, seen from below"."""
_EITHER = re.compile(r"\b(?:or|and|und|oder|y|o|et|ou|e|и|или)\s|[和或と]|,\s\w+,\s\w+", re.IGNORECASE)
_NOT_BUT = re.compile(r"not\s(?:an?\s|the\s)?[^,.;]{1,60}?,?\sbut\s(?P<said>[^,.;]{1,80})[.!]?", re.IGNORECASE)
_ARTICLE = re.compile(
    r"\A(?:(?:an?|eine?|einen|einem|un|una|une|uno|um|uma|een|ett|एक)\s(?=[^\W\d_]{2})"
    r"|the\s(?=[^\W\d_]+\s)|(?:el|la|le|les|der|die|das|il|lo|o|de|het)\s(?=[^\W\d_]+(?:\s|\Z)))",
    re.IGNORECASE,
)
_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})")
_ITEM_NAMES = re.compile(r'\{\s*"[^"{}]{1,40}"\s*:\s*"(?P<said>[^"{}]{1,200})"\s*\}')


def _readings(prediction: str) -> Iterator[str]:
    """Yield what a prediction says: itself, and what a sentence says that holds nothing else."""
    yield prediction
    held = _ITEM_NAMES.fullmatch(prediction.strip()) or _NOT_BUT.fullmatch(prediction)
    if held is not None:
        yield held["said"]
    elif DOUBT.search(prediction) is None and _EITHER.search(prediction) is None:
        plain = prediction.strip().removesuffix(".").removesuffix("!")
        for found in (form.fullmatch(plain) for form in _STATED):
            if found is not None:
                yield found["said"]
                yield _ASIDE.sub("", found["said"], count=1)


def _same(said: str, gold: str) -> bool:
    """Whether both are the same text, apart from a leading article, hyphens between words, and the form of a date."""
    if same_text(said, gold):
        return True
    first, second = (_HYPHEN.sub(" ", _ARTICLE.sub("", bare(text), count=1)) for text in (said, gold))
    day = date_of(first)
    if first == second != "" or (day is not None and day == date_of(second)):
        return True
    if second[:1].isdigit() and _measures(target := quantity(gold)) and _measures(answer := quantity(said)):
        return answer is not None and target is not None and same_quantity(answer, target)
    one, two = with_digits(first), with_digits(second)
    return one == two and one.isdigit() and (first.isdigit() or second.isdigit())


def _compare(prediction: str, golds: tuple[str, ...]) -> Verdict:
    if any(_same(one, gold) for one in _readings(prediction) for gold in golds):
        return right("same text", prediction)
    return wrong("another text", prediction)


TEXT = TextGrader()
