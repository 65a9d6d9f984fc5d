r"""A gate before the algebra: which formulas may be compared at all, and their spelling for it.

Only short formulas of known commands pass: no unknown command, no word, no exponent in an exponent, no exponent beyond
two digits (one digit on a bracket), no factorial, no sum or integral, bounded depth and bounded numbers. So neither a
tower of powers nor a text that is no formula reaches the algebra system. Plain spellings (`2*sqrt(3)`, `pi/4`) become
LaTeX.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 300
DEEPEST: Final = 8
_FUNCTIONS: Final = "sin cos tan cot sec csc arcsin arccos arctan log ln exp"
_COMMANDS: Final = frozenset(
    (
        "frac sqrt cdot times div pm mp pi theta alpha beta gamma lambda mu phi omega infty cup cap in le leq ge geq "
        f"lt gt ne neq approx {_FUNCTIONS} mathbb emptyset varnothing setminus mid colon sim angle triangle"
    ).split()
)
_ALPHABET: Final = re.compile(r"[A-Za-z0-9\s+\-*/^_=.,()\[\]{}|<>:'°%·×÷π√∞≤≥≠∪∩∈±∅&\\]*")
_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{4,}")
_PLAIN_SQRT = re.compile(r"(?<![\\A-Za-z])sqrt\s?\(([^()]*)\)")
_PLAIN_NAME = re.compile(rf"(?<![\\A-Za-z])(pi|infty|theta|{_FUNCTIONS.replace(' ', '|')})(?![A-Za-z])")
_EXPONENT = re.compile(r"(?:\^|\*\*)\s?(?:\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}|\(([^()]*)\)|(-?[0-9]+|.))", re.DOTALL)
_SIGNS: Final = {
    "√": "\\sqrt ",
    "π": "\\pi ",
    "∞": "\\infty ",
    "≤": "\\le ",
    "≥": "\\ge ",
    "≠": "\\ne ",
    "∪": "\\cup ",
} | {
    "∩": "\\cap ",
    "∈": "\\in ",
    "±": "\\pm ",
    "×": "\\times ",
    "·": "\\cdot ",
    "÷": "\\div ",
    "∅": "\\emptyset ",
}


def comparable_formula(text: str) -> str | None:
    """`text` as LaTeX that may be parsed, or None if it is no such formula."""
    if len(text) > LONGEST or not text.strip() or _ALPHABET.fullmatch(text) is None:
        return None
    for sign, command in _SIGNS.items():
        text = text.replace(sign, command)
    text = _PLAIN_NAME.sub(r"\\\1 ", _PLAIN_SQRT.sub(r"\\sqrt{\1}", text)).replace("**", "^")
    text = re.sub(r"\^\s?\(([^()]*)\)", r"^{\1}", text).replace("*", "\\cdot ")
    known = all(name in _COMMANDS or name in "{}|" for name in _COMMAND.findall(text))
    return text if known and _is_small(text) else None


def _is_small(text: str) -> bool:
    few = text.count("^") <= 12 and text.count("\\sqrt") <= 8 and text.count("(") <= 16 and _depth(text) <= DEEPEST
    long = _WORD.search(_COMMAND.sub(" ", text)) or re.search(r"[0-9]{16}", text)
    return few and not long and not any(_is_large(exponent) for exponent in _EXPONENT.finditer(text))


def _is_large(exponent: re.Match[str]) -> bool:
    inside = next((group for group in exponent.groups() if group is not None), "")
    on_bracket = exponent.string[: exponent.start()].rstrip().endswith((")", "}", "]"))
    large = r"[0-9]{2}|[A-Za-z]{2}|\^" if on_bracket else r"[0-9]{3}|\^"
    return re.search(large, inside) is not None or exponent.string[exponent.end() :].lstrip().startswith("^")


def _depth(text: str) -> int:
    depth = deepest = 0
    for sign in text:
        depth += (sign in "({[") - (sign in ")}]")
        deepest = max(deepest, depth)
    return deepest
