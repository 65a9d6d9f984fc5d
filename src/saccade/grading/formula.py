r"""Compare formulas by value: they are parsed by a small grammar and evaluated with floats.

Numbers, letters, `+ - * / ^`, `\frac`, `\sqrt`, `\binom`, usual functions, brackets, points, sets, matrices. A letter
stands for a few fixed values, so formulas are the same where all of those make them so, to twelve digits of a constant
(as close as a printed float is) and nine of the others. `x = 5` is 5; a unit behind a formula may be left out on one
side; an angle in degrees is that angle in radians. A set is no point. No text is evaluated as code; what the grammar
does not know, and what is longer than 300 characters, has no value.
"""

from __future__ import annotations

import cmath
import math
import re
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from saccade.grading.clean import clean, unwrapped
from saccade.grading.quantities import is_known, unit_named

SETTINGS: Final = 3
DEEPEST: Final = 20
LARGEST_EXPONENT: Final = 200
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]{1,40}(?:,[0-9]{3})*(?:\.[0-9]{1,40})?|\.[0-9]{1,40})|(?P<command>\\[A-Za-z]+|√|π)"
    r"|(?P<function>(?:arc)?(?:sin|cos|tan)|sqrt|log|ln|exp|pi)(?![A-Za-z])"
    r"|(?P<name>[A-Za-z](?:_(?:\{\w{1,8}\}|\w))?)|(?P<sign>\*\*|[-+*/^(){}\[\]!|×·÷°]))"
)
_WORD = re.compile(
    r"(?<![\\A-Za-z])(?!(?:xyz|abc)(?![A-Za-z])|(?:arc)?(?:sin|cos|tan)(?![A-Za-z])|(?:sqrt|log|exp)(?![A-Za-z]))"
    r"(?:[A-Za-z][a-z]{2,}|[A-Z]{3,}|[A-Za-z]{4,})|(?<=\s)(?:or|to|is|of|if|so|no|as|on|we|it)(?=\s)"
)
_FUNCTIONS: Final[dict[str, Callable[[complex], complex]]] = {
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "arcsin": cmath.asin,
    "arccos": cmath.acos,
    "arctan": cmath.atan,
    "log": cmath.log10,
    "ln": cmath.log,
    "exp": cmath.exp,
    "sqrt": cmath.sqrt,
}
_TIMES: Final = ("*", "×", "·", "\\times", "\\cdot")
_OVER: Final = ("/", "÷", "\\div")
_CLOSING: Final = {"(": ")", "{": "}", "[": "]"}
_TURNS: Final = frozenset(("sin", "cos", "tan"))
_ROUNDING: Final = 8e-16
"""What a float may be off for its size: a sum that is left with less than that has come to nothing."""


def _settled(value: complex, size: float) -> complex:
    return value if abs(value) > size * _ROUNDING else 0j


class NoValueError(Exception):
    """A text is no formula of this grammar."""


def values_of(text: str, kept: str = "") -> tuple[complex, ...]:
    """Evaluate `text` for each of the fixed settings of its letters, by recursive descent over its tokens.

    Letters of `kept`, a regular expression, have the same value in all settings.

    Raises:
        NoValueError: it is no such formula, or has no value that a float holds.
    """
    if _WORD.search(text := text.translate(_GREEK_SIGNS)):
        raise NoValueError
    tokens = _tokens(text)
    try:
        values = tuple(_Reader(tokens, setting, kept).all() for setting in range(SETTINGS))
    except (ArithmeticError, ValueError) as error:
        raise NoValueError from error
    if not all(cmath.isfinite(value) for value in values):
        raise NoValueError
    return values


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NoValueError
        token = match[0].strip()
        found.append(re.sub("[{}]", "", token) if match["name"] else token)
        position = match.end()
    return found


