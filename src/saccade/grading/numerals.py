r"""Numbers as they are written, read exactly: `1,234.5`, `-3/4`, `1 3/4`, `\frac{3}{4}`, `1.5e3`, `2 × 10^-3`.

Nothing is evaluated: a number that is part of a formula, a time, a date or a name such as `B12` is not read at all.
`3,5` is no number (the comma groups thousands and nothing else), and neither is one of absurd length or exponent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

MOST_DIGITS: Final = 60
LARGEST_EXPONENT: Final = 300

_INT: Final = r"[0-9]{1,60}"
_DECIMAL: Final = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,19}|[0-9]{1,60})(?:\.[0-9]{1,60})?|\.[0-9]{1,60}"
_TIMES_TEN: Final = r"\s?(?:[x×*·]|\\times|\\cdot)\s?10\s?(?:\^|\*\*)\s?[{(]?\s?(?P<power>[+-]?[0-9]{1,4})\s?[)}]?"
_NUMBER = re.compile(
    r"(?<![0-9A-Za-z_.,:/^\\])(?<![0-9A-Za-z_]-)"
    r"(?P<sign>[-+]\s?(?=[$€£¥]?\s?[0-9.\\]))?(?P<currency>[$€£¥]\s?(?P<late_sign>-)?)?"
    r"(?:"
    rf"(?P<whole>{_INT})?(?:\s?\\frac\s?(?:\{{\s?(?P<over>-?{_INT})\s?\}}\s?\{{\s?(?P<under>{_INT})\s?\}}"
    r"|(?P<over1>[0-9])\s?(?P<under1>[0-9])))"
    rf"|(?P<mixed>{_INT})(?:\s|\s?\+\s?|\sand\s)(?P<above>{_INT})\s?/\s?(?P<below>{_INT})"
    rf"|(?P<top>{_INT})\s?/\s?(?P<bottom>{_INT})"
    r"|10\s?(?:\^|\*\*)\s?[{(]?\s?(?P<ten>[+-]?[0-9]{1,4})\s?[)}]?"
    rf"|(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?[0-9]{{1,4}})|{_TIMES_TEN})?"
    r")(?P<end>(?![0-9_^/:]|\s?\*\*|\s?\^|,[0-9]|\.[0-9]|\s?\\frac))"
)
_REPEATING = re.compile(
    r"(?<![0-9.])(?P<whole>[0-9]{1,20})\.(?P<start>[0-9]{0,20}?)(?:\\(?:overline|bar|dot)\s?\{?\s?(?P<marked>[0-9]{1,12})\s?\}?"
    r"|\((?P<round>[0-9]{1,12})\)|(?P<written>(?P<group>[0-9]{1,6})(?P=group)+(?:(?P=group))*)\s?(?:\.{3}|\\l?dots))(?![0-9])"
)
_ANY_DIGIT = re.compile(r"[0-9]")


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number in a text."""

    value: Fraction
    start: int
    """Index of its first character, the currency sign included."""
    end: int
    currency: str = ""


def repeating_as_fraction(text: str) -> str:
    r"""`text` with its repeating decimals as fractions: `0.\overline{3}` and `0.333...` are `1/3`."""
    return _REPEATING.sub(_repeating, text)


def _repeating(match: re.Match[str]) -> str:
    group = match["marked"] or match["round"] or match["group"]
    if match["written"] and len(match["written"]) < 3:
        return match[0]
    start = match["start"]
    below = (10 ** len(group) - 1) * 10 ** len(start)
    value = Fraction(int(match["whole"] + start), 10 ** len(start)) + Fraction(int(group), below)
    return f"{value.numerator}/{value.denominator}"


def numerals(text: str) -> tuple[Numeral, ...] | None:
    """The numbers in `text`, in order; None if digits stand there that are part of no readable number."""
    found: list[Numeral] = []
    position = 0
    for match in _NUMBER.finditer(text):
        if _ANY_DIGIT.search(text, position, match.start()):
            return None
        value = _value(match)
        if value is None:
            return None
        found.append(Numeral(value, match.start(), match.end(), (match["currency"] or "")[:1]))
        position = match.end()
    return None if _ANY_DIGIT.search(text, position) else tuple(found)


def _value(match: re.Match[str]) -> Fraction | None:
    negative = ((match["sign"] or "").strip() == "-") != bool(match["late_sign"])
    value = _fraction(match) if match["decimal"] is None and match["ten"] is None else _decimal(match)
    return -value if value is not None and negative else value


def _decimal(match: re.Match[str]) -> Fraction | None:
    exponent = int(match["exponent"] or match["power"] or match["ten"] or 0)
    if abs(exponent) > LARGEST_EXPONENT:
        return None
    return Fraction((match["decimal"] or "1").replace(",", "")) * Fraction(10) ** exponent


def _fraction(match: re.Match[str]) -> Fraction | None:
    integer = int(match["whole"] or match["mixed"] or 0)
    above = match["over"] or match["over1"] or match["above"] or match["top"]
    below = int(match["under"] or match["under1"] or match["below"] or match["bottom"])
    if below == 0 or (integer and above.startswith("-")):
        return None
    return integer + Fraction(int(above), below)
