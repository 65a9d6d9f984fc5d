"""Read an answer in the unit that its question asks for: "12 cm" is 0.12 where metres are asked."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

from saccade.grading.clean import clean
from saccade.grading.quantities import Quantity, Unit, is_known, unit_named

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


def in_unit_asked(answer: Quantity, question: str) -> Quantity:
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
