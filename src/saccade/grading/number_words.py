"""Number words as digits: `twenty-one` -> `21`, `one hundred and five` -> `105`, `七个` -> `7个`.

Fractions and halves too: `two thirds` -> `2/3`, `two and a half` -> `2 1/2`.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Final

from saccade.grading.clean import folded
from saccade.grading.languages import number_words_as_digits

_SMALL: Final = {
    word: value
    for value, word in enumerate(
        """
            zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
            seventeen eighteen nineteen
        """.split()  # noqa: SIM905
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
    "eleventh": 11,
    "twelfth": 12,
    "sixteenth": 16,
    "twentieth": 20,
    "hundredth": 100,
    "thousandth": 1000,
}
_OVER = re.compile(
    rf"(?<![\w-])(?P<above>{'|'.join(list(_SMALL)[1:10])})[\s-](?P<below>{'|'.join(_PARTS)})(?P<many>s?)(?![\w-])",
    re.IGNORECASE,
)
_AND_A_HALF = re.compile(
    rf"(?<![\w-])(?P<whole>[0-9]{{1,9}}|{_WORD})\sand\s(?:a|one)\s(?P<part>{'|'.join(_PARTS)})(?![\w-])", re.IGNORECASE
)
_UNIT_AND_A_HALF = re.compile(
    r"(?<![\w-])(?:an?|one)\s(?P<unit>[a-z]{3,12})\sand\s(?:a|one)\s(?P<part>half|quarter|third)(?![\w-])", re.I
)
_HALF_A_UNIT = re.compile(
    r"(?<![\w-])(?P<part>half|quarter)\s(?:of\s)?an?\s(?=(?:hour|minute|mile|kilo|meter|metre|liter|litre|inch|year))",
    re.I,
)
_A_PART = re.compile(rf"\s*(?:(?:a|one)\s)?(?P<part>half|{'|'.join(_PARTS)})\s*", re.IGNORECASE)
_A_HUNDRED = re.compile(r"(?<![\w-])a\s(?=(?:hundred|thousand)(?![\w-]))", re.IGNORECASE)
_A_SINGLE = re.compile(
    r"((?:\A|\b(?:is|only|just|see|exactly|shows|contains|has)\s))an?\ssingle\s(?=[a-z])", re.IGNORECASE
)
_DOZEN = re.compile(r"(?<![\w-])(?:(?P<half>half\sa)|a)\sdozen(?![\w-])", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:the|these|those|both|all|this|that)\s+$", re.IGNORECASE)


def with_digits(text: str) -> str:
    """Return `text` with its number words as digits; a run of words that is no number stays."""
    text = _A_SINGLE.sub(r"\g<1>1 ", _DOZEN.sub(lambda match: "6" if match["half"] else "12", text))
    part = _A_PART.fullmatch(text)
    if part is not None and (part["part"].casefold() == "half" or part[0].strip() != part["part"]):
        return f"1/{_PARTS[part['part'].casefold()]}"
    text = _UNIT_AND_A_HALF.sub(lambda match: f"1 1/{_PARTS[match['part'].casefold()]} {match['unit']}", text)
    text = _HALF_A_UNIT.sub(lambda match: f"1/{_PARTS[match['part'].casefold()]} ", text)
    text = _AND_A_HALF.sub(lambda match: f"{match['whole']} 1/{_PARTS[match['part'].casefold()]}", text)
    text = _OVER.sub(_over, _A_HUNDRED.sub("one ", text))
    return _RUN.sub(lambda match: _digits(match, text), text)


def says_another(text: str) -> bool:
    """Tell whether a spelt number counts something in a text with digits; "the two lines" only names what was known."""
    if any(form.search(text) for form in (_DOZEN, _AND_A_HALF, _A_HUNDRED)) or _OVER.sub(_over, text) != text:
        return True
    return any(
        _digits(found, text) != found[0] and _NAMED.search(text[max(0, found.start() - 8) : found.start()]) is None
        for found in _RUN.finditer(text)
    )


def _over(match: re.Match[str]) -> str:
    """Return `two thirds` as `2/3`; "two third", "one thirds" and "two halfs" stay."""
    above, below = _SMALL[match["above"].casefold()], _PARTS[match["below"].casefold()]
    fits = (above == 1) != bool(match["many"]) and (above == 1 or below != 2)
    return f"{above}/{below}" if fits else match[0]


def _digits(match: re.Match[str], text: str) -> str:
    words = [word for word in re.split(r"[\s-]+", match[0].casefold()) if word != "and"]
    if words == ["one"] and not _COUNTS_BEFORE_ONE.search(text[max(0, match.start() - 20) : match.start()]):
        return match[0]
    counted = words[0] == _THOUSAND and re.search(r"[0-9.]\s?$", text[: match.start()])
    value = None if counted else _value(words)
    return match[0] if value is None else str(value)


def _value(words: list[str]) -> int | None:
    if _THOUSAND in words:
        at = words.index(_THOUSAND)
        head, tail = _below_thousand(words[:at]), _below_thousand(words[at + 1 :]) if words[at + 1 :] else 0
        head = 1 if not words[:at] and words[at + 1 :] else head  # "thousand five hundred"
        return None if head is None or tail is None else 1000 * head + tail
    return _below_thousand(words)


def _below_thousand(words: list[str]) -> int | None:
    if _HUNDRED in words:
        at = words.index(_HUNDRED)
        head, tail = _below_hundred(words[:at]), _below_hundred(words[at + 1 :]) if words[at + 1 :] else 0
        return None if head is None or tail is None or not 1 <= head <= 99 or head % 10 == 0 else 100 * head + tail
    return _below_hundred(words)


def _below_hundred(words: list[str]) -> int | None:
    if len(words) == 1:
        return _SMALL.get(words[0], _TENS.get(words[0]))
    if len(words) == 2 and words[0] in _TENS and 1 <= _SMALL.get(words[1], 0) <= 9:
        return _TENS[words[0]] + _SMALL[words[1]]
    return None


# Roman numerals, and number words of other languages: Chinese and Japanese ones before a counter or at the end, Korean
# ones before a counter, others where an answer begins with them ("sieben Hunde", "hay siete perros").

_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_ROMAN_VALUES: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def roman(text: str) -> int | None:
    """Return the value of a Roman numeral of several signs; none that may be another word, such as `MIX` or `CD`."""
    text = text.strip(" .")
    if len(text) < 2 or _ROMAN.fullmatch(text) is None or not (set(text) <= set("IVX") or len(text) > 4):
        return None
    values = [_ROMAN_VALUES[sign] for sign in text]
    return sum(value if value >= later else -value for value, later in zip(values, [*values[1:], 0], strict=True))


_HAN: Final = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_HAN_TENS: Final = {"十": 10, "百": 100, "千": 1000}
_HAN_SIGNS: Final = "".join((*_HAN, *_HAN_TENS))
_KILO: Final = re.compile(rf"(?<=[0-9十百])(?<![万萬亿億][0-9])\s?千米|(?<=[{_HAN_SIGNS}0-9])\s?千克")
"""A kilometre or kilogram, whose first sign is no thousand: `320千米`, `三千克`, but not `三千米`."""
_COUNTERS: Final = (
    "个個只隻条條张張位辆輛件头頭匹棵朵块塊根枚颗顆座架把杯瓶双對对次人名つ本台冊册羽种種层層排组組支枝盏扇间間家步页頁段点點元年月天日岁歲歳"
    "分秒时時小厘米公千克度%万萬亿億円回番"
)
_HAN_NUMBER = re.compile(
    rf"(?:(?<![\u3040-\u30ff\u3400-\u9fff])|(?<=[有共是为為约約只仅僅第はがにをで]))(?P<number>[{_HAN_SIGNS}]{{1,12}})"
    rf"(?=[{_COUNTERS}]|\s*(?:[.,;!?)]|です|\Z))"
)
_MYRIADS: Final = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
_AS_HAN: Final = str.maketrans("일이삼사오육칠팔구십백천만억조", "一二三四五六七八九十百千万億兆")
_HANGUL: Final = "일이삼사오육칠팔구십백천만억조"
_LARGE: Final = re.compile(
    rf"(?:(?<![0-9.,\u3040-\u30ff\u3400-\u9fff가-힣])|(?<=[有共是为為约約只仅僅はがにをで]))(?P<run>(?:[0-9][0-9,]{{0,12}}+(?:\.[0-9]{{1,6}}+)?+|[{_HAN_SIGNS}{_HANGUL}])"
    rf"(?:\s?(?:[0-9][0-9,]{{0,12}}+(?:\.[0-9]{{1,6}}+)?+|[{_HAN_SIGNS}{''.join(_MYRIADS)}{_HANGUL}])){{1,12}}|만|백|천)"
    rf"(?=\s?(?:[{_COUNTERS}]|[가-힣]{{1,3}}|です|[.,;:!?)]|\Z))"
)
"""Numbers of ten thousands and more, in signs, digits or both: `1万5千`, `백만`, `3억 2천만`."""


def _large(match: re.Match[str]) -> str:
    """Return the digits of such a number; the text as it is where it is none."""
    run = match["run"].translate(_AS_HAN)
    hangul = run != match["run"]
    behind = match.string[match.end("run") :].lstrip()[:3]
    if not any(sign in run for sign in _MYRIADS) and not re.search(r"[0-9]\s?[千百]", run):
        return match[0]
    if hangul and not re.match(rf"{_KOREAN_COUNTERS}|입니다|이다|\W|\Z", behind):
        return match[0]
    total = section = Fraction(0)
    digit: Fraction | None = None
    for token in re.findall(r"[0-9][0-9,]*(?:\.[0-9]+)?|\S", run):
        if token in _MYRIADS:
            total, section, digit = total + (section + (digit or 0) or 1) * _MYRIADS[token], Fraction(0), None
        elif token in _HAN_TENS:
            section, digit = section + (1 if digit is None else digit) * _HAN_TENS[token], None
        elif digit is not None:
            return match[0]
        else:
            digit = Fraction(token.replace(",", "")) if token[0].isdecimal() else Fraction(_HAN[token])
    value = total + section + (digit or 0)
    return str(value) if value.denominator == 1 else match[0]


_KOREAN_COUNTERS: Final = (
    "(?:개|마리|명|사람|대|권|장|그루|송이|잔|번|가지|자루|채|원|년|점|층|세|살|분"
    "|인|표|미터|센티|킬로|그램|리터|톤|퍼센트|시간|달러|가구|건|회|평)"
)
_KOREAN: Final = dict(
    zip(
        "하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열 한 두 세 네".split(),  # noqa: SIM905
        [*range(1, 11), 1, 2, 3, 4],
        strict=True,
    )
)
_KOREAN_NUMBER = re.compile(rf"(?<![가-힣])(?P<number>{'|'.join(_KOREAN)})(?=\s?{_KOREAN_COUNTERS}|\s*[.!]?\Z)")
_SINO_KOREAN = re.compile(
    r"(?<![가-힣])(?=[가-힣]{0,8}[십백천])(?P<number>[일이삼사오육칠팔구십백천]{2,9})"
    rf"(?=\s?(?:{_KOREAN_COUNTERS}|입니다|이다)|\s*[.!]?\Z)"
)
_JAPANESE: Final = dict(
    zip("ひとつ ふたつ みっつ よっつ いつつ むっつ ななつ やっつ ここのつ とお".split(), range(1, 11), strict=True)  # noqa: SIM905
)
_JAPANESE_NUMBER = re.compile(rf"(?<![\u3040-\u30ff])(?P<number>{'|'.join(_JAPANESE)})(?=\s*(?:[.!]|です|\Z))")

_PARTS_OF: Final = re.compile(
    rf"(?P<below>百|[{_HAN_SIGNS}]{{1,6}}|[0-9]{{1,6}})(?:分之|分の|분의\s?)(?P<above>[{_HAN_SIGNS}]{{1,6}}|[0-9.]{{1,9}})"
)


def _part_of(match: re.Match[str]) -> str:
    """`三分之二` as `2/3`, `百分之五` as `5%`."""
    below, above = (found if found[0] in "0123456789" else _han_value(found) for found in match.group("below", "above"))
    return f"{above}%" if match["below"] == "百" else f"{above}/{below}"


_UNIT_STEM: Final = (
    r"(?:l[iíì]t|літ|лит|λίτ|ליט|لتر|لیتر|लीट|লিট|升|公|斤|kilo|кило|كيلو|k[mg]\b|met|mèt|mét|мет|米|μέτ|hor|heur|stund|час|годин|godz|uur|saat"
    r"|giờ|jam|ór|tun|tim|oră|ώρ|שע|ساع|घंट|ঘণ্ট|小时|小時|時間|시간|yıl|jahr|año|ano\b|anno|god|rok|ton|mil|meil|poll|min|dozen|dutz|douz|docen|dúz)"
)
_HALF_OF: Final = re.compile(
    r"(?<![^\W\d_])(?:(?:ein(?:e[nrms]?)?\s)?halbe[rnsm]?\s|(?:une?\s)?demie?[\s-]|medi[oa]\s|mei[oa]\s|(?:un\s)?mezz(?:[oa]\s|')|пол-?|пів-?|pół\s?|nửa\s"
    r"|setengah\s|yarım\s|fél\s|puoli\s|(?:en\s|ett?\s)?halvt?\s|(?:een\s)?halve?\s|půl\s?|μισ[όήά]\s|חצי\s|نصف\s|نیم\s|आधा\s|আধা\s|半个?|半個?)"
    rf"(?={_UNIT_STEM})",
    re.IGNORECASE,
)
_AND_HALF: Final = re.compile(
    r"(?P<whole>[0-9]{1,9})(?P<unit>\s[^\W\d_]+)?\s?(?:et\sdemie?|y\smedi[oa]|e\smei[oa]|e\smezz[oa]|[сз]\sполовино[йю]|i\spół|buçuk|rưỡi|و\s?نصف|و\sنیم|och\sen\shalv"
    r"|og\sen\shalv|en\seen\shal(?:f|ve)|ja\spuoli|és\sfél|a\spůl|și\sjumătate|και\sμισ[όήά]|וחצי|na\snusu|setengah|und\sein(?:e[nrs]?)?\shalbe?[nrs]?)(?![^\W\d_])",
    re.IGNORECASE,
)
_ONE_AND_HALF: Final = re.compile(
    r"(?:\b(?:une?|uno|una|uma?|en|ett?|een|um|unu|bir|một|satu|یک|एक|isa't)(?P<unit>\s[^\W\d_]+)?\s(?:et\sdemie?|y\smedi[oa]|e\smei[oa]|e\smezz[oa]|buçuk|rưỡi|و\sنیم|och\sen\shalv|og\sen\shalv"
    r"|en\seen\shal(?:f|ve)|și\sjumătate|setengah)|(?:\A|(?<=\s))(?P<named>[^\W\d_]+)\s(?:ونصف|וחצי|moja\sna\snusu))(?![^\W\d_])",
    re.IGNORECASE,
)
_HALF_ALONE: Final = re.compile(
    r"\W*(?:(?:ein\s)?halb|(?:die\s|la\s|a\s|de\s)?(?:hälfte|moitié|mitad|metà|metade|helft)|(?:une?\s|un\s|um\s)?(?:demie?|medi[oa]|mei[oa]|mezz[oa])|половина|пол|pół|połowa|polovina|half|hälften|halvdelen|(?:een|en|ett)\shalve?"
    r"|yarım|yarısı|(?:một\s)?nửa|setengah|separuh|ครึ่ง(?:หนึ่ง)?|(?:ال)?نصف|نیم|نیمی|आधा|অর্ধেক|半分|一半|절반|반|חצי|fél|puolet|puoli|jumătate|(?:το\s)?μισό)\W*",
    re.IGNORECASE,
)
_THAI_HALF: Final = re.compile(r"(?P<whole>[0-9]{1,9})\s?(?P<unit>[\u0e00-\u0e7f]{0,12}?)\s?ครึ่ง")
_DUAL: Final = re.compile(
    r"(?<![^\W\d_])(?P<one>ساع|دقيق|سن|يوم|شهر|متر|كيلومتر|لتر|كوب|مر|שע|יומ|שנ|חודש|פעמ)(?:تان|تين|ان|ين|תיים|יים)(?![^\W\d_])"
)
"""Two of a unit in one word: `ساعتان`, `שעתיים`."""
_HALF_BEHIND: Final = re.compile(
    rf"(?P<whole>[{_HAN_SIGNS}]{{1,4}}|[0-9]{{1,6}})(?P<unit>[个個升米斤元年天倍]|公里|公斤|小时|小時|時間)半"
    r"|(?P<many>[0-9]{1,6})(?P<korean>\s?(?:시간|개|미터|년|달|배|리터|킬로))\s반(?=입|이|\W|\Z)"
)
_NTHS: Final = {
    3: "tercios?|tiers|terz[oi]|terços?|drittel|derden?|tredjedel(?:ar|er|e)?|треть|трети|третьих|третина"
    "|третини|trzeci[ae]|třetin[ay]",
    4: "quarts?|quart[oi]|viertel|kwart|fjärdedel(?:ar)?|fjerdedel(?:er|e)?|четверт[ьи]|чверт[ьі]|čtvrtin[ay]",
    5: "quint[oi]s?|cinquièmes?|fünftel|vijfden?|femtedel(?:ar|er|e)?|пятая|пятых|piąt[ae]|pětin[ay]",
    6: "sixièmes?|sesti|sechstel|шестых",
    8: "octavos?|huitièmes?|ottavi|oitavos?|achtel|восьмых",
    10: "décim[oa]s?|dixièmes?|decim[oi]|zehntel|tienden?|десятых",
}
_PARTS_ABROAD: Final = re.compile(
    r"(?<![\w.,])(?P<above>[1-9]|une?|uno|ein|eine|один|одна|een|en|ett?|um|jedna)\s(?:"
    + "|".join(f"(?P<n{below}>{words})" for below, words in _NTHS.items())
    + r")(?![^\W\d_])|\A(?P<whole>[1-3])\scuartos?\b|\A(?P<one>un)\scuarto\b",
    re.IGNORECASE,
)


def foreign_words_as_digits(text: str) -> str:
    """Return `text` with the number words of other languages than English as digits, halves and fractions too."""
    if not text.isascii():
        text = _KILO.sub(lambda match: "公里" if match[0][-1] == "米" else "公斤", _PARTS_OF.sub(_part_of, text))
        text = _LARGE.sub(_large, text)
        text = _HALF_BEHIND.sub(_and_half, text)
        text = _HAN_NUMBER.sub(_han, text)
        text = _KOREAN_NUMBER.sub(lambda match: str(_KOREAN[match["number"]]), text)
        text = _SINO_KOREAN.sub(lambda match: _han_value(match["number"].translate(_AS_HAN)), text)
        text = _JAPANESE_NUMBER.sub(lambda match: str(_JAPANESE[match["number"]]), text)
        text = _HALF_BEHIND.sub(_and_half, text)
    if _HALF_ALONE.fullmatch(text):
        return "1/2"
    text = _THAI_HALF.sub(r"\g<whole>.5 \g<unit>", number_words_as_digits(text)) if "ครึ่ง" in text else text
    text = _DUAL.sub(lambda found: f"2 {found['one']}", text)
    text = _AND_HALF.sub(r"\g<whole>.5\g<unit>", number_words_as_digits(text))
    text = number_words_as_digits(_ONE_AND_HALF.sub(lambda found: f"1.5 {found['unit'] or found['named'] or ''}", text))
    text = _PARTS_ABROAD.sub(_nth, text)
    return text if re.search(r"[0-9]", text) else _HALF_OF.sub("0.5 ", text)


def _and_half(match: re.Match[str]) -> str:
    whole = match["whole"] or match["many"]
    return f"{whole if whole.isdecimal() else _han_value(whole)}.5{match['unit'] or match['korean'] or ''}"


def _nth(match: re.Match[str]) -> str:
    """`2 Drittel` as `2/3`."""
    if match["whole"] or match["one"]:
        return f"{match['whole'] or 1}/4"
    below = next(below for below in _NTHS if match[f"n{below}"])
    return f"{match['above'] if match['above'].isdecimal() else 1}/{below}"


def _han(match: re.Match[str]) -> str:
    number = match["number"]
    if number == "一" and match.string[: match.start()].endswith(("是", "为", "為")):
        return number  # "is a", not "is one"
    return _han_value(number)


def _han_value(number: str) -> str:
    total = digit = 0
    if not set(number) & _HAN_TENS.keys():
        return "".join(str(_HAN[sign]) for sign in number)  # 二〇二四
    for sign in number:
        if sign in _HAN_TENS:
            total += (digit or 1) * _HAN_TENS[sign]
            digit = 0
        else:
            digit = _HAN[sign]
    return str(total + digit)


# Times of day: `2:10 P.M.`, `2.10pm`, `14:10`, `2 o'clock`, `noon`, `half past two`, `quarter to three`.
#
# A time without "a.m." or "p.m." is that of a clock's face up to 12:59, and of the day from 13:00 on; it is not the
# same as one that says which half of the day it means, unless that follows from its hour.


_TIME = re.compile(
    r"(?:at\s)?(?:(?P<hour>[01]?[0-9]|2[0-4])(?::(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9]))?)?)"
    r"\s?(?P<half>[ap]\.?\s?m\.?|o'?\s?clock|h|hours|in\sthe\s(?:morning|afternoon|evening))?\.?"
)
_DOTTED = re.compile(r"(?<![0-9.])([0-9]{1,2})\.([0-5][0-9])(?=\s?[ap]\.?\s?m\b)")
_CLOCK_NAMED: Final = {
    "noon": (12, 0, 0, "p"),
    "midnight": (0, 0, 0, "a"),
    "12 noon": (12, 0, 0, "p"),
    "12 midnight": (0, 0, 0, "a"),
}

_MINUTES: Final = {"half": 30, "quarter": 15, "a quarter": 15}
_SPOKEN = re.compile(
    r"(?:at\s)?(?P<minutes>half|(?:a\s)?quarter|(?P<number>[1-5]?[0-9])(?:\sminutes?)?)\s(?P<side>past|after|to|before)\s(?P<rest>.+)"
)

Time = tuple[int, int, int, str]
"""Hour, minute, second; `a`, `p` or, where that is not said, nothing."""


def same_time(prediction: str, gold: str) -> bool:
    """Tell whether both texts are the same time of day."""
    time = time_of(prediction)
    return time is not None and time == time_of(gold)


def time_of(text: str) -> Time | None:
    """Return the time that `text` is; None if it is none, or a bare number."""
    plain = folded(text).strip(" .,*\"'$")
    plain = re.sub(r"\bone\b", "1", with_digits(plain))
    if plain in _CLOCK_NAMED:
        return _CLOCK_NAMED[plain]
    spoken = _SPOKEN.fullmatch(plain)
    if spoken is not None:
        return _moved(spoken)
    plain = _DOTTED.sub(r"\1:\2", plain)
    match = _TIME.fullmatch(plain)
    if match is None or (match["minute"] is None and match["half"] in (None, "h", "hours")):
        return None
    hour, minute, second = int(match["hour"]), int(match["minute"] or 0), int(match["second"] or 0)
    half = (match["half"] or "").replace("in the ", "")
    half = {"a": "a", "p": "p", "m": "a", "e": "p"}.get(half[:1], "") if half != "afternoon" else "p"
    if half:
        return (hour % 12 + (12 if half == "p" else 0), minute, second, half) if 1 <= hour <= 12 else None
    if hour > 12 or match["hour"] in ("0", "00"):
        return (hour % 24, minute, second, "p" if hour % 24 >= 12 else "a")
    return (hour, minute, second, "")


def _moved(spoken: re.Match[str]) -> Time | None:
    """Return the time so many minutes before or after a whole hour."""
    rest = spoken["rest"]
    hour = time_of(rest if not rest.isdigit() else f"{rest} o'clock")
    minutes = int(spoken["number"]) if spoken["number"] else _MINUTES[spoken["minutes"]]
    if hour is None or hour[1:3] != (0, 0) or (spoken["minutes"] == "half" and spoken["side"] in ("to", "before")):
        return None
    if spoken["side"] in ("past", "after"):
        return (hour[0], minutes, 0, hour[3])
    at = 60 * hour[0] - minutes
    if not hour[3]:
        return ((at // 60 - 1) % 12 + 1, at % 60, 0, "")
    at %= 24 * 60
    return (at // 60, at % 60, 0, "p" if at >= 12 * 60 else "a")


# Dates: `March 5, 2021`, `05 March 2021`, `2021-03-05`, `5 de marzo de 2021`. `03/05/2021` is ambiguous, and none.

MONTHS: Final = {
    name: number
    for names in (
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
        "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
        "ledna února března dubna května června července srpna září října listopadu prosince",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "januari februari mars april maj juni juli augusti september oktober november december",
        "januar februar marts april maj juni juli august september oktober november december",
    )
    for number, name in enumerate(names.split(), 1)
}
_DAY: Final = r"(?P<day>0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th|er|º|°|\.)?"
_DATES: Final = (
    re.compile(r"(?P<year>[0-9]{4})[-/.](?P<month>0?[1-9]|1[0-2])[-/.](?P<day>0?[1-9]|[12][0-9]|3[01])"),
    re.compile(r"(?P<year>[0-9]{4})\s?年\s?(?P<month>0?[1-9]|1[0-2])\s?月\s?(?P<day>[0-9]{1,2})\s?日"),
    re.compile(
        rf"(?:the\s|el\s|le\s|am\s|den\s)?{_DAY}\s(?:of\s|de\s)?(?P<name>[^\W\d_]+)\.?,?\s(?:de\s|of\s)?(?P<year>[0-9]{{4}})(?:\sг\.?)?"
    ),
    re.compile(rf"(?P<name>[^\W\d_]+)\.?\s{_DAY},?\s(?P<year>[0-9]{{4}})"),
)


def date_of(text: str) -> tuple[int, int, int] | None:
    """Return year, month and day of the date that `text` is."""
    plain = folded(text).strip(" .,\"'")
    for form in _DATES:
        found = form.fullmatch(plain)
        if found is not None:
            groups = found.groupdict()
            month = int(groups["month"]) if groups.get("month") else MONTHS.get(groups.get("name") or "")
            return None if month is None else (int(groups["year"]), month, int(groups["day"]))
    return None


# Lists as a program would write them: JSON arrays and Python lists of texts and numbers. Nothing is evaluated.


MOST_ITEMS = 200
_ITEM = re.compile(
    r"\s*(?:'(?P<single>(?:[^'\\\n]|\\.)*)'|\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|(?P<number>-?[0-9]{1,60}(?:\.[0-9]{1,60})?))\s*(?:,|\Z)"
)
_ESCAPED = re.compile(r"\\(['\"\\])")


def literal_list(text: str) -> tuple[str | int | float, ...] | None:
    """Return the items of a JSON array or of a Python list or tuple.

    None if `text` is neither, or holds other things.
    """
    text = text.strip()
    array = _json_array(text)
    if array is not None:
        return array
    if text[:1] + text[-1:] not in ("[]", "()"):
        return None
    found: list[str | int | float] = []
    inside, position = text[1:-1].rstrip().removesuffix(","), 0
    while position < len(inside):
        item = _ITEM.match(inside, position)
        if item is None or len(found) == MOST_ITEMS:
            return None
        said = next(group for group in (item["single"], item["double"], item["number"]) if group is not None)
        found.append(_ESCAPED.sub(r"\1", said) if item["number"] is None else _number(said))
        position = item.end()
    quoted = any(isinstance(item, str) for item in found)
    return tuple(found) if found and (quoted or text[0] == "[") else None


def _json_array(text: str) -> tuple[str | int | float, ...] | None:
    if not text.startswith("["):
        return None
    try:
        array = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(array, list) or not 0 < len(array) <= MOST_ITEMS:
        return None
    plain = all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in array)
    return tuple(array) if plain else None


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
