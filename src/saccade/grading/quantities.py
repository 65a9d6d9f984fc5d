"""Read the single number in a text, with its unit: `There are 5 circles` is 5 circles, `5 or 6` is nothing.

A text is read only if it holds exactly one number and nothing that takes it back: negation, doubt, a bound such as
"more than". "About" is recorded of counts, where exact graders refuse it; what is measured is rounded anyway. In
`a = b = 5` the last value counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from saccade.grading.clean import clean, unwrapped
from saccade.grading.equals import FUNCTIONS, stated
from saccade.grading.languages import BECAUSE, BOUND, DOUBT, LANGUAGES, SCALES_ABROAD, counts_nothing, written_in
from saccade.grading.number_words import foreign_words_as_digits, roman, says_another, with_digits
from saccade.grading.remembered import remembered

# Numerals are read exactly: `1,234.5`, `-3/4`, `1 3/4`, `\frac{3}{4}`, `1.5e3`, `2 × 10^-3`. Those in a formula, time,
# date or name (`B12`) are not read; nor is `3,5`, since commas only group thousands, nor absurd lengths or exponents.

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
    r"""Return `text` with its repeating decimals as fractions: `0.\overline{3}` and `0.333...` are `1/3`."""
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
    """Return the numbers in `text`, in order; None if digits stand there that are part of no readable number."""
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
    whole, _, decimals = (match["decimal"] or "1").replace(",", "").partition(".")
    value, power = int(whole + decimals), exponent - len(decimals)
    return Fraction(value * 10**power) if power >= 0 else Fraction(value, 10**-power)


def _fraction(match: re.Match[str]) -> Fraction | None:
    integer = int(match["whole"] or match["mixed"] or 0)
    above = match["over"] or match["over1"] or match["above"] or match["top"]
    below = int(match["under"] or match["under1"] or match["below"] or match["bottom"])
    if below == 0 or (integer and above.startswith("-")):
        return None
    return integer + Fraction(int(above), below)


# Units: spellings, and factors to the first unit of each dimension. Unlisted units are compared by word; currencies are
# never converted. Not `pint`: it lacks 22 of these 138 spellings, takes `cat`, `pin` and `circle` for units, and needs
# half a second to start.

ORDINAL: Final = "ordinal"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit, as a multiple of the first one of its dimension."""

    dimension: str
    factor: Fraction


_TABLE: Final = {
    "length": {
        "m meter metre meters metres metro metros mètre mètres метр метра метров 米 公尺 メートル 미터": "1",
        "mm millimeter millimetre millimeters millimetres мм 毫米 ミリメートル 밀리미터": "1/1000",
        "cm centimeter centimetre centimeters centimetres centímetros centimètres centimetri": "1/100",
        "см 厘米 公分 センチ センチメートル 센티미터": "1/100",
        "dm decimeter decimetre decimeters decimetres": "1/10",
        "km kilometer kilometre kilometers kilometres kilómetros kilomètres chilometri": "1000",
        "км 千米 公里 キロメートル 킬로미터": "1000",
        "in inch inches": "0.0254",
        "ft foot feet": "0.3048",
        "yd yard yards": "0.9144",
        "mi mile miles": "1609.344",
    },
    "mass": {
        "kg kilogram kilograms kilo kilos кг 千克 公斤 キログラム 킬로그램": "1",
        "g gram grams gramm gramos grammes 克 г グラム 그램": "1/1000",
        "mg milligram milligrams": "1/1000000",
        "lb lbs": "0.45359237",
        "oz ounce ounces": "0.028349523125",
    },
    "time": {
        "s sec secs second seconds sekunden segundos secondes secondi секунд сек 秒 초": "1",
        "ms millisecond milliseconds": "1/1000",
        "min mins minute minutes minuten minuto minutos minuti минут минута минуты минуту мин": "60",
        "minut minuty minuta minuuttia minuter minutter menit dakika perc хвилин хвилини хвилина": "60",
        "分钟 分鐘 分 분 דקות دقيقة دقیقه मिनट λεπτά": "60",
        "h hr hrs hour hours stunde stunden hora horas heure heures ora ore часов часа час 小时 小時 時間 시간": "3600",
        "godzina godziny godzin godzinę hodina hodiny hodin hodinu timme timmar timer uur óra": "3600",
        "tunti tuntia saat jam година години годин годину שעה שעות ساعة ساعات ساعت घंटा घंटे ώρα ώρες oră": "3600",
        "day days tag tage tagen día días jour jours giorni дней 天 日 일": "86400",
        "week weeks": "604800",
    },
    "volume": {
        "l liter litre liters litres": "1",
        "ml milliliter millilitre milliliters millilitres": "1/1000",
    },
    "area": {
        "m² м² sqm": "1",
        "cm² см²": "1/10000",
        "mm² мм²": "1/1000000",
        "km² км²": "1000000",
        "in²": "0.00064516",
        "ft² sqft": "0.09290304",
    },
    "cubic": {"m³ м³": "1", "cm³ см³": "1/1000000", "mm³ мм³": "1/1000000000", "in³": "0.000016387064"},
    "angle": {
        "° deg degs degree degrees grad grados degrés gradi graus grader derajat độ derece fokos astetta 度 도": "1",
        "градусов градуса градусы градусів градуси stopni stopnie stupňů βαθμοί βαθμούς": "1",
    },
    "temperature": {"°c celsius": "1"},
    "fahrenheit": {"°f fahrenheit": "1"},
    "percent": {
        "% percent pct percentage prozent procent процент процента процентов відсотків パーセント 퍼센트 prosent": "1",
        "prosenttia százalék procenta persen प्रतिशत শতাংশ درصد فیصد بالمئة phần": "1",
    },
    "dollar": {"$ dollar dollars usd dólares dólar долларов 美元 ドル 달러": "1", "¢ cent cents": "1/100"},
    "euro": {"€ euro euros eur евро 欧元 歐元 ユーロ 유로": "1"},
    "yuan": {"yuan rmb cny 元 人民币": "1"},
    "pound": {"£ pound pounds gbp": "1", "pence penny": "1/100"},
    "yen": {"¥ yen jpy 円 日元": "1"},
    "year": {"year years yr yrs jahre jahren años ans anni лет 年 岁 歲 歳 년": "1", "month months": "1/12"},
    "pixel": {"px pixel pixels": "1"},
    ORDINAL: {"st nd rd th": "1"},
}
_UNITS: Final = {
    name: Unit(dimension, Fraction(factor))
    for dimension, rows in _TABLE.items()
    for names, factor in rows.items()
    for name in names.split()
}
SCALES: Final = {
    "hundred": 100,
    "dozen": 12,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "trillion": 1_000_000_000_000,
    "mn": 1_000_000,
    "bn": 1_000_000_000,
    "lakh": 100_000,
    "crore": 10_000_000,
}
MYRIADS: Final = {"万": 10**4, "萬": 10**4, "만": 10**4, "亿": 10**8, "億": 10**8, "억": 10**8}
ATTACHED_SCALES: Final = {"K": 1_000, "k": 1_000, "M": 1_000_000, "B": 1_000_000_000, "T": 1_000_000_000_000}
"""Read only where they follow the digits at once: `5M` is five million, `5 m` five metres."""


