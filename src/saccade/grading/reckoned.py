r"""Read the number that the end of an answer reckons out: by a calculation, as the value of an unknown, or as a ratio.

No words of a language decide: "L'angolo misura 180° − 65° − 50° = 65°" ends in a calculation that is right, and "donc
2x = 36 et x = 18" in the value of the letter that the question names.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from saccade.grading.asked import APART, LEAVES_OPEN, LONGEST, asks_year, is_asked_about, plain_text, telling_words
from saccade.grading.extract import SO, is_corrected
from saccade.grading.formula import read_formula
from saccade.grading.languages import AND, DOUBT, LANGUAGES, any_of, without_seeming, written_in
from saccade.grading.quantities import ABOUT, BOUND_BEFORE, numerals

_FRACTION: Final = r"\\frac\{[0-9.]{1,9}\}\{[0-9.]{1,9}\}"
_MEASURED: Final = r"(?:\s?(?:°|%|€|[^\W\d_]{2,12}|(?<=\s)[mghls])(?:\^[23])?)?"
_PLAIN: Final = r"[$€£¥]?\s?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,12})(?:\.[0-9]{1,9})?"
_OPERAND: Final = rf"\(*(?:{_FRACTION}|{_PLAIN}){_MEASURED}\)*"
_END: Final = r"(?:\s?[^\s0-9,;:=+*()-]{1,14}(?:\^[23])?){0,3}[.!\s$]*\Z"
_WORKED = re.compile(
    rf"(?<![0-9.,=])(?P<sum>{_FRACTION}|{_OPERAND}(?:\s?[-+*/×·÷]\s?{_OPERAND}){{1,11}})\s?=\s?"
    rf"(?P<value>{_PLAIN}){_END}"
)
"""A calculation at the end: "he walks 500 m, then 700 m, 500 + 700 = 1200 m"."""
_ROUNDED = re.compile(rf"(?P<exact>[0-9]+\.[0-9]+)\s?[^\s0-9]{{0,9}}\s?≈\s?(?P<value>[0-9]+(?:\.[0-9]+)?){_END}")
_GOES_ON = re.compile(r"[-+*/×·÷^(√<>≤≥≠±\\]\s?\Z")
_LETTER: Final = r"∠?(?<![^\W_])(?:[A-Za-zα-ω]|[A-Z]{2,3})(?![^\W_])"
_VALUE: Final = r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?(?:\s?(?:°|%|[^\W\d_]{1,3}(?:\^[23])?))?"
_SOLVED = re.compile(
    rf"(?:\A|{AND}|{SO}|\s?[,;:]\s?|[はがので]\s?)(?P<name>{_LETTER})\s?=\s?(?P<value>{_VALUE})(?P<more>(?:{AND}{_LETTER}\s?=\s?{_VALUE}){{0,3}})"
    r"[^\s0-9,;:=+*/()-]{0,6}[.!\s$]*\Z",
    re.IGNORECASE,
)
"""The value of an unknown at the end, behind an equation: "so 2x = 36 and x = 18"."""
_STANDS_ALONE: Final = (
    r"(?<![\w=+*/^∠-])(?<![=+*/^-]\s)(?P<name>∠?(?:[A-Za-zα-ω]|[A-Z]{2,3}))(?![\w=+*/^(])(?!\s[=+*/^-])"
)
_RATIO = re.compile(
    r"(?<![\w.,:/])(?P<first>[0-9]{1,9}(?:\.[0-9]{1,6})?)\s?:\s?(?P<second>[0-9]{1,9}(?:\.[0-9]{1,6})?)(?![\w:/]|[.,][0-9])"
)
_ASKS_RATIO = any_of("ratio", r"\bratio\b")


def reckoned(text: str, question: str) -> str | None:
    """Return the number that a text reckons out at its end; None where it does not, or leaves it open."""
    if len(text) > 2 * LONGEST or asks_year(question) or is_corrected(text) or without_seeming(text) != text:
        return None
    if written_in(question) != "pt" and re.search(r"\bno\b", text, re.IGNORECASE):
        return None  # which is "in the" there
    plain, asked = plain_text(text), plain_text(question)
    ratio = _ratio(plain, asked) if _ASKS_RATIO.search(asked) else None
    if ratio is not None or DOUBT.search(plain) or LEAVES_OPEN.search(plain):
        return ratio
    return _worked(plain, asked) or _solved(plain, asked)


def _worked(plain: str, asked: str) -> str | None:
    worked, rounded = _WORKED.search(plain), _ROUNDED.search(plain)
    if rounded is not None and abs(float(rounded["exact"]) - float(rounded["value"])) <= 0.5:
        return plain[rounded.start("value") :]
    if worked is None:
        return None
    head = plain[: worked.start()]
    if _GOES_ON.search(head) or BOUND_BEFORE.search(head) or not _comes_to(worked["sum"], worked["value"]):
        return None
    return plain[worked.start("value") :] if _is_of_the_same(head, worked["sum"], asked) else None


def _comes_to(reckoning: str, value: str) -> bool:
    """Tell whether a calculation comes to a value, perhaps rounded, whatever its units are."""
    bare = re.sub(r"(?<![\\A-Za-z])[^\W\d_]+(?:\^[23])?|[°%$€£¥,]", "", reckoning)
    formula, stated = read_formula(bare), float(re.sub(r"[^0-9.]", "", value))
    if formula is None or len(set(formula.values)) != 1:
        return False
    return abs(formula.values[0] - stated) <= max(0.005 * abs(stated), 1e-9)


def _is_of_the_same(head: str, reckoning: str, asked: str) -> bool:
    """Tell whether a calculation works with what was said before it, and no clause before it answers the question."""
    *facts, own = (clause for clause in re.split(r"\n|" + APART.pattern, head))
    said = "\n" in head or re.search(r"[^\W\d_]{2}[.!]\s", head)
    given = {one.value for one in numerals(re.sub(r"[^0-9.,]", " ", reckoning)) or ()}
    for fact in facts if said else ():
        if any(abs(one.value) not in given and str(one.value) not in asked for one in numerals(fact) or ()):
            return False
    if not (words := telling_words(own)):
        return True
    shared = [
        sum(is_asked_about(word, asked) for word in telling_words(fact)) for fact in facts if re.search("[0-9]", fact)
    ]
    return sum(is_asked_about(word, asked) for word in words) >= max(shared, default=0)


def _solved(plain: str, asked: str) -> str | None:
    """Return the value of the unknown that the question names, where the text ends in it or in one more."""
    solved = _SOLVED.search(plain)
    if solved is None or "=" not in plain[: solved.start("name")] + solved["more"]:
        return None
    values = {solved["name"]: solved["value"]}
    values |= {one[1]: one[2] for one in re.finditer(rf"({_LETTER})\s?=\s?({_VALUE})", solved["more"])}
    language = LANGUAGES.get(written_in(asked))
    words = language.words.split() if language else "aI"
    names = {one["name"] for one in re.finditer(_STANDS_ALONE, asked)} - {*words}
    meant = [name for name in values if name in names]
    others = {one[1] for one in re.finditer(rf"({_LETTER})\s?=", plain)} & names
    if len(meant) != 1 or not others <= {meant[0]}:
        return None
    said = rf"(?<![\w+*/^-])(?<![-+*/^]\s){re.escape(meant[0])}\s?=\s?(-?[0-9.]*[0-9])(?!\s?[-+*/×·÷^=0-9])"
    return values[meant[0]] if len(set(re.findall(said, plain))) == 1 else None


def _ratio(plain: str, asked: str) -> str | None:
    """Return the value of the ratio at the end, where all are one ("30:20, or 3:2"); None if it is turned round."""
    ratios = list(_RATIO.finditer(plain))
    if not ratios or any(float(one["second"]) == 0 for one in ratios):
        return None
    behind = re.compile(rf"(?:\s?[=≈]\s?(?P<decimal>[0-9]{{1,6}}\.[0-9]{{1,6}}))?{_END}").match(plain, ratios[-1].end())
    values = {Fraction(one["first"]) / Fraction(one["second"]) for one in ratios}
    head, run = plain[: ratios[0].start()], plain[ratios[0].start() : ratios[-1].end()]
    between = LEAVES_OPEN.sub("", run)
    rest = f"{head} {plain[ratios[-1].end() :]}"
    if behind is None or len(values) > 1 or BOUND_BEFORE.search(head) or ABOUT.search(head):
        return None
    if len(re.sub(_RATIO, "", between)) > 30 or any(
        form.search(one) for form in (DOUBT, LEAVES_OPEN) for one in (rest, between)
    ):
        return None
    words = [word for word in telling_words(head) if word in asked and not _ASKS_RATIO.search(word)]
    told = [word for word in words if words.count(word) == 1]
    places = [asked.casefold().find(word) for word in told]
    value = values.pop()
    if places != sorted(places):
        return None
    return behind["decimal"] or f"{value.numerator}/{value.denominator}"
