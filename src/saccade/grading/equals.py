r"""Split texts at `=` and the signs of inequalities, and tell which equations state a value.

`x = 5`, `Area = 5`, `P(A) = 5`, `2 + 3 = 5` and `A = bh/2 = 5` state 5. `x^2 = 5`, `2x = 5`, `x + y = 5` and `f(2) = 5`
are statements about something else: none of them may be paid for its right side.
"""

from __future__ import annotations

import re
from typing import Final

SIGNS: Final = "=≈<>≤≥≠∈"
"""The signs of relations in the one spelling that `spelt` gives them."""
_COMMANDS: Final = {
    "≤": r"\\(?:leqslant|leqq|leq|le)(?![A-Za-z])|<=|=<",
    "≥": r"\\(?:geqslant|geqq|geq|ge)(?![A-Za-z])|>=|=>",
    "≠": r"\\(?:neq|ne)(?![A-Za-z])|!=|\\not\s?=",
    "<": r"\\lt(?![A-Za-z])",
    ">": r"\\gt(?![A-Za-z])",
    "∈": r"\\in(?![A-Za-z])",
    "≈": r"\\(?:approx|simeq)(?![A-Za-z])",
    "=": r"\\equiv(?![A-Za-z])|:=|==",
}
_SPELLINGS = re.compile("|".join(f"(?P<s{ord(sign)}>{forms})" for sign, forms in _COMMANDS.items()))
_ARROW = re.compile(r"⇒|⟹|⇔|\\(?:Rightarrow|implies|iff|Leftrightarrow)(?![A-Za-z])|(?<=[^\s=<>])\s*=>")

_LETTER: Final = (
    r"(?:(?:Δ|\\Delta\s?)?\\(?:alpha|beta|gamma|delta|epsilon|eta|theta|lambda|mu|phi|varphi|rho|sigma|tau|omega|Delta|Omega)(?![A-Za-z])"
    r"|(?:Δ|\\Delta\s?)?(?:[A-Z]{1,4}|[a-zα-ωΑ-Ω]))"
)
_NAME: Final = (
    rf"(?:(?:m\s?)?(?:\\angle|∠|\\triangle|△)\s?[A-Z0-9]{{1,3}}|\\(?:overline|overrightarrow|vec|hat|bar)\s?\{{\s?[A-Za-z]{{1,2}}\s?\}}"
    rf"|\\frac\s?\{{d\^?2?{_LETTER}\}}\{{d{_LETTER}(?:\^2)?\}}|d[a-z]/d[a-z]"
    rf"|{_LETTER}(?:_\s?(?:\{{[\w,\s]{{1,8}}\}}|[a-z]{{2,5}}(?![A-Za-z])|\w)|[0-9]{{1,2}}(?![0-9.]))?'*)"
)
NAME = re.compile(
    rf"(?P<letter>{_NAME})(?:\^\s?\{{?-1\}}?(?=\s?\())?(?P<argument>\s?\(\s?{_LETTER}'?(?:\s?,\s?{_LETTER}){{0,3}}\s?\))?"
)
"""One name: `x`, `x_1`, `AB`, `\\angle A`, `f(x)`, `f'(x)`, `dy/dx`."""
_OF_SETS = re.compile(r"[A-Z]'?(?:\s?(?:\\(?:cap|cup|setminus|times)(?![A-Za-z])|[∩∪∖×])\s?[A-Z]'?)+")
_CHANCE = re.compile(r"(?:P|Pr|E|Var)\s?\(.*\)")
FUNCTIONS: Final = "sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|log|ln|lg|exp|sqrt|mod|max|min|gcd|lcm|det"
_WORD = re.compile(
    r"(?:\b[A-Za-z]{1,2}')?(?=[^\W\d_α-ωΑ-Ω]*[^\x00-\x7fα-ωΑ-Ω])[^\W\d_]{2,}|(?<![\\A-Za-z_^{])[A-Za-z]{2,}(?:-[A-Za-z]{2,})*(?![A-Za-z_^])"
    r"|\b[A-Za-z]{1,2}'(?=[A-Za-z]{2})"
)
_PRODUCT = re.compile(r"xyz|abc|[a-z]{2}")
_SHORT_WORDS: Final = frozenset(
    """
        is of in to at or as by we so it on an if be no cm mm km kg mg ml ft lb oz hr
        de du le la un en es el il lo al do da na em um se di au ce im am zu er og av om ja po że
    """.split()  # noqa: SIM905
)
_ARTICLE = re.compile(r"(?<![A-Za-z])[aAI](?=\s[a-z]{3})")
_SPEAKS_ON = re.compile(
    r"[;\n]|(?<![A-Z]):|:(?!\s?[A-Z])|[,.]\s|,(?=[A-Za-z\\])|\b(?:so|thus|hence|therefore|then|gives?|means?|where|when|if|and|or|since|with|that|get|have)\b",
    re.I,
)
_KNOWN = re.compile(
    rf"\\(?:frac|d?frac|sqrt|cdot|times|div|left|right|pi|circ|binom|quad|text|{FUNCTIONS})(?![A-Za-z])|\b(?:{FUNCTIONS}|pi)\b|π"
)
_WORKED = re.compile(rf"[-+*/^×·÷√|!<>()\[\]{{}}]|[0-9]|\\[A-Za-z]+|\b(?:{FUNCTIONS})\b")


