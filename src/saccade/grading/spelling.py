"""Tell whether two texts are the same in another spelling: dates, codes, capitals without accents.

Also what an object in JSON says to a question.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from saccade.grading.clean import clean, folded, unwrapped
from saccade.grading.languages import DOUBT, written_in
from saccade.grading.number_words import MONTHS
from saccade.grading.restated import topic_of

_CODE = re.compile(
    r"(?=.{4,16}\Z)(?=.*[0-9])(?=.*[A-Z\u3400-\u9fff])[A-Z0-9\u3400-\u9fff]+(?:[\s·-][A-Z0-9\u3400-\u9fff]+)*"
)
_IN_CODE = re.compile(r"(?<=[A-Z\u3400-\u9fff])[\s·-](?=[0-9])|(?<=[0-9])[\s·-](?=[A-Z\u3400-\u9fff])")


def same_code(said: str, gold: str) -> bool:
    """Tell whether both are a code of capitals and digits that are parted in one of them: `BA 2490`, `BA2490`."""
    first, second = (unwrapped(clean(text)).strip(" .,\"'") for text in (said, gold))
    return _CODE.fullmatch(second) is not None and _IN_CODE.sub("", first) == _IN_CODE.sub("", second)


_ACUTE: Final = "\u0301"


def same_in_greek_capitals(said: str, gold: str) -> bool:
    """Tell whether one text is in Greek capitals, which have no accents, and otherwise the other one."""
    if not any(re.search("[Α-Ω]", text) and unwrapped(clean(text)).isupper() for text in (said, gold)):
        return False
    first, second = (unicodedata.normalize("NFD", folded(unwrapped(clean(text)))) for text in (said, gold))
    return first.replace(_ACUTE, "") == second.replace(_ACUTE, "")


_DAY: Final = r"(?P<day>0?[1-9]|[12][0-9]|3[01])"
_MONTH: Final = r"(?P<month>0?[1-9]|1[0-2])"
_YEAR: Final = r"(?P<year>[0-9]{4})"
_NAME: Final = rf"(?P<name>{'|'.join(sorted(MONTHS, key=len, reverse=True))})(?![^\W\d_])\.?"
_TH: Final = r"(?:st|nd|rd|th|er|º|°|\.)?"
_DATES: Final = (
    *(
        re.compile(rf"(?<![\w.,/-])(?:{form})(?![0-9/-]|[.,][0-9])")
        for form in (
            rf"{_YEAR}(?P<sep>[-/.])\s?{_MONTH}(?P=sep)\s?{_DAY}",
            rf"{_DAY}{_TH}\s(?:of\s|de\s|d')?{_NAME}(?:,?\s(?:de\s|of\s)?{_YEAR})?",
            rf"{_NAME}\s{_DAY}{_TH}(?:,?\s{_YEAR})?",
            rf"{_DAY}(?P<sep>[/.])\s?{_MONTH}(?P=sep)\s?{_YEAR}",
        )
    ),
    re.compile(rf"(?:{_YEAR}\s?[年년]\s?)?(?<![0-9]){_MONTH}\s?[月월]\s?{_DAY}\s?[日号號일]"),
)
_NOT_THEN = re.compile(
    r"\b(?:before|after|past|until|till|to|from|since|by|through|around|about|circa|vor|nach|bis|ab|seit|gegen|avant|après|jusqu\w*|depuis|dès|vers|antes|después|hasta|desde"
    r"|depois|até|prima|dopo|fino|dal|до|после|перед|около|do|po|przed|od|tot|voor|na|vanaf|til|till|før|efter|från|fra|önce|sonra|kadar|trước|sau|đến|sebelum|sesudah|hingga)\b"
    r"|[前后後至]|截止|以降|まで|から|까지|부터|이후|이전",
    re.IGNORECASE,
)
_OR = re.compile(r"\b(?:or|oder|ou|o|или|або|lub|of|eller|veya|hoặc|atau)\s|[或?]|または|또는")
_MONTH_FIRST: Final = ("", "zh", "ja", "ko", "hu")


def _dates_in(text: str, day_first: bool) -> Iterator[tuple[int, int, tuple[int, int, int]]]:
    """Yield start, end and value of the dates of a folded text; the year is 0 where there is none."""
    taken: list[range] = []
    for form in _DATES:
        for found in form.finditer(text):
            if any(found.start() in one for one in taken):
                continue
            taken.append(range(found.start(), found.end()))
            groups = found.groupdict()
            day, month = int(groups["day"]), int(groups["month"]) if groups.get("month") else MONTHS[groups["name"]]
            slashed = form is _DATES[3] and groups["sep"] == "/"
            if not slashed or day_first or day > 12:
                yield found.start(), found.end(), (int(groups["year"] or 0), month, day)


def names_date(sentence: str, gold: str, question: str) -> bool:
    """Tell whether a sentence names the gold date, perhaps with weekday and time, of what the question asks.

    Other dates have to be said of something else: "made: 2023-05-12, best before: 2025-05-11".
    """
    day_first = written_in(f"{question} {sentence}") not in _MONTH_FIRST
    plain = folded(gold).strip(" .,")
    golds = [date for start, end, date in _dates_in(plain, day_first) if not plain[:start] + plain[end:]]
    said = folded(sentence)
    if len(golds) != 1 or len(said) > 400 or DOUBT.search(said) or _OR.search(said):
        return False
    clauses = re.split(r"[,;]\s?(?=[^\d\s])", said) if len(list(_dates_in(said, day_first))) > 1 else [said]
    told: list[tuple[bool, frozenset[str]]] = []
    for clause in clauses:
        dates = list(_dates_in(clause, day_first))
        if len(dates) > 1:
            return False
        for start, end, (year, *rest) in dates:
            same = rest == list(golds[0][1:]) and golds[0][0] in (0, year)
            before = clause[:start]
            if same and _NOT_THEN.search(before if before.isascii() else clause[:start] + clause[end : end + 2]):
                return False
            told.append((same, topic_of(before + clause[end:], question)))
    right = [topic for same, topic in told if same]
    return len(right) == 1 and bool(right[0]) and all(topic < right[0] for same, topic in told if not same)


_PLACES: Final = frozenset("next to left right above below behind front on in under near beside from with by".split())  # noqa: SIM905


def asked_in_json(text: str, question: str) -> str:
    """Return the text of the only key of a JSON object that is made of words of the question; empty without one."""
    try:
        held = json.loads(re.sub(r"\A\s*```\w*|```\s*\Z", "", text)) if text.lstrip()[:1] in "{`" else None
    except ValueError:
        return ""
    if not isinstance(held, dict) or not 1 < len(held) < 20:
        return ""
    asked = {*re.findall(r"[^\W_]+", question.casefold())} - _PLACES
    keys = [key for key in held if (words := re.findall(r"[^\W_]+", key.casefold())) and asked.issuperset(words)]
    value = held[keys[0]] if len(keys) == 1 else ""
    return value if isinstance(value, str) else ""
