"""English number words as digits: `twenty-one` -> `21`, `one hundred and five` -> `105`. Below a million alone.

Fractions and halves too: `two thirds` -> `2/3`, `two and a half` -> `2 1/2`.
"""

from __future__ import annotations

import re
from typing import Final

_SMALL: Final = {
    word: value
    for value, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
}
_TENS: Final = {
    word: 10 * value
    for value, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
_HUNDRED, _THOUSAND = "hundred", "thousand"
_WORD: Final = "|".join(sorted([*_SMALL, *_TENS, _HUNDRED, _THOUSAND], key=len, reverse=True))
_RUN = re.compile(rf"(?<![\w-])(?:{_WORD})(?:(?:\s|-|\sand\s)(?:{_WORD}))*(?![\w-])", re.IGNORECASE)
# As a pronoun ("the left one", "no one") it counts nothing.
_COUNTS_BEFORE_ONE = re.compile(
    r"(?:^|[=:(]|\b(?:is|are|was|were|has|have|see|only|just|exactly|contains|shows))\s*$", re.I
)


_PARTS: Final = {
    "half": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
}
_OVER = re.compile(
    rf"(?<![\w-])(?P<above>{'|'.join(list(_SMALL)[1:10])})[\s-](?P<below>{'|'.join(_PARTS)})(?P<many>s?)(?![\w-])",
    re.IGNORECASE,
)
_AND_A_HALF = re.compile(rf"(?<![\w-])(?P<whole>[0-9]{{1,9}}|{_WORD})\sand\s(?:a|one)\shalf(?![\w-])", re.IGNORECASE)
_A_HUNDRED = re.compile(r"(?<![\w-])a\s(?=(?:hundred|thousand)(?![\w-]))", re.IGNORECASE)
_DOZEN = re.compile(r"(?<![\w-])(?:(?P<half>half\sa)|a)\sdozen(?![\w-])", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:the|these|those|both|all|this|that)\s+$", re.IGNORECASE)


def with_digits(text: str) -> str:
    """`text` with its number words as digits; a run of words that is no number stays."""
    text = _DOZEN.sub(lambda match: "6" if match["half"] else "12", text)
    text = _OVER.sub(_over, _AND_A_HALF.sub(lambda match: f"{match['whole']} 1/2", _A_HUNDRED.sub("one ", text)))
    return _RUN.sub(lambda match: _digits(match, text), text)


def says_another(text: str) -> bool:
    """Whether a spelt number counts something in a text with digits; "the two lines" only names what was known."""
    if any(form.search(text) for form in (_DOZEN, _AND_A_HALF, _A_HUNDRED)) or _OVER.sub(_over, text) != text:
        return True
    return any(
        _digits(found, text) != found[0] and _NAMED.search(text[max(0, found.start() - 8) : found.start()]) is None
        for found in _RUN.finditer(text)
    )


def _over(match: re.Match[str]) -> str:
    """`two thirds` as `2/3`; "two third", "one thirds" and "two halfs" stay."""
    above, below = _SMALL[match["above"].casefold()], _PARTS[match["below"].casefold()]
    fits = (above == 1) != bool(match["many"]) and (above == 1 or below != 2)
    return f"{above}/{below}" if fits else match[0]


def _digits(match: re.Match[str], text: str) -> str:
    words = [word for word in re.split(r"[\s-]+", match[0].casefold()) if word != "and"]
    if words == ["one"] and not _COUNTS_BEFORE_ONE.search(text[max(0, match.start() - 20) : match.start()]):
        return match[0]
    value = _value(words)
    return match[0] if value is None else str(value)


def _value(words: list[str]) -> int | None:
    if _THOUSAND in words:
        at = words.index(_THOUSAND)
        head, tail = _below_thousand(words[:at]), _below_thousand(words[at + 1 :]) if words[at + 1 :] else 0
        return None if head is None or tail is None else 1000 * head + tail
    return _below_thousand(words)


def _below_thousand(words: list[str]) -> int | None:
    if _HUNDRED in words:
        at = words.index(_HUNDRED)
        head, tail = _below_hundred(words[:at]), _below_hundred(words[at + 1 :]) if words[at + 1 :] else 0
        return None if head is None or tail is None or not 1 <= head <= 9 else 100 * head + tail
    return _below_hundred(words)


def _below_hundred(words: list[str]) -> int | None:
    if len(words) == 1:
        return _SMALL.get(words[0], _TENS.get(words[0]))
    if len(words) == 2 and words[0] in _TENS and 1 <= _SMALL.get(words[1], 0) <= 9:
        return _TENS[words[0]] + _SMALL[words[1]]
    return None
