"""The total that a sentence with several numbers states: "2 on the left and 3 on the right, 5 in total".

It counts only where the other numbers bear it out, or where it is what they lead to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from saccade.grading.quantities import DOUBT

_NUMBER: Final = re.compile(r"(?<![0-9.,])[0-9]{1,9}(?![0-9]|[.,][0-9])")
_IN_ALL = re.compile(
    r"(?<![0-9.,])(?P<number>[0-9]{1,9})(?:\s[a-z]+){0,3}\s(?:in\s(?:total|all)|altogether|total)\b", re.IGNORECASE
)
_LEADS_TO = re.compile(
    r"[,;:]\s(?:(?:so|for|making|giving|which|that|there|it|is|are|makes|gives|a|total|of|and|thus|therefore|or)\s){0,5}"
)
_LISTED = re.compile(
    r"(?:[^0-9:]*\b(?:are|is|at|see|count|has|have|had|contains?|shows?|find|found)\s(?:(?:only|exactly|just|all)\s)?)?"
    r"(?P<number>[0-9]{1,9})(?:\s[a-z]+){0,4}:\s(?P<list>[^:]*)",
    re.IGNORECASE,
)


def totals(sentence: str) -> Iterator[str]:
    """The number that `sentence` gives in total, and the one that it gives before what it lists; number words read."""
    if DOUBT.search(sentence) is not None:
        return
    said = list(_IN_ALL.finditer(sentence))
    if len(said) == 1 and _borne_out(sentence, said[0]):
        yield said[0]["number"]
    listed = _LISTED.fullmatch(sentence)
    if listed is not None and int(listed["number"]) in _counts(listed["list"]):
        yield listed["number"]


def _borne_out(sentence: str, total: re.Match[str]) -> bool:
    """Whether the other numbers add up to the total, or lead to it as the last one."""
    before = list(_NUMBER.finditer(sentence, 0, total.start()))
    after = list(_NUMBER.finditer(sentence, total.end()))
    if sum(int(found[0]) for found in (*before, *after)) == int(total["number"]):
        return True
    leads = re.search(r"[,;:][^,;:]*$", sentence[: total.start()])
    return bool(before) and not after and leads is not None and _LEADS_TO.fullmatch(leads[0]) is not None


def _counts(listed: str) -> set[int]:
    """What a list may add up to: the sum of its numbers, how many they are, and how many brackets they stand in."""
    numbers = [int(found[0]) for found in _NUMBER.finditer(listed)]
    return {listed.count("(") or -1, *((sum(numbers), len(numbers)) if len(numbers) > 1 else ())}