def unit_named(word: str) -> Unit:
    """Return the unit that `word` names; an unknown word is a dimension of its own, singular and plural alike."""
    word = word.casefold()
    known = _UNITS.get(word)
    if known is not None:
        return known
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 2 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return Unit(f"word:{word}", Fraction(1))


def names_of(dimension: str, factor: int) -> list[str]:
    """Return the spellings of a unit, the longest first."""
    return sorted((name for name, unit in _UNITS.items() if unit == Unit(dimension, Fraction(factor))), key=len)[::-1]


def is_known(word: str) -> bool:
    """Tell whether `word` is in the table."""
    return word.casefold() in _UNITS


BOUND_BEFORE = re.compile(
    r"(?:\b(?:more|less|greater|fewer|larger|smaller|higher|lower)(?:\s[a-z]+){0,3}?\sthan|\bas\s(?:many|much|few|little)\sas|\bat\s(?:least|most)|[<>≤≥≠]|\\(?:leq?|geq?|neq?)"
    r"|\b(?:over|under|above|below|up\sto|nearly|almost|between|beyond|exceeds|before|after|since|until|twice|double|half|(?:root|square|cube|inverse|half)\sof)"
    r"|超过|超過|不足|不到|至少|最多|最少|\b(?:unter|über)|\b(?:plus|moins)\sde|\bponad"
    rf"|{BOUND})\s*$",
    re.IGNORECASE,
)
_BOUND_AFTER = re.compile(
    r"^\s*(?:[<>≤≥≠±]|\\pm\b|\+|-\s?\w|!|\w{0,3}(?:以上|以下|以内|余)|\S{0,2}\s?이[상하]|or\s(?:so|more|less|fewer)\b|and\s(?:above|below|up|more|over|a\s|one\s)|\w*\s?at\s(?:least|most)\b"
    r"|(?:[^\W\d_]+\s)?(?:oder|ou|o|или|або|lub|of|eller|nebo|sau|ή|או|vagy|tai|atau|veya|hoặc)\s(?:mehr|weniger|plus|moins|más|menos|mais|più|meno|больше|более|меньше|менее|більше|менше|więcej|mniej|meer|minder|fler|mer|färre"
    r"|flere|færre|více|méně|mai\s(?:mult|puțin)\w*|περισσότερ\w+|λιγότερ\w+|יותר|פחות|több|kevesebb|enemmän|vähemmän|lebih|kurang)\b"
    r"|\S{0,3}より(?:多|少|大|小|高|低|長|短)|\S{0,3}보다\s?(?:많|적|크|작|높|낮)|'?[dt][ea]n\s(?:fazla|az|çok|büyük|küçük)\b|\s?\S{0,9}\s?से\s(?:अधिक|ज़्यादा|ज्यादा|कम)|\S{0,6}\s?(?:র|ের)\s(?:বেশি|কম)|\s?\S{0,9}\s?سے\s(?:زیادہ|کم)"
    r"|(?:squared|cubed|plus|minus|factorial)\b|(?:\w+\s)?(?:tercios?|tiers|terzi|terços?|drittel|derden?|tredjedel\w*|quartos?|cuartos?|quarti|halves|thirds|fifths|sixths|sevenths|eighths|ninths|tenths"
    r"|viertel|fünftel|quintos?|cinquièmes?|achtel|sechstel|zehntel|décimos?|dixièmes?|decimi|трет[иь]|четверт[иьей]+|пят[ыаои]+х"
    r"|десят[ыао]\w+|trzecie|czwarte)\b|(?:komma|virgule|coma|vírgula|virgola|запятая|цел(?:ых|ая|ые)|przecinek|virgül|phẩy|koma)\b"
    r"|\w+\s(?:(?:y|e|et|und|und\sein|en\seen|och\sen|с|i|ve|ja|és|a|și)\s(?:medi[oa]|mezz[oa]|mei[oa]|demie?|halbe?[nrs]?|halve?|halv|половиной|pół|yarım|puoli|fél|půl|jumătate)|rưỡi|buçuk)\b"
    r"|(?:y|e|et|und|und\sein|en\seen|och\sen|с|i|ve)\s(?:medi[oa]|mezz[oa]|mei[oa]|demie?|halbe?[nrs]?|halve?|halv|половиной|pół|yarım)\b"
    r"|(?:einhalb|buçuk|rưỡi|setengah|с\sполовиной|आधा)\b|(?:is|are|seems?|would\sbe)\s(?:far\s|way\s|much\s)?too\s|times\s+(?:as\b|more|less|larger|smaller|the\b|that|[-0-9a-z]*[0-9]|of\b|greater|fewer|bigger"
    r"|taller|longer|higher|faster))",
    re.IGNORECASE,
)
_SAID_AGAIN = re.compile(r"(?<![0-9.])([0-9]{1,9}) (?:\(\1\)|- \1(?![\w.,]))")  # "5 (five)"
# "None", "no intersections", "there are no red cars": a count of nothing. "No idea" and the like count nothing.
_NONE = re.compile(
    r"(?:none(?:\sof\s(?:them|these|the\s(?!above|options|choices|answers|following|given)[\w ]{1,30}))?"
    r"(?:\s(?:is|are|has|have|was|were|exceed|exceeds|do|does)\b[\w ]{0,30})?|(?:(?:there|they|it|the\s[\w ]{1,30})"
    r"\s(?:is|are|was|were|has|have|do|does)\s)?"
    r"(?:none(?:\s(?:visible|present|shown|here|at\sall|to\sbe\sseen)){0,2}(?:\sin\s(?:the|this)\s[a-z]{1,12})?"
    r"|(?:no|zero)\s(?!(?:idea|answer|information|doubt|way|one|clue|number|more|less|fewer|longer|matter|problem|sense|single|"
    r"solution|such|thanks|wait|sir|but|it|i|the|that|this|there|they|and|or|yes|data|image|picture|not|option|choice|change|"
    r"difference|limit|evidence|response|comment|reason|further|other|clear|sure|need|choices|options|answers|relation)\b)"
    r"[a-z]+(?:\s(?!(?:or|and|answers?|numbers?|data|information|evidence|reason|way|response|solution|options?|choices?)\b)"
    r"[a-z]+){0,3}?(?:\s(?:(?:is|are|was|were|can\sbe)\s)?(?:visible|present|shown|seen|depicted"
    r"|here|at\sall|to\sbe\sseen)){0,2}(?:\s(?:in|on)\s(?:the|this)\s[a-z]{1,12})?))[.!]?",
    re.IGNORECASE,
)
_NOT_ANY = re.compile(
    r"(?:there\s(?:(?:is|are|was|were)n't|(?:is|are|was|were)\snot)|i\s(?:do\snot|don't|cannot|can't|can\snot)\ssee|i\ssee\sno"
    r"|the\s(?:image|picture|photo|figure|chart)\s(?:does\snot|doesn't)\s(?:show|contain|have|include|depict))"
    r"(?:(?<=\sno)|\sany|\sa\ssingle)(?:\s(?!idea|answer|information|doubt|way|more|less|other|image"
    r"|picture|data|or\b|and\b)[a-z]+){0,4}[.!]?",
    re.IGNORECASE,
)
# "Twice", "They cross once.", "The lines intersect exactly twice": a count of times; "more than twice" is none.
_TIMES: Final = {"once": 1, "twice": 2, "thrice": 3}
_SO_OFTEN = re.compile(
    r"(?:(?:they|it|he|she|the\s[a-z ]{1,40}|[a-z]+s)\s[a-z]+(?:\seach\sother|\sone\sanother)?\s)?"
    r"(?:only\s|exactly\s|just\s)?(?P<often>once|twice|thrice)[.!]?",
    re.IGNORECASE,
)
_NOT_SO_OFTEN = re.compile(
    r"\b(?:than|at|least|most|about|nearly|almost|around|roughly|or|more|less|as)\b", re.IGNORECASE
)
# `f(5)`, `sqrt 5`, `log(5)`, `-(-5)`, `±5`: the number of a formula, not what it comes to.
_APPLIED = re.compile(
    rf"(?:[A-Za-z}}+*/^√-][(\[{{]|±|\\pm|\b(?:{FUNCTIONS.removesuffix('|det')})\s?[(\[{{]?)\s*$", re.IGNORECASE
)
ABOUT = re.compile(
    r"(?:\b(?:about|approximately|around|roughly|approx\.?|circa|some|ca\.|etwa|ungefähr|environ|unos|unas|aproximadamente|cerca\sde"
    r"|около|примерно|ongeveer|około|yaklaşık|sekitar|khoảng)|大约|大約|约|約|およそ|약|[~≈]|\\approx|\\sim)\s*$",
    re.I,
)
_ROUNDED = re.compile(r"[\w)}]\s?(?:≈|\\approx)\s*$")
"""A sign of rounding behind a name, which hedges nothing: `g ≈ 9.81`."""
_PER_SQUARED = re.compile(r"(?<=[A-Za-z])\s?/\s?(?P<unit>s|h|min)\s?\^?\{?2\}?(?![0-9])")
MINUS = re.compile(
    r"(?:(?<![^\W\d_])(?<!\bau\s)(?<!\bal\s)(?<!lo\s)(?<!\bou\s)(?<!\bo\s)(?<!\bdu\s)(?:minus|negative|moins|menos|meno|минус|мінус|minusz|miinus|eksi|âm"
    r"|ลบ|سالب|ناقص|منفی|माइनस|ऋण|মাইনাস|μείον|מינוס)|零下|[负負]|マイナス|氷点下|영하|마이너스)\s*$",
    re.IGNORECASE,
)
BELOW = re.compile(
    r"\s(?:(?:below|unter|sous|bajo|abaixo\sde|sotto(?:\slo)?|ниже|нижче|poniżej|onder|under|dưới|di\sbawah|تحت|زیر|pod|sub)\s"
    r"(?:zero|freezing|zéro|cero|null?|нуля|zera|nulou|0|الصفر|صفر|noll?|không)|negativos?)(?![^\W\d_])",
    re.IGNORECASE,
)
"""What makes a temperature negative, behind it."""
PER_HUNDRED = re.compile(r"\b(?:(?:per|pour|por|pro)\s(?:cent|ciento|cento)|vom\sHundert)\b", re.IGNORECASE)
_NUM: Final = r"[-+]?[0-9][0-9.,/]{0,24}"
_NOT_BUT = re.compile(
    rf"(?:\b(?:not|nicht|n'est\spas|pas|não|no|non|не|ні|niet|nie|inte|ikke|ei|nem|nu)\s(?:\S+\s){{0,2}}?{_NUM}(?:\s\S+?){{0,3}}?,?\s"
    r"(?:but(?:\srather)?|sondern|mais|sino|mas(?:\ssim)?|ma|bensì|а|ale|maar|tylko|lecz|utan|men|vaan|hanem|ci)\s"
    rf"|不是\s?{_NUM}\S{{0,3}}?,?\s?而?(?=是)|{_NUM}\S{{0,3}}?ではなく,?\s?|{_NUM}\s?\S{{0,3}}?[이가]?\s아니라\s|{_NUM}(?:\s\S+)?\sdeğil,?\s)(?=[^0-9]{{0,20}}{_NUM})"
    rf"|,?\s(?:(?:and|und|et|y|e|а|en|a|og|och)\s)?(?:not|nicht|non|pas|no|não|не|niet|nie|inte|ikke)\s{_NUM}(?:\s\S+)?\W*\Z",
    re.IGNORECASE,
)
"""What is named only to be denied: "nicht 5, sondern 4", "4, not 5"."""
_NUMBERED = re.compile(r"\A(?:no|nr|n°|num)\.?\s(?=[0-9]+\W*\Z)", re.IGNORECASE)
_UNIT = re.compile(r"°\s?[CcFf]?(?!\w)|[%$€£¥¢]|[^\W\d_]+[²³]?")
_POWER = re.compile(
    r"(?<![A-Za-zА-я])(?P<unit>[kcdm]?m|[ксдм]?м|in|ft|yd|mi|units?)(?:\s?\^\s?)?\{?(?P<power>[23])\}?(?![0-9.,])"
)
_SQUARE = re.compile(r"^(?P<power>square|sq\.?|cubic)\s(?P<unit>[^\W\d_]+)", re.IGNORECASE)
UNSPACED = re.compile("[\u0980-\u09ff\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SKIPPED = frozenset(
    """
        in on at of to and is are was were the a an for with total overall altogether there that which as so by from
    """.split()  # noqa: SIM905
)