def spelt(text: str) -> str:
    """Return `text` with one sign for each relation, and only what follows its last arrow (`2x = 6 ⇒ x = 3`)."""
    first, *further = _ARROW.split(text)
    text = further[-1] if further and "=" in first and further[-1].strip() else text
    return _SPELLINGS.sub(lambda match: chr(int((match.lastgroup or "s0")[1:])), text)


def outside(text: str, form: re.Pattern[str]) -> list[re.Match[str]]:
    """Return the places where `form` occurs outside of all brackets."""
    depth, depths = 0, []
    for sign in text:
        depth = max(0, depth - (sign in ")}]"))
        depths.append(depth)
        depth += sign in "({["
    return [match for match in form.finditer(text) if depths[match.start()] == 0]


def cut(text: str, form: re.Pattern[str]) -> list[str]:
    """Split `text` where `form` occurs outside of all brackets."""
    parts, start = [], 0
    for match in outside(text, form):
        parts.append(text[start : match.start()])
        start = match.end()
    return [*parts, text[start:]]


_EQUALS = re.compile("[=≈]")
_PLAIN = re.compile(r"-?[0-9]{1,60}(?:\.[0-9]{1,60})?")
_SUM = re.compile(r"[0-9.]{1,20}(?:\s?[-+*/×·÷]\s?[0-9.]{1,20}){1,9}")


def stated(text: str) -> str | None:
    """Return the side that states a value, None where none does; `text` as it is `spelt` where it is no equation."""
    found = list(_EQUALS.finditer(one := spelt(text)))
    return _told(one[: found[-1].start()], one[found[-1].end() :].strip(), "≈" in one) if found else one


def leads_to_value(head: str) -> bool:
    """Tell whether what stands before a last `=` names a value, or works it out."""
    return _told(spelt(head), None, rounded=True) is not None


def is_one_of_several(head: str) -> bool:
    """Tell whether an equation is one of several that give values, as the second one of `x = 0, y = 1`."""
    before, apart, _ = _clause(spelt(head))
    return apart.strip().casefold() in _ALSO and _EQUALS.search(before) is not None and stated(before) is not None


def _told(head: str, last: str | None, rounded: bool) -> str | None:
    """Return the side of `head = last` that states a value; of a `last` that is not known yet, an empty one."""
    before, apart, clause = _clause(head)
    if apart.strip().casefold() in _ALSO and _EQUALS.search(before):
        other = stated(before)
        if other is not None and _PLAIN.fullmatch(other.strip()) and other.strip() != last:  # x = 0, y = 1
            return None
    sides = [side.strip() for side in cut(clause, _EQUALS)]
    if last is None:
        if _PLAIN.fullmatch(sides[-1]):  # 8 = 7
            return None
        return "" if is_name(sides[0]) or all(map(is_worked, sides)) else None
    numbers = [float(side) for side in (*sides, last) if _PLAIN.fullmatch(side)]
    if not rounded and any(abs(number - numbers[-1]) > abs(numbers[-1]) / 100 for number in numbers):  # 4 = 3
        return None
    if len(sides) == 1 and _PLAIN.fullmatch(sides[0]) and _SUM.fullmatch(last.strip(" .")):  # 23 = 15 + 8
        return sides[0]
    if is_name(last) and last.strip(" .") and not _says_words(last) and len(sides) == 1:  # 5 = x
        return sides[0]
    return last if is_name(sides[0]) or all(map(is_worked, sides)) else None


_ALSO: Final = (",", ";", "or", "and")


def _clause(head: str) -> tuple[str, str, str]:
    """Split off what is said last in `head`, unless a bracket would be torn: what is before it, between, and it."""
    found = list(_SPEAKS_ON.finditer(head))
    if found:
        last = head[found[-1].end() :]
        if last.strip() and last.count("(") == last.count(")"):
            return head[: found[-1].start()], found[-1][0], last
    return "", "", head


def is_name(text: str) -> bool:
    """Tell whether `text` is a name or only words, and no formula in unknowns."""
    plain = text.strip(" *_$`:\t\n").rstrip("\\")
    if not plain or NAME.fullmatch(plain) or _CHANCE.fullmatch(plain) or _OF_SETS.fullmatch(plain):
        return not _PRODUCT.fullmatch(plain)
    if re.search(r"[A-Z)]\s?:\s?[A-Z]{1,3}\Z", plain):  # AB : BC
        return False
    rest = _without_words(plain)
    if re.search(r"(?<![A-Za-z])(?:sin|cos|tan|cot|log|ln)(?![a-z])", rest):
        return False
    names = NAME.findall(rest)
    return _WORKED.search(NAME.sub(" ", rest)) is None and (len(names) <= 1 or rest != plain)


def is_worked(text: str) -> bool:
    """Tell whether `text` is worked out with numbers and words only: `2 + 3`, `length × width`."""
    rest = _KNOWN.sub(" ", _without_words(text.strip(" *_$`")))
    return re.search(r"[^\W\d_]|[∠△]", rest) is None


def _says_words(text: str) -> bool:
    return _without_words(text) != text


def _without_words(text: str) -> str:
    text = _ARTICLE.sub(" ", text)
    return _WORD.sub(lambda match: " " if _is_word(match[0]) else match[0], text)


def _is_word(run: str) -> bool:
    """Tell whether letters are a word: no product of unknowns (`xy`, `nRT`), function or name such as `AB`."""
    if re.fullmatch(FUNCTIONS, run) or _PRODUCT.fullmatch(run):
        return run in _SHORT_WORDS
    return (
        not run.isascii()
        or run.endswith("'")
        or all(part[1:].islower() or (part.isupper() and len(part) > 4) for part in run.split("-"))
    )
