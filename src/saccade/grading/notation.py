"""Write the numbers of an answer in one notation before they are read, as its language and the question mean them.

Groups of thousands by points, decimal commas, "8 °C below zero", "1 hour and 35 minutes", and the scale that a question
asks in.
"""

from __future__ import annotations

import re
from typing import Final

from saccade.grading.clean import folded
from saccade.grading.languages import LANGUAGES, SCALES_ABROAD, written_in
from saccade.grading.number_words import MONTHS
from saccade.grading.quantities import BELOW, MEASURE, MINUS, MYRIADS, SCALES, SPACED_GROUP, names_of

_READ: Final = 800
"""Characters at the end of an answer by which its language is told."""

_DOTTED = re.compile(r"(?<![\w.,])[1-9][0-9]{0,2}(?:\.[0-9]{3})+(?![0-9]|[.,][0-9])")
_COMMA = re.compile(r"(?<![\w.,])([0-9]{1,6}),(?=[0-9]{1,2}(?![0-9]|[.,][0-9]|\s?[,;]\s?[0-9]))")
"""The comma of a decimal."""
_BY_POINTS = re.compile(r"(?<![\w.,])[0-9]+\.(?:[0-9]{1,2}|[0-9]{4,})(?![\w.])|(?<![\w.,])0\.[0-9]")
_COUNTED = re.compile(rf"\s(?!{MEASURE}|(?:{'|'.join(SCALES_ABROAD)})\b)[^\W\d_]+|\s?[€₽₺₫₴$]", re.IGNORECASE)
_CURRENCY = re.compile(r"(?:[$€£₽₺₫₴]|Rp)\s?\Z")


def in_one_notation(answer: str, question: str, whole: bool) -> str:
    """Close up the groups in `1.500 Besucher`, write `4,50 zł` with a point, a dash before a number as a colon.

    Where a `whole` number of thousands is right, the groups of any number are closed up.

    Not where decimals of the answer are written with a point.
    """
    answer = re.sub(r"(?<=[^\W\d_]{2})\s[—–]\s(?=[0-9])", ": ", answer)  # a dash is no minus
    answer = re.sub(r"\bRp\.?\s?(?=[0-9])", "Rp ", answer)
    answer = _BELOW_ZERO.sub(_negative, answer)
    if scale_asked(question) > 1:
        answer = _SHORT_SCALE.sub(lambda match: f" {_SHORT_SCALES[match[1].casefold()]}", answer)
    if "°" in answer + question:
        answer = _DATE.sub("", answer)
    in_hours = _HOURS_ASKED.search(question) is not None and _MINUTES_ASKED.search(question) is None
    answer = _DURATION.sub(lambda match: _in_one_unit(match, in_hours), answer)
    if SPACED_GROUP.search(answer) and LANGUAGES.get(written_in(question)):
        answer = SPACED_GROUP.sub(lambda match: "".join(match[0].split()), answer)
    if not (_DOTTED.search(answer) or _COMMA.search(answer)) or _BY_POINTS.search(answer):
        return answer
    code = "id" if "Rp " in answer else written_in(answer[-_READ:]) or written_in(question)
    if not code or not (LANGUAGES[code].comma or code == "id"):
        return answer
    answer = _COMMA.sub(r"\1.", answer) if not _DOTTED.search(answer) else answer

    def closed(match: re.Match[str]) -> str:
        said = whole or _COUNTED.match(answer, match.end()) or _CURRENCY.search(answer[: match.start()][-3:])
        return match[0].replace(".", "") if said else match[0]

    return _DOTTED.sub(closed, answer)


_BELOW_ZERO = re.compile(
    rf"(?<![\d.,−–-])(?P<value>\d{{1,6}}(?:[.,]\d{{1,6}})?)(?P<unit>\s?°\s?[CF]?|(?:\s[^\W\d_]{{1,14}}){{0,2}}){BELOW.pattern}",
    re.IGNORECASE,
)