_SIGNS: Final = {"2": "²", "3": "³"}
_SHORT: Final = {
    "meter": "m",
    "metre": "m",
    "centimeter": "cm",
    "centimetre": "cm",
    "millimeter": "mm",
    "millimetre": "mm",
    "kilometer": "km",
    "kilometre": "km",
    "inche": "in",
    "inch": "in",
    "feet": "ft",
    "foot": "ft",
    "yard": "yd",
    "mile": "mi",
}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what it counts or measures."""

    value: Fraction
    unit: Unit | None = None
    about: bool = False

    @property
    def percent(self) -> bool:
        """Whether it is given in percent."""
        return self.unit is not None and self.unit.dimension == "percent"


@remembered
def quantity(text: str) -> Quantity | None:
    """Return the one number that `text` states, or None."""
    plain = _PER_SQUARED.sub(r"/\g<unit>²", repeating_as_fraction(_ITALIC.sub(r"\1", unwrapped(clean(text)))))
    plain = _POWER.sub(lambda match: match["unit"] + _SIGNS[match["power"]], plain)
    plain = _NUMBERED.sub("", PER_HUNDRED.sub("%", plain))
    below = BELOW.search(plain)
    if below is not None:
        warm = quantity(plain[: below.start()] + plain[below.end() :])
        return Quantity(-warm.value, warm.unit, warm.about) if warm is not None and warm.value > 0 else None
    if _NONE.fullmatch(plain) is not None or _NOT_ANY.fullmatch(plain) is not None or counts_nothing(plain):
        return Quantity(Fraction(0))
    often = _SO_OFTEN.fullmatch(plain)
    if often is not None and DOUBT.search(plain) is None and _NOT_SO_OFTEN.search(plain) is None:
        return Quantity(Fraction(_TIMES[often["often"].casefold()]))
    numeral = roman(plain)
    if numeral is not None:
        return Quantity(Fraction(numeral))
    plain = _ONE_IN.sub(_share, _SAID_AGAIN.sub(r"\1", ungrouped(_NOT_BUT.sub(" ", foreign_words_as_digits(plain)))))
    value = stated(plain) if DOUBT.search(plain) is None else plain
    found = None if value is None else _only_number(value)
    if found is not None and (read := _read(*found)) is not None:
        return read
    reason = re.search(rf",?\s(?:because|since)\s|,?\s?(?:{BECAUSE})", plain, re.IGNORECASE)
    if (
        reason is not None
        and re.search(r"=|\.\s", plain) is None
        and DOUBT.search(plain) is None
        and (said := _only_number(plain[: reason.start()])) is not None
    ):
        return _read(*said)
    again = _IN_BRACKETS.fullmatch(plain)
    if again is not None:
        first, second = quantity(again["first"]), quantity(again["second"])
        if first is not None and second is not None:
            return second if _equal(first, second) else None
    among = AMONG.fullmatch(plain)
    if among is not None and (whole := _only_number(among["whole"] or among["before"])) is not None:
        rest = plain[len(among["whole"] or among["before"]) :]
        if (_FURTHER_SENTENCE.search(rest) is None and DOUBT.search(plain) is None) or (
            _CONCLUDES.search(rest) is None and len(numerals(with_digits(rest)) or ()) <= 1
        ):
            return _read(*whole)
    return _in_two_units(plain) or _shared_out(plain)


_FURTHER_SENTENCE = re.compile(r"[^\W\d_]{2}[.!?]\s[^.]*[0-9]")
_ITALIC = re.compile(r"(?<![\w*])\*([^\W\d_]{2}[^*\n]{0,80})\*(?![\w*])")
_ONE_IN = re.compile(
    r"\A((?:.{0,60}(?:chance|probabilit|odds|wahrscheinlichk|probabilid|likelihood)[^0-9]{0,40})?)(?P<above>[0-9]{1,6})\s"
    r"(?:in|out\sof|von|sur|de\scada|de|su|em|z|ze|из|з|op\sde|van\sde|av|af|dari|trên|από\sτα|مین\sسے|من|מתוך)\s(?P<below>[0-9]{1,6})\W*\Z",
    re.IGNORECASE | re.DOTALL,
)
"""A chance, or nothing but a share: "1 in 4"."""


def _share(match: re.Match[str]) -> str:
    below = int(match["below"])
    return f"{match[1]}{match['above']}/{below}" if 0 < int(match["above"]) < below else match[0]


_CONCLUDES = re.compile(r"\b(?:so|hence|thus|therefore|leav(?:es|ing)|only|answer|total|actually)\b", re.IGNORECASE)
_EACH = re.compile(
    r"\b(?:each|every|per|apiece|jeder?|jedem|je|chaque|chacune?|par|cada|ogni|ciascun\w|кажд\w+|кожн\w+|po|по|każd\w+|elk\w?|ieder\w?|hver|varje|vardera|her|mỗi|setiap|každ\w+|fiecare|κάθε|minden|joka|kullakin)\b"
    r"|每|各|ずつ|씩|كل|هر|प्रत्येक|हर|প্রতি|כל",
    re.IGNORECASE,
)
_LONGEST_SENTENCE: Final = 400
_APART = re.compile(r"\s?[:;(]\s?|,\s|\s-\s")


def _shared_out(plain: str) -> Quantity | None:
    """Return the whole of "6 chairs: 3 on each side"."""
    for apart in _APART.finditer(plain) if len(plain) < _LONGEST_SENTENCE else ():
        whole, part = _only_number(plain[: apart.start()]), _only_number(plain[apart.end() :])
        if whole is None or part is None or not _EACH.search(plain, apart.end()) or DOUBT.search(plain):
            continue
        if 0 < part[1].value < whole[1].value and whole[1].value % part[1].value == 0:
            return _read(*whole)
    return None


_IN_BRACKETS = re.compile(
    r"(?P<first>[^()]{1,60}?)\s?\((?:i\.\s?e\.,?\s|=\s?|equals\s|that\sis,?\s|or\s)?(?P<second>[^()]{1,60})\)\W*",
    re.IGNORECASE,
)
"""The same again in another unit: "1.80 m (180 cm)"."""
AMONG = re.compile(
    r"(?P<whole>[^,;()]{1,200})(?:\s-\s(?:that|which|up|down|compared)\b|[,;(]\s?(?:(?:(?:and|although|though|even\sthough|but|while)\s)?(?:only\s)?[a-z0-9]+(?:\s[a-z]+)?\sof\s(?:which|these|them|whom)\b|of\s(?:which|these|them|whom)\b"
    r"|including\s|其中|(?:dont|davon|darunter|di\scui|waarvan|varav|hvorav|hvoraf|d[oa]s\squais|z\sczego|z\snich|joista|din\scare|trong\sđó|gồm|منها|منهم)\s|(?:de\s(?:los|las)\scuales|из\s(?:них|которых))\s"
    r"|[そ]?のうち|うち|그\s?중)).{1,200}|(?P<before>.{1,200}?)\s\([^()]{10,200}\.\)",
    re.IGNORECASE,
)
"""A part of what is counted, or a remark: "15 birds, 3 of which fly", "85 - up from 72", "3. (That is all.)"."""


_DEGREES: Final = ({"angle", "temperature"}, {"angle", "fahrenheit"})
"""Degrees, and what they are degrees of: "minus 7 degrees (-7 °C)"."""


def _equal(first: Quantity, second: Quantity) -> bool:
    return (
        first.unit is not None
        and second.unit is not None
        and (first.unit.dimension == second.unit.dimension or {first.unit.dimension, second.unit.dimension} in _DEGREES)
        and first.value * first.unit.factor == second.value * second.unit.factor
    )


# Groups of digits by apostrophe, underscore, point or space are closed up where they cannot mean anything else.

_GROUPS: Final = (
    (re.compile(r"(?<![\w.,'])([0-9]{1,3}(?:'[0-9]{3})+)(?![\w'])"), "'"),
    (re.compile(r"(?<![\w.,])([0-9]{1,3}(?:_[0-9]{3})+)(?![\w])"), "_"),
    (re.compile(r"(?<![\w.,])([0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3})(?![\w,])"), ","),
    (re.compile(r"(?<![\w.,])([0-9]{1,3}(?:\.[0-9]{3})+)(?=,[0-9]+(?![\w.,]))"), "."),
    (re.compile(r"(?<![\w.,])([0-9]{1,3}(?:\.[0-9]{3}){2,})(?![\w.])"), "."),
    (re.compile(r"(?<![\w.,])([1-9][0-9]{0,2}(?:\s[0-9]{3}){2,})(?![\w]|[.,][0-9])"), " "),
    (
        re.compile(
            r"(?<=\A)([-+]?[$€£¥]?\s?[1-9][0-9]{0,2}(?:\s[0-9]{3})+)(?=(?:[.,][0-9]+)?(?:\s?[^\d\W][^\d]{0,40}|\s?[%€$£°])?\Z)"
        ),
        " ",
    ),
)
_SI: Final = "(?:[numckMGµμ]?(?:m|g|l|L|s|V|A|W|N|J|Pa|Hz|Ω|F|C|K|T)|dm|ha|kWh|mol)"
_GROWN: Final = re.compile(r"[kMGmµμ]?(?:V|N|W|J|Ω|Hz|Pa)|[mkµμ]A|kWh|mol")
"""Unlisted units that are written onto their digits: `2.4V`."""
_COMMA: Final = re.compile(
    rf"(?<![\w.,])([0-9]{{1,60}}),(?=[0-9]{{1,2}}(?:\s?(?:{_SI}|min|h|°|%|€)[²³]?(?![\w,])|\s?(?:[·×*x]|\\cdot|\\times)\s?10))"
    r"|\A(-?0),(?=[0-9]{1,9}\Z)|(?<=€)(\s?[0-9]+),(?=[0-9]{2}(?![\w,]))"
)

MEASURE: Final = (
    r"(?:k|m|c|d|µ|μ)?(?:m|g|l|s|v|a|w|hz|pa|j|n|°|%)[²³]?(?![^\W\d_])|\S*(?:met|mèt|mét|мет|gram|грам|lit|лит)"
)
SPACED_GROUP: Final = re.compile(r"(?<![\w.,])[1-9][0-9]{0,2}(?:\s[0-9]{3})+(?![\w]|[.,][0-9]{3})")
_SPACED_CENTS: Final = re.compile(r"(?<![\w.,])[1-9][0-9]{0,2}(?:\s[0-9]{3})+,[0-9]{2}(?![\w.,])")
_MONEY_IN_GROUPS: Final = re.compile(
    r"[0-9]\s?(?:(?:đồng|đ|vnd|rupiah|idr|pesos?|lir[ae]|euros?|eur|tl|kr|zł|lei|reais|ft)(?![^\W\d_])|[€₺₽₴₫])",
    re.IGNORECASE,
)
_DOTTED_GROUP: Final = re.compile(
    rf"(?<![\w.,])[1-9][0-9]{{0,2}}(?:\.[0-9]{{3}})+(?=\s(?!{MEASURE}|{'|'.join(SCALES_ABROAD)})[^\W\d_]{{2,}}|\s?€)",
    re.IGNORECASE,
)
"""`1.234 Besucher` in a language that groups by points: what is counted has no decimals."""
_COMMA_DECIMAL: Final = re.compile(rf"(?<![\w.,])([0-9]{{1,6}}),([0-9]{{3}})(?=\s?(?:{MEASURE}))", re.IGNORECASE)
_COMMA_ALONE: Final = re.compile(
    r"(\D*[0-9]+),([0-9]{1,2}(?![0-9])\s(?!(?:and|or|y|e|et|und|o|ou|oder|i|и|или|to|a)\b)[^\W\d_]{2,}\D*)"
)
"""One number with a comma that groups no thousands, and a word behind it: `19,99 lei`, `1,5 milhão`."""


def ungrouped(text: str) -> str:
    """Close up groups of digits, and write decimals with a point."""
    text = re.sub(r"(?<![\w.,])0,(?=[0-9]+(?![\w,]))", "0.", text)  # a zero leads no group of thousands
    text = _SPACED_CENTS.sub(lambda match: match[0].replace(" ", "").replace(",", "."), text)
    code = written_in(text)
    if code or _MONEY_IN_GROUPS.search(text):
        text = SPACED_GROUP.sub(lambda match: match[0].replace(" ", ""), text)
        commas = not code or LANGUAGES[code].comma or code == "id"
        text = _DOTTED_GROUP.sub(lambda match: match[0].replace(".", ""), text) if commas else text
        if code and LANGUAGES[code].comma:
            text = _COMMA_DECIMAL.sub(r"\1.\2", text)
            text = re.sub(r"(?<![\w.,])([0-9]{1,6}),([0-9]{1,2}|(?<=0,)[0-9]{3,9})(?![\w,])", r"\1.\2", text, count=1)
    for pattern, sign in _GROUPS:
        text, count = pattern.subn(lambda match, sign=sign: match[1].replace(sign, ""), text)  # type: ignore[misc]
        if count and sign in ". ":
            text = re.sub(r"(?<=[0-9]{4}),(?=[0-9]+(?![\w.,]))", ".", text)
    text = _COMMA.sub(lambda match: f"{match[1] or match[2] or match[3]}.", text)
    return _COMMA_ALONE.sub(r"\1.\2", text) if _COMMA_ALONE.fullmatch(text) else text


# Two units of one kind are one quantity: `1 h 30 min`, `5'11"`, "$3 and 50 cents".

_FEET = re.compile(r"([0-9]{1,4})\s?'\s?([0-9]{1,2}(?:\.[0-9]{1,4})?)\s?(?:\"|''|\Z)")
_MINUTES = re.compile(r"([0-9]{1,4})\s?m(?:ins?)?\s?(?=[0-9]{1,2}\s?s(?:ecs?)?\b)")
_METRES = re.compile(r"([0-9]{1,2})\s?m\s?([0-9]{2})(?![\w.,:²³^])(?!\s?[a-z])", re.IGNORECASE)
_HOURS = re.compile(r"([0-9]{1,4})\s?h(?:rs?)?\s?([0-9]{1,2})(?:\s?m(?:ins?)?)?(?![\w.,:])", re.IGNORECASE)
_CASH = re.compile(
    r"([0-9]{1,6})\s?(€|\$|£|euros?|eur|dollars?|dólares|pounds?)\s?([0-9]{2})(?:\scents?)?(?=\W*\Z)", re.IGNORECASE
)
_BETWEEN = re.compile(r"\s?(?P<unit>[^\W\d_]+|°|)\.?\s?,?\s?(?:(?:and|und|et|y|e|и)\s)?")
_MONEY: Final = ("dollar", "euro", "pound")


def _cash(match: re.Match[str]) -> str:
    """`12€50` as "12 € and 50 cents"."""
    money = "dollars" if match[2][0] in "$dD" else "pounds" if match[2][0] in "£pP" else "euros"
    return f"{match[1]} {money} {match[3]} cents"


def _in_two_units(text: str) -> Quantity | None:
    """Return the sum of amounts in falling units of one kind; money in the larger unit, all else in the smallest."""
    text = _MINUTES.sub(r"\1 min ", _FEET.sub(r"\1 ft \2 in", text))
    text = _METRES.sub(r"\1 m \2 cm", _HOURS.sub(r"\1 h \2 min", _CASH.sub(_cash, text)))
    found = numerals(text)
    if found is None or len(found) not in (2, 3):
        found = numerals(text := with_digits(text))
    if found is None or len(found) not in (2, 3) or DOUBT.search(text) or text[: found[0].start].strip(" .:=*"):
        return None
    ends = [*(one.start for one in found[1:]), len(text)]
    units: list[Unit] = []
    for number, end in zip(found, ends, strict=True):
        between = _BETWEEN.fullmatch(text[number.end : end].rstrip(" .*") + ("" if end == len(text) else " "))
        word = number.currency or (between["unit"] if between is not None else "")
        if between is None or not is_known(word) or number.value < 0:
            return None
        units.append(unit_named(word))
    first = units[0]
    if first.dimension == "euro" and units[1:] == [unit_named("cents")]:
        units[1] = Unit("euro", Fraction(1, 100))
    if any(one.dimension != first.dimension for one in units):
        return None
    for (larger, smaller), number in zip(pairwise(units), found[1:], strict=True):
        if smaller.factor >= larger.factor or number.value * smaller.factor >= larger.factor:
            return None
    total = sum((number.value * unit.factor for number, unit in zip(found, units, strict=True)), Fraction(0))
    stated = first if first.dimension in _MONEY else units[-1]
    return Quantity(total / stated.factor, stated)


def _only_number(text: str) -> tuple[str, Numeral] | None:
    """Return the text, as it was read, and its number."""
    found = numerals(text)
    if found is not None and (found == () or says_another(text)):
        text = _SAID_AGAIN.sub(r"\1", with_digits(text))
        found = numerals(text)
    if found is not None and len(found) == 2:
        years = [one for one in found if _IN_YEAR.fullmatch(text, max(0, one.start - 14), one.end)]
        found = tuple(one for one in found if one not in years) if len(years) == 1 else found
    return (text, found[0]) if found is not None and len(found) == 1 else None


_IN_YEAR = re.compile(
    r"(?:.{0,12}?(?<![^\W\d_]))?(?:in|for|of|since|during|im\sjahr|en|em|nel|в|у|w|năm|tahun|år|i|vuonna|in\sthe\syear|op|anul|το|στο|عام|سنة|سال)\s(?:1[89]|20)[0-9]{2}",
    re.IGNORECASE,
)
"""A year that says when: "in 2018 it was 5"."""


def _read(text: str, number: Numeral) -> Quantity | None:
    before, after = text[: number.start], text[number.end :]
    if _APPLIED.search(before):
        return None
    if DOUBT.search(before) or DOUBT.search(after) or BOUND_BEFORE.search(before) or _BOUND_AFTER.search(after):
        return None
    if _is_formula(before) or _is_formula(after) or _reckons_with_letters(text, number):
        return None
    about = ABOUT.search(before) is not None and _ROUNDED.search(before) is None
    if before.rstrip().endswith(("第", "제")):
        return Quantity(number.value, unit_named("th"))
    scale, after = _scale(after)
    value = number.value * (-scale if MINUS.search(before) else scale)
    word = _unit_word(after)
    if word and not after.startswith(" ") and UNSPACED.match(word):
        word = next((word[:end] for end in range(len(word), 0, -1) if is_known(word[:end])), "")  # 7个, 7厘米高
    if number.currency and (not word or not is_known(word)):
        word = number.currency
    grown = word and not after.startswith(" ") and _GROWN.fullmatch(word) is None
    if grown and unit_named(word).dimension.startswith("word:"):
        return None  # letters grown onto the digits that are no unit: a name, a variable, a code
    if not word:
        return Quantity(value, about=about and scale == 1 and value.denominator == 1)
    unit = unit_named(word)
    if unit.dimension == ORDINAL and after.startswith(" "):
        return None
    # Of what is measured every statement is rounded; only a count that is "about 5" is another one.
    return Quantity(value, unit, about and unit.dimension.startswith("word:") and scale == 1)


def _is_formula(text: str) -> bool:
    return re.search(r"[√∞\\*^_{}|]|(?:^|\s)[+/×·-](?:\s|$)", text) is not None


_LETTERS = r"(?:(?<![^\W_])(?:[A-Za-zα-ω]|[abcnxyz]{2,3})|\))"
_RECKONED_BEFORE = re.compile(rf"{_LETTERS}\s?[-+*/×·÷]\Z|[(\[][a-z],\Z")
_RECKONED_AFTER = re.compile(
    r"\s?[-+*/×·÷]\s?(?:(?:[A-Za-zα-ω]|[abcnxyz]{2,3})(?![^\W_])|\()|\([A-Za-zα-ω]?[^()]{0,30}[-+*/×·÷]\s?[A-Za-zα-ω]\s?\)"
)


def _reckons_with_letters(text: str, number: Numeral) -> bool:
    """Tell whether a letter or a bracket is reckoned with, or makes a point: `x + 4`, `4-x`, `4(x+1)`, `(a, 4)`."""
    signed = text[number.start] in "+-"
    before = text[: number.start].rstrip() + (text[number.start] if signed else "")
    return bool(_RECKONED_BEFORE.search(before) or _RECKONED_AFTER.match(text, number.end))


def _scale(after: str) -> tuple[int, str]:
    """Return the factor of a scale word right after the digits, and the text behind it."""
    attached = re.match(r"[KkMBT](?![\w^])", after)
    if attached:
        return ATTACHED_SCALES[attached[0]], after[1:]
    myriad = re.match(r"\s?([万萬만亿億억])", after)
    if myriad:
        return MYRIADS[myriad[1]], after[myriad.end() :]
    word = re.match(r"\s?([^\W\d_][^\s\d.,;:!?()\"]*)", after)
    scale = (SCALES.get(name := word[1].casefold()) or SCALES_ABROAD.get(name)) if word else None
    if word is None or scale is None:
        return 1, after
    further, rest = _scale(after[word.end() :])  # "3 mil millones"
    return scale * further, rest


def _unit_word(after: str) -> str:
    """Return the unit, or the first word that is no filler; empty if there is none before the sentence continues."""
    squared = _SQUARE.match(after.strip())
    if squared:
        return _powered(squared["unit"], "³" if squared["power"].casefold() == "cubic" else "²")
    after = after.lstrip("-")
    first = _UNIT.match(after.strip())
    word = "".join(first[0].split()) if first else ""
    return "" if word.casefold() in _SKIPPED and after.strip().casefold() != "in" else word


def _powered(unit: str, sign: str) -> str:
    name = unit.casefold()
    name = name if name.endswith("ss") else name.removesuffix("s")
    return f"{_SHORT.get(name, name)}{sign}"
