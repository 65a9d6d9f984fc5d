r"""The value of a formula without commas or units, by recursive descent over its tokens: each is read once.

Letters have three fixed settings. Exponents beyond 200, depth beyond 20 and numbers beyond what a float holds have no
value, and neither has a word.
"""

from __future__ import annotations

import cmath
import math
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Final

SETTINGS: Final = 3
DEEPEST: Final = 20
LARGEST_EXPONENT: Final = 200
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]{1,40}(?:,[0-9]{3})*(?:\.[0-9]{1,40})?|\.[0-9]{1,40})|(?P<command>\\[A-Za-z]+|√|π)"
    r"|(?P<function>(?:arc)?(?:sin|cos|tan)|sqrt|log|ln|exp|pi)(?![A-Za-z])"
    r"|(?P<name>[A-Za-z](?:_(?:\{\w{1,8}\}|\w))?)|(?P<sign>\*\*|[-+*/^(){}\[\]!|×·÷°]))"
)
_WORD = re.compile(r"(?<![\\A-Za-z])(?!(?:arc)?(?:sin|cos|tan)(?![A-Za-z])|(?:sqrt|log|exp)(?![A-Za-z]))[A-Za-z]{3,}")
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


class NoValueError(Exception):
    """A text is no formula of this grammar."""


def values_of(text: str) -> tuple[complex, ...]:
    """The value of `text` for each setting of its letters.

    Raises:
        NoValueError: it is no such formula, or has no value that a float holds.
    """
    if _WORD.search(text):
        raise NoValueError
    tokens = _tokens(text)
    try:
        values = tuple(_Reader(tokens, setting).all() for setting in range(SETTINGS))
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
        found.append(match[0].strip())
        position = match.end()
    return found


class _Reader:
    def __init__(self, tokens: Sequence[str], setting: int) -> None:
        self._tokens = tokens
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
            value = value + self._product() if sign == "+" else value - self._product()
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
            return complex(float(token.replace(",", "")))
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
            return _FUNCTIONS[name](self._power())
        if token == "e":
            return complex(math.e)
        if not token or (not token[0].isalpha() and not token.startswith("\\")):
            raise NoValueError
        if token.startswith("\\") and name not in _GREEK:
            raise NoValueError
        return complex(0.5 + (zlib.crc32(f"{self._setting}:{token}".encode()) % 100_003) / 50_001.5)

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


_GREEK: Final = frozenset(
    (
        "alpha",
        "beta",
        "gamma",
        "delta",
        "theta",
        "lambda",
        "mu",
        "omega",
        "phi",
        "rho",
        "sigma",
        "tau",
        "epsilon",
        "eta",
    )
)


def _binomial(above: complex, below: complex) -> complex:
    if above.imag or below.imag or above.real % 1 or below.real % 1 or not 0 <= below.real <= above.real <= 300:
        raise NoValueError
    return complex(float(math.comb(int(above.real), int(below.real))))
