"""Yes or no: what a text asserts, negation included. "Yes and no", "unknown" and "I know" are neither.

`yes` or `no` counts at the start of the text (and then nothing after it may contradict it), or as its last word. A
reason in a sentence of its own, or after "because", may deny other things.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from saccade.grading.base import Verdict, gold_of, judged, right, unread, unreadable, wrong
from saccade.grading.clean import clean, folded
from saccade.grading.quantities import DOUBT
from saccade.grading.wrappers import unwrapped
from saccade.record.task import Task

_YES: Final = frozenset({"yes", "yeah", "yep", "true"})
_NO: Final = frozenset({"no", "nope", "false"})
_SINGLE: Final = {**dict.fromkeys((*_YES, "y"), True), **dict.fromkeys((*_NO, "n"), False)}
_FIRST = re.compile(
    r"(?P<word>yes|yeah|yep|true|no|nope|false)[*_\"']{0,3}(?:\s*(?:[,.;:!\n(]|- )|\s+(?=(?:i|it|they|there|the|this|"
    r"that|we|these|those|he|she|because|not)\b))(?P<rest>.*)",
    re.DOTALL,
)
# A reason may deny other things ("Yes. The bars are not equal."), but not the answer.
_REASON = re.compile(r"[*_\"')]{0,3}\s*(?:[.!;\n]|- |,?\s(?:because|since|as)\b)\s*(?=\S+\s+\S+)")
_CONTRADICTS = re.compile(
    r"(?:^|[.,;:!?\-]\s*|\b(?:or|is|and|be|answer)\s)(?:yes|yeah|yep|true|no|nope|false)\b(?=\s*(?:[.,;:!?]|$))"
    r"|\b(?:not (?:sure|certain)|wait|actually)\b|^(?:yes|no)\b"
)
_LAST = re.compile(r"(?P<before>.*)\b(?P<word>yes|no|true|false)", re.DOTALL)
_EITHER = re.compile(r"\b(?:yes|yeah|yep|true|no|nope|false)\b")
_OPEN = re.compile(r"\b(?:maybe|perhaps|possibly|probably|might|could|unsure|unclear|unknown|or)\b|\?\s*$")
_OPEN_FIRST = re.compile(
    r"^[^.!;\n]*?\b(?:maybe|perhaps|possibly|probably|unsure|unclear|unknown)\b|\?\s*$"
    r"|\b(?:not sure|could be|might be)\b"
)


@dataclass(frozen=True, slots=True)
class YesNoGrader:
    """Yes or no, true or false; what the answer asserts, and not which words it holds."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = asserts(gold_of(task))
        if gold is None:
            raise unreadable(task, "yes or no")
        return judged(answer, lambda prediction: _compare(prediction, gold), asserts, prose=True)


def asserts(text: str) -> bool | None:
    """True for yes, False for no, None for neither."""
    plain = folded(unwrapped(clean(text))).strip(" .,;:!()[]*_\"'")
    if plain in _SINGLE:
        return _SINGLE[plain]
    first = _FIRST.fullmatch(plain)
    reason = _REASON.match(plain, first.end("word")) if first is not None else None
    if (_OPEN if reason is None else _OPEN_FIRST).search(plain):
        return None
    if first is not None:
        if reason is not None:
            return None if _CONTRADICTS.search(plain, reason.end()) else first["word"] in _YES
        return _backed(first["word"] in _YES, first["rest"])
    last = _LAST.fullmatch(plain)
    if last is None or DOUBT.search(last["before"]) or _EITHER.search(last["before"]):
        return None
    return last["word"] in _YES


def _backed(asserted: bool, rest: str) -> bool | None:
    """What was said first, unless the rest speaks against it."""
    if _EITHER.search(rest) or (asserted and DOUBT.search(rest)):
        return None
    return asserted


def _compare(prediction: str, gold: bool) -> Verdict:
    answer = asserts(prediction)
    if answer is None:
        return unread("says neither yes nor no", prediction)
    return right("same", prediction) if answer == gold else wrong("says the opposite", prediction)


YES_NO = YesNoGrader()