def _negative(match: re.Match[str]) -> str:
    """`8 °C below zero` as `-8 °C`; "minus 8 °C below zero" is neither."""
    return (
        match[0]
        if MINUS.search(match.string[max(0, match.start() - 20) : match.start()])
        else f"-{match['value']}{match['unit']}"
    )


_DATE = re.compile(
    r"(?:,?\s?(?<![^\W\d_])(?:on|am|den|le|el|em|il|op|dne|dnia|d\.))?(?<![\d.,])\s?\d{1,2}(?:\.|st|nd|rd|th|er|º)?\s(?:de\s|of\s)?"
    rf"(?:{'|'.join(f'{name}|{name.title()}' for name in MONTHS if name != 'may')}|May)(?![^\W\d_])"
)
"""A day on which something was measured: "-8 °C, on 14 January"."""
_HOURS, _MINUTES = (
    rf"(?:{'|'.join(names_of('time', factor))})(?![A-Za-zÀ-ɏͰ-ԯ\u0590-\u06ff])" for factor in (3600, 60)
)
_HOURS_ASKED, _MINUTES_ASKED = (re.compile(rf"(?<![^\W\d_]){name}", re.IGNORECASE) for name in (_HOURS, _MINUTES))
_DURATION = re.compile(
    r"(?<![\d.,:/A-Za-zÀ-ɏЀ-ԯ-])(?P<hours>\d{1,3}|an?|one|eine?|une?|una|uma|een|en|один|jedn[aąu]|jedna)\s?"
    rf"(?P<large>{_HOURS})\.?,?\s?(?:(?:and|und|et|y|e|и|і|i|a|en|och|og|ja|ve|és|și|και|و|dan|और)\s?)?"
    rf"(?P<minutes>[0-5]?\d)\s?(?P<small>{_MINUTES})(?![^.!?;\n]{{0,8}}\d)",
    re.IGNORECASE,
)
"""A time in hours and minutes: "1 hour and 35 minutes"."""


def _in_one_unit(match: re.Match[str], in_hours: bool) -> str:
    minutes = 60 * (int(match["hours"]) if match["hours"].isdecimal() else 1) + int(match["minutes"])
    return f"{minutes}/60 {match['large']}" if in_hours else f"{minutes} {match['small']}"


_MYRIADS_ASKED = re.compile(
    r"(?:几|幾|多少|何|몇|[单單]位\s?[:是为為]?\s?|単位\s?[:は]?\s?|단위\s?:?\s?)\s?(?P<scale>[万萬만亿億억])"
    r"|\(\s?(?P<unit>[万萬만亿億억])\s?[^\s()\d]{0,6}\s?\)"
)
_SHORT_SCALES: Final = {"mio": "million", "mln": "million", "mrd": "billion", "mld": "billion", "tsd": "thousand"}
_SHORT_SCALE = re.compile(rf"(?<=\d)\s?({'|'.join(_SHORT_SCALES)})\b\.?", re.IGNORECASE)
_BRIEF: Final = frozenset("mn bn млн тыс тис tỷ tỉ".split())  # noqa: SIM905


def scale_asked(question: str) -> int:
    """Return the scale that a question asks in ("how many millions", "몇 억 원"); 1 without one."""
    plain = folded(question)
    myriad = _MYRIADS_ASKED.search(plain)
    if myriad is not None:
        return MYRIADS[myriad["scale"] or myriad["unit"]]
    scales = set()
    for found in re.finditer(r"[^\W\d_]+", plain):
        word = _SHORT_SCALES.get(found[0], found[0])
        scale = SCALES.get(word) or SCALES.get(word.removesuffix("s")) or SCALES_ABROAD.get(word)
        long = len(word) > 3 or word in _BRIEF
        if scale and scale >= 1000 and long and not re.search(r"[0-9]\s?\Z", plain[: found.start()]):
            scales.add(scale)
    return scales.pop() if len(scales) == 1 else 1
