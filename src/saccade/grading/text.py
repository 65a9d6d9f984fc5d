"""Text: the same words, but for letter case, white space, markup, quotes and punctuation at the ends.

Nothing is left out, stemmed or found inside a longer text. A time of day is met by another spelling of it. A number is
also met by another spelling of the same number, unless it is written with leading zeros, which makes it a code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from saccade.grading.base import Verdict, golds_of, judged, right, wrong
from saccade.grading.clean import clean, folded
from saccade.grading.clock import same_time
from saccade.grading.compare import same_quantity
from saccade.grading.quantities import quantity
from saccade.grading.wrappers import unwrapped
from saccade.record.task import Task

_NUMERIC = re.compile(r"[-+$€£¥]{0,2}(?:0?\.|0(?![0-9])|[1-9])[0-9.,/\s]{0,80}[%°]?|-?\\frac.{0,80}")


@dataclass(frozen=True, slots=True)
class TextGrader:
    """Exact text; the gold answer may be a JSON array of several accepted ones."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        golds = golds_of(task)
        return judged(answer, lambda prediction: _compare(prediction, golds))


def bare(text: str) -> str:
    """`text` as it is compared."""
    plain = folded(unwrapped(clean(text))).strip(" .,;:\"'")
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


def starts_as_number(text: str) -> bool:
    """Whether `text` is a number with what may follow one, and no name with a number in it, such as "Top 5"."""
    return re.match(r"[-+~]?\s?[$€£¥]?\s?-?\.?[0-9]", bare(text)) is not None


def _compare(prediction: str, golds: tuple[str, ...]) -> Verdict:
    if any(same_text(prediction, gold) for gold in golds):
        return right("same text", prediction)
    return wrong("another text", prediction)


TEXT = TextGrader()