class _Reader:
    def __init__(self, tokens: Sequence[str], setting: int, kept: str = "") -> None:
        self._tokens = tokens
        self._kept = kept
        self._setting = setting
        self._place = 0
        self._depth = 0

    def all(self) -> complex:
        value = self._sum()
        if self._place != len(self._tokens) or not self._tokens:
            raise NoValueError
        return value

    def _next(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next()
        self._place += 1
        return token

    def _sum(self) -> complex:
        self._depth += 1
        if self._depth > DEEPEST:
            raise NoValueError
        value = self._product()
        while self._next() in ("+", "-"):
            sign = self._take()
            term = self._product()
            whole = value + term if sign == "+" else value - term
            value = _settled(whole, max(abs(value), abs(term)))
        self._depth -= 1
        return value

    def _product(self) -> complex:
        value = self._signed()
        while True:
            token = self._next()
            if token in _TIMES:
                self._take()
                value *= self._signed()
            elif token in _OVER:
                self._take()
                value /= self._signed()
            elif (
                token
                and token not in "+-)}]|!"
                and not (token[0].isdigit() and self._tokens[self._place - 1][-1].isdigit())
            ):
                value *= self._power()
            else:
                return value

    def _signed(self) -> complex:
        if self._next() in ("-", "+"):
            # 0 - x and not -x: the imaginary part would become -0, and the root of -4 the other one.
            return 0 - self._signed() if self._take() == "-" else self._signed()
        return self._power()

    def _power(self) -> complex:
        base = self._atom()
        while self._next() == "!":
            self._take()
            if base.imag or base.real % 1 or not 0 <= base.real <= 170:
                raise NoValueError
            base = complex(float(math.factorial(int(base.real))))
        if self._next() == "°":
            self._take()
            base *= math.pi / 180
        if self._next() not in ("^", "**"):
            return base
        self._take()
        exponent = self._signed() if self._next() in ("-", "+") else self._atom()
        if abs(exponent) > LARGEST_EXPONENT or self._next() in ("^", "**"):
            raise NoValueError
        return base**exponent

    def _atom(self) -> complex:
        token = self._take()
        if token[:1].isdigit() or token.startswith("."):
            return complex(float(token.replace(",", "")) + self._mixed(token))
        if token in _CLOSING:
            value = self._sum()
            if self._take() != _CLOSING[token]:
                raise NoValueError
            return value
        name = token.lstrip("\\")
        if name in ("frac", "binom", "dbinom", "tbinom"):
            above, below = self._argument(), self._argument()
            return above / below if name == "frac" else _binomial(above, below)
        if name in ("√", "sqrt"):
            return self._root()
        if name in ("pi", "π"):
            return complex(math.pi)
        if name in _FUNCTIONS:
            inside = self._applied_to()
            return _settled(_FUNCTIONS[name](inside), max(1.0, abs(inside)) if name in _TURNS else 0.0)
        if token == "e":
            return complex(math.e)
        if not token or (not token[0].isalpha() and not token.startswith("\\")):
            raise NoValueError
        if token.startswith("\\") and name not in _GREEK:
            raise NoValueError
        setting = 7 if self._kept and re.fullmatch(self._kept, token) else self._setting
        return complex(0.5 + (zlib.crc32(f"{setting}:{token}".encode()) % 100_003) / 50_001.5)

    def _applied_to(self) -> complex:
        r"""Read what a function is of: a bracket or one factor, and the letters behind a number (`\sin 2x`)."""
        number = self._next()[:1].isdigit()
        inside = self._power()
        while number and ((token := self._next()).lstrip("\\") in _LETTERS or re.fullmatch(r"[A-Za-z](?:_.*)?", token)):
            inside *= self._power()
        return inside

    def _mixed(self, whole: str) -> float:
        r"""Read the fraction of a mixed number, `3\frac{1}{4}`; nothing where it is a factor, as in `2\frac{x}{3}`."""
        match = _MIXED.match(" ".join(self._tokens[self._place : self._place + 7]))
        if match is None or not whole.isdigit():
            return 0.0
        above, below = (match["a"], match["b"]) if match["a"] else tuple(match["digits"])
        if not 0 < int(above) < int(below):
            return 0.0
        self._place += len(match[0].split())
        return int(above) / int(below)

    def _argument(self) -> complex:
        if self._next() == "{":
            return self._atom()
        token = self._take()
        if not token.isdecimal() or len(token) > 2:
            raise NoValueError
        if len(token) == 2:  # \frac12
            self._place -= 1
            self._tokens = [*self._tokens[: self._place], *token, *self._tokens[self._place + 1 :]]
            self._place += 1
        return complex(float(token[0]))

    def _root(self) -> complex:
        degree = 2.0
        if self._next() == "[":
            self._take()
            degree = self._sum().real
            if self._take() != "]" or not 1 <= degree <= 9:
                raise NoValueError
        inside = self._atom()
        return cmath.sqrt(inside) if degree == 2 else inside ** (1 / degree)


_MIXED = re.compile(r"\\frac (?:\{ (?P<a>[0-9]{1,9}) \} \{ (?P<b>[0-9]{1,9}) \}|(?P<digits>[0-9]{2})(?![0-9]))")
_GREEK: Final = frozenset(
    "alpha beta gamma delta theta lambda mu omega phi rho sigma tau epsilon eta".split()  # noqa: SIM905
)
_LETTERS: Final = _GREEK | {"pi", "π"}
_GREEK_SIGNS: Final = str.maketrans(
    {
        unicodedata.lookup(f"GREEK SMALL LETTER {'LAMDA' if name == 'lambda' else name.upper()}"): f"\\{name} "
        for name in _GREEK
    }
)


def _binomial(above: complex, below: complex) -> complex:
    if above.imag or below.imag or above.real % 1 or below.real % 1 or not 0 <= below.real <= above.real <= 300:
        raise NoValueError
    return complex(float(math.comb(int(above.real), int(below.real))))


LONGEST: Final = 300
_MATRIX = re.compile(r"\\begin\{[bpvBV]?matrix\}(?P<inside>.*?)\\end\{[bpvBV]?matrix\}", re.DOTALL)
_UNIT = re.compile(
    r"(?:(?P<degree>°)|(?<![A-Za-z\\])(?P<square>square\s|sq\.?\s|cubic\s)?(?P<name>[A-Za-z]{1,12})\s?(?:\^?\{?(?P<power>[23])\}?)?)\s*$"
)
_NAME_IS = re.compile(r"^\s*[A-Za-z]\w{0,3}(?:_\{?\w{1,8}\}?)?(?:\([a-z]\))?\s*=(?P<value>[^=]+)$")
_BRACKETS: Final = {"(": ")", "[": "]", "\\{": "\\}"}
_CONSTANT_ERROR: Final = 1e-12
_LETTER_ERROR: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula as it is compared: one value for each setting of the letters, or parts with brackets around them."""

    values: tuple[complex, ...] = ()
    unit: str = ""
    brackets: str = ""
    """`()`, `[)` and so on, `{}` of a set, `||` of a matrix; empty for a single value."""
    parts: tuple[Formula, ...] = ()
    columns: int | None = None
    """Of a matrix."""


def same_formula(left: str, right: str) -> bool:
    """Tell whether both texts are formulas of the same value."""
    first, second = read_formula(left), read_formula(right)
    return first is not None and second is not None and _same(first, second)


def told_apart(left: str, right: str) -> bool:
    """Tell whether both are formulas that surely differ: in value, or in kind (set, point, matrix, type of bracket)."""
    first, second = read_formula(left), read_formula(right)
    if first is None or second is None:
        return False
    if first.brackets != second.brackets:
        return True
    return not (_OPEN.search(left) or _OPEN.search(right) or _same(first, second))


# Read in another way by some: `i` as the imaginary unit, `log` without its base.
_OPEN = re.compile(r"(?<![A-Za-z\\])i(?![A-Za-z])|log(?![A-Za-z])")


@lru_cache
def read_formula(text: str) -> Formula | None:
    """Return `text` as a formula; None if it is none that this grammar knows."""
    if len(text) > LONGEST or not text.strip():
        return None
    plain = unwrapped(clean(text)).replace("$", "")
    named = _NAME_IS.match(plain)
    try:
        return _read(named["value"] if named else plain, 0)
    except NoValueError:
        return None


def _read(text: str, depth: int) -> Formula:
    text = text.strip()
    if depth > 4:
        raise NoValueError
    matrix = _MATRIX.fullmatch(text)
    if matrix is not None:
        return _matrix(matrix["inside"], depth)
    for opening, closing in _BRACKETS.items():
        if text.startswith(opening):
            for ending in (closing, "]" if opening == "(" else ")"):
                inside = text[len(opening) : -len(ending)]
                if text.endswith(ending) and len(parts := _split(inside)) > 1:
                    marks = (opening + ending).replace("\\", "")
                    return Formula(brackets=marks, parts=tuple(_read(part, depth + 1) for part in parts))
            if opening == "\\{" and text.endswith("\\}"):
                return Formula(brackets="{}", parts=(_read(text[2:-2], depth + 1),))
    return _single(text)


def _matrix(inside: str, depth: int) -> Formula:
    rows = [row.split("&") for row in re.split(r"\\\\(?:\[[^\]]*\])?", inside) if row.strip()]
    if not rows or len({len(row) for row in rows}) != 1 or sum(map(len, rows)) > 64:
        raise NoValueError
    cells = tuple(_read(cell, depth + 1) for row in rows for cell in row)
    return Formula(brackets="||", parts=cells, columns=len(rows[0]))


def _split(inside: str) -> list[str]:
    """Return the parts between commas that stand in no bracket."""
    depth, start, parts = 0, 0, []
    for place, sign in enumerate(inside):
        depth += (sign in "({[") - (sign in ")}]")
        if sign == "," and depth == 0:
            parts.append(inside[start:place])
            start = place + 1
    return [*parts, inside[start:]]


def _single(text: str) -> Formula:
    body, unit = _without_unit(text)
    return Formula(values=values_of(body), unit=unit)


def _without_unit(text: str) -> tuple[str, str]:
    match = _UNIT.search(text)
    if match is None or not text[: match.start()].strip():
        return text, ""
    body = text[: match.start()]
    if match["degree"]:
        return body, "°"
    name, power = match["name"].casefold(), match["power"] or ""
    if match["square"]:
        power = "3" if match["square"].startswith("cubic") else "2"
    spaced = body[-1].isspace() or len(name) > 1
    if name in ("rad", "radian", "radians"):
        return body, "rad"
    if spaced and (name in ("unit", "units") or is_known(name)):
        dimension = unit_named(name)
        if dimension.dimension == "angle":
            return body, "°"
        return body, f"{dimension.dimension} {dimension.factor} {power}" if name not in (
            "unit",
            "units",
        ) else f"unit {power}"
    return text, ""


def _same(left: Formula, right: Formula) -> bool:
    if left.brackets != right.brackets or len(left.parts) != len(right.parts) or left.columns != right.columns:
        return False
    if left.brackets == "{}":
        return _same_set(left.parts, right.parts)
    if left.parts:
        return all(_same(*pair) for pair in zip(left.parts, right.parts, strict=True))
    angles = {left.unit, right.unit}
    if angles == {"°", "rad"} or (angles == {"°", ""} and not _near(left.values, right.values)):
        degrees, radians = (left, right) if left.unit == "°" else (right, left)
        turned = tuple(value * 0.017453292519943295 for value in degrees.values)
        return _near(turned, radians.values) and (radians.unit == "rad" or _irrational(radians.values))
    return (left.unit == right.unit or not left.unit or not right.unit) and _near(left.values, right.values)


def _irrational(values: Sequence[complex]) -> bool:
    """Tell whether this is a multiple of pi and not a short decimal near one."""
    return abs(round(values[0].real, 6) - values[0]) > 1e-12 or not values[0]


def _same_set(left: Sequence[Formula], right: Sequence[Formula]) -> bool:
    rest = list(right)
    for part in left:
        match = next((other for other in rest if _same(part, other)), None)
        if match is None:
            return False
        rest.remove(match)
    return not rest


def _near(left: Sequence[complex], right: Sequence[complex]) -> bool:
    constant = len(set(left)) == 1 and len(set(right)) == 1
    error = _CONSTANT_ERROR if constant else _LETTER_ERROR
    return all(cmath.isclose(a, b, rel_tol=error) for a, b in zip(left, right, strict=True))
