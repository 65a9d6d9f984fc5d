"""Yes or no: what a text asserts, negation included. "Yes and no", "unknown" and "I know" are neither.

`yes` or `no` counts at the start of the text (and then nothing after it may contradict it), or as its last word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from saccade.grading.base import Verdict, gold_of, judged, right, unreadable, wrong
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
_LAST = re.compile(r"(?P<before>.*)\b(?P<word>yes|no|true|false)", re.DOTALL)
_EITHER = re.compile(r"\b(?:yes|yeah|yep|true|no|nope|false)\b")
_OPEN = re.compile(r"\b(?:maybe|perhaps|possibly|probably|might|could|unsure|unclear|unknown|or)\b|\?\s*$")


@dataclass(frozen=True, slots=True)
class YesNoGrader:
    """Yes or no, true or false; what the answer asserts, and not which words it holds."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = asserts(gold_of(task))
        if gold is None:
            raise unreadable(task, "yes or no")
        return judged(answer, lambda said: _compare(said, gold))


def asserts(text: str) -> bool | None:
    """True for yes, False for no, None for neither."""
    plain = folded(unwrapped(clean(text))).strip(" .,;:!()[]*_\"'")
    if plain in _SINGLE:
        return _SINGLE[plain]
    if _OPEN.search(plain):
        return None
    first = _FIRST.fullmatch(plain)
    if first is not None:
        return _backed(first["word"] in _YES, first["rest"])
    last = _LAST.fullmatch(plain)
    if last is None or DOUBT.search(last["before"]) or _EITHER.search(last["before"]):
        return None
    return last["word"] in _YES


def _backed(said: bool, rest: str) -> bool | None:
    """What was said first, unless the rest speaks against it."""
    if _EITHER.search(rest) or (said and DOUBT.search(rest)):
        return None
    return said


def _compare(said: str, gold: bool) -> Verdict:
    answer = asserts(said)
    if answer is None:
        return wrong("says neither yes nor no", said)
    return right("same", said) if answer == gold else wrong("says the opposite", said)


YES_NO = YesNoGrader()
