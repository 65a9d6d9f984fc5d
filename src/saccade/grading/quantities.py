"""One number in a text, with its unit: `There are 5 circles` is 5 circles, `5 or 6` is nothing.

A text is read only if it holds exactly one number and says nothing that takes it back: negation, doubt, a bound such as
"more than". "About" is kept as a mark, which exact graders refuse. `a = b = 5` is what follows the last sign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from saccade.grading.clean import clean
from saccade.grading.number_words import says_another, with_digits
from saccade.grading.numerals import Numeral, numerals, repeating_as_fraction
from saccade.grading.units import ATTACHED_SCALES, ORDINAL, SCALES, Unit, is_known, unit_named
from saccade.grading.wrappers import unwrapped

DOUBT = re.compile(
    r"\b(?:not|never|neither|nor|no|none|nothing|cannot|without|unless|except|wrong|incorrect|false|maybe|perhaps|"
    r"possibly|probably|might|could|unsure|unclear|unknown|either|instead)\b|n't\b|\?\s*$",
    re.IGNORECASE,
)
"""Words that take an assertion back, or leave it open."""
_BOUND_BEFORE = re.compile(
    r"(?:\b(?:more|less|greater|fewer|larger|smaller|higher|lower)\sthan|\bat\s(?:least|most)|[<>≤≥≠]|\\(?:leq?|geq?|neq?)"
    r"|\b(?:over|under|above|below|up\sto|nearly|almost|between|beyond|exceeds|before|after|since|until|twice|double|half|(?:root|square|cube|inverse|half)\sof))\s*$",
    re.IGNORECASE,
)
_BOUND_AFTER = re.compile(
    r"^\s*(?:\+|-\s?\w|!|or\s(?:so|more|less|fewer)\b|and\s(?:above|below|up|more|over|a\s|one\s)|\w*\s?at\s(?:least|most)\b"
    r"|(?:squared|cubed|plus|minus|factorial)\b|times\s+(?:as\b|more|less|larger|smaller|the\b|that|[-0-9a-z]*[0-9]|of\b|greater|fewer|bigger"
    r"|taller|longer|higher|faster))",
    re.IGNORECASE,
)
_SAID_AGAIN = re.compile(r"(?<![0-9.])([0-9]{1,9}) \(\1\)")  # "5 (five)"
# "None", "no intersections", "there are no red cars": a count of nothing. "No idea" and the like count nothing.
_NONE = re.compile(
    r"(?:none(?:\sof\s(?:them|these|the\s[\w ]{1,30}))?|(?:(?:there|they|it|the\s[\w ]{1,30})"
    r"\s(?:is|are|was|were|has|have|do|does)\s)?"
    r"(?:none|(?:no|zero)\s(?!(?:idea|answer|information|doubt|way|one|clue|number|more|less|fewer|longer|matter|problem|sense|single|"
    r"solution|such|thanks|wait|sir|but|it|i|the|that|this|there|they|and|or|yes|data|image|picture|not|option|choice|change|"
    r"difference|limit|evidence|response|comment|reason|further|other|clear|sure|need|choices|options|answers|relation)\b)"
    r"[a-z]+(?:\s(?!or\b|and\b)[a-z]+){0,3}))[.!]?",
    re.IGNORECASE,
)
_NOT_ANY = re.compile(
    r"there\s(?:(?:is|are|was|were)n't|(?:is|are|was|were)\snot)\sany(?:\s(?!idea|answer|information|doubt|way|more|less|other|image"
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
_ABOUT = re.compile(
    r"(?:\b(?:about|approximately|around|roughly|approx\.?|circa|some|ca\.)|[~≈]|\\approx|\\sim)\s*$", re.I
)
_MINUS = re.compile(r"\b(?:minus|negative)\s*$", re.IGNORECASE)
_UNIT = re.compile(r"°\s?[CcFf]?(?!\w)|[%$€£¥¢]|[^\W\d_]+[²³]?")
_POWER = re.compile(r"(?<![A-Za-z])(?P<unit>[kcdm]?m|in|ft|yd|mi|units?)(?:\s?\^\s?)?\{?(?P<power>[23])\}?(?![0-9.,])")
_SQUARE = re.compile(r"^(?P<power>square|sq\.?|cubic)\s(?P<unit>[^\W\d_]+)", re.IGNORECASE)
_SKIPPED = frozenset(
    [
        "in",
        "on",
        "at",
        "of",
        "to",
        "and",
        "is",
        "are",
        "was",
        "were",
        "the",
        "a",
        "an",
        "for",
        "with",
        "total",
        "overall",
        "altogether",
        "there",
        "that",
        "which",
        "as",
        "so",
        "by",
        "from",
    ]
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


def quantity(text: str) -> Quantity | None:
    """The one number that `text` states, or None."""
    plain = _POWER.sub(
        lambda match: match["unit"] + _SIGNS[match["power"]], repeating_as_fraction(unwrapped(clean(text)))
    )
    if _NONE.fullmatch(plain) is not None or _NOT_ANY.fullmatch(plain) is not None:
        return Quantity(Fraction(0))
    often = _SO_OFTEN.fullmatch(plain)
    if often is not None and DOUBT.search(plain) is None and _NOT_SO_OFTEN.search(plain) is None:
        return Quantity(Fraction(_TIMES[often["often"].casefold()]))
    for part in (_after_equals(plain), plain):
        found = _only_number(part)
        if found is not None:
            said, number = found
            return _read(said, number)
    return None


def _after_equals(text: str) -> str:
    return re.split(r"=|≈|\\approx", text)[-1].strip() if DOUBT.search(text) is None else text


def _only_number(text: str) -> tuple[str, Numeral] | None:
    """The text, as it was read, and its number."""
    found = numerals(text)
    if found is not None and (found == () or says_another(text)):
        text = _SAID_AGAIN.sub(r"\1", with_digits(text))
        found = numerals(text)
    return (text, found[0]) if found is not None and len(found) == 1 else None


def _read(text: str, number: Numeral) -> Quantity | None:
    before, after = text[: number.start], text[number.end :]
    if DOUBT.search(before) or DOUBT.search(after) or _BOUND_BEFORE.search(before) or _BOUND_AFTER.search(after):
        return None
    if _is_formula(before) or _is_formula(after):
        return None
    about = _ABOUT.search(before) is not None
    scale, after = _scale(after)
    value = number.value * (-scale if _MINUS.search(before) else scale)
    word = _unit_word(after)
    if number.currency and (not word or not is_known(word)):
        word = number.currency
    if word and not after.startswith(" ") and unit_named(word).dimension.startswith("word:"):
        return None  # letters grown onto the digits that are no unit: a name, a variable, a code
    if not word:
        return Quantity(value, about=about)
    unit = unit_named(word)
    if unit.dimension == ORDINAL and after.startswith(" "):
        return None
    return Quantity(value, unit, about)


def _is_formula(text: str) -> bool:
    return re.search(r"[√\\*^_{}|]|(?:^|\s)[+/×·-](?:\s|$)", text) is not None


def _scale(after: str) -> tuple[int, str]:
    """The factor of a scale word right after the digits, and the text behind it."""
    attached = re.match(r"[KkMBT](?![\w^])", after)
    if attached:
        return ATTACHED_SCALES[attached[0]], after[1:]
    word = re.match(r"\s?([A-Za-z]+)", after)
    if word and word[1].casefold() in SCALES:
        return SCALES[word[1].casefold()], after[word.end() :]
    return 1, after


def _unit_word(after: str) -> str:
    """The unit, or the first word that is no filler; empty if there is none before the sentence continues."""
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
