r"""Expressions on diagrams, `4x-17`, `\sqrt{3}y`, `(2x+1)/5`: read without running anything, and evaluated on arrays.

Letters are unknowns, a factor may follow another without a sign, and `\sqrt`, `\frac`, `\pi` are those of LaTeX.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from saccade.tools.geometry.terms import FormError

ExpressionValue = Callable[[Mapping[str, Any]], Any]
"""From values of the unknowns (numbers, or arrays of one shape) to the value of the expression."""

_TOKEN: Final = re.compile(r"\s*(\d+\.?\d*|\.\d+|\\?sqrt|\\frac|\\?pi|π|√|[A-Za-z]|\*\*|[-+*/^(){}°%])")
_DEGREES: Final = re.compile(r"\\?\^?\s*\{?\\(?:circ|degree|deg)\}?|\\(?:text|mathrm)\{[^}]*\}|\\ |\\left|\\right|~")


def read_expression(text: str) -> tuple[ExpressionValue, frozenset[str]]:
    """The function that an expression writes, and the unknowns in it.

    Raises:
        FormError: it is none, or a number without a finite value, such as `1/0`.
    """
    clean = _DEGREES.sub("", text).replace("−", "-").replace("\\cdot", "*").replace("\\times", "*")
    reader = _Reader(_tokens(clean), text)
    value = reader.sum()
    if reader.rest:
        raise FormError(f"{text!r} cannot be read from {reader.rest[0]!r} on")
    if not reader.unknowns:
        with np.errstate(all="ignore"):
            if not np.isfinite(value({})):
                raise FormError(f"{text!r} has no finite value")
    return value, frozenset(reader.unknowns)


def _tokens(text: str) -> list[str]:
    tokens, place = [], 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise FormError(f"{text!r} has a sign that no expression has: {text[place:].strip()[:1]!r}")
        tokens.append(match[1].lstrip("\\"))
        place = match.end()
    if not tokens:
        raise FormError("an expression is empty")
    return [token for token in tokens if token not in "°%"]


class _Reader:
    """Recursive descent; `rest` are the tokens that are not read yet."""

    def __init__(self, tokens: list[str], text: str) -> None:
        self.rest = tokens
        self.unknowns: set[str] = set()
        self._text = text

    def sum(self) -> ExpressionValue:
        value = self._product()
        while self.rest[:1] in (["+"], ["-"]):
            sign = 1.0 if self.rest.pop(0) == "+" else -1.0
            value = _plus(value, self._product(), sign)
        return value

    def _product(self) -> ExpressionValue:
        negative = False
        while self.rest[:1] in (["-"], ["+"]):
            negative ^= self.rest.pop(0) == "-"
        value = self._power()
        while self.rest and self.rest[0] not in "+-)}":
            if self.rest[0] in ("*", "/"):
                value = _times(value, self.rest.pop(0), self._power())
            else:
                value = _times(value, "*", self._power())
        return _times(lambda _: -1.0, "*", value) if negative else value

    def _power(self) -> ExpressionValue:
        value = self._atom()
        while self.rest[:1] in (["^"], ["**"]):
            self.rest.pop(0)
            value = _power(value, self._atom())
        return value

    def _atom(self) -> ExpressionValue:
        if not self.rest:
            raise FormError(f"{self._text!r} ends too early")
        token = self.rest.pop(0)
        if token in ("sqrt", "√"):
            return _root(self._atom())
        if token == "frac":
            over = self._atom()
            return _times(over, "/", self._atom())
        if token in ("(", "{"):
            value = self.sum()
            if not self.rest or self.rest.pop(0) not in (")", "}"):
                raise FormError(f"a bracket in {self._text!r} is not closed")
            return value
        if token in ("pi", "π"):
            return lambda _: np.float64(np.pi)
        if token[0].isdigit() or token[0] == ".":
            number = np.float64(token)  # of numpy: divided by zero it is infinite, where Python's raises
            return lambda _: number
        if token.isalpha() and len(token) == 1:
            self.unknowns.add(token)
            return lambda values: values[token]
        raise FormError(f"{self._text!r} cannot be read at {token!r}")


def _plus(a: ExpressionValue, b: ExpressionValue, sign: float) -> ExpressionValue:
    return lambda values: a(values) + sign * b(values)


def _times(a: ExpressionValue, sign: str, b: ExpressionValue) -> ExpressionValue:
    if sign == "*":
        return lambda values: a(values) * b(values)
    return lambda values: a(values) / b(values)


def _power(a: ExpressionValue, b: ExpressionValue) -> ExpressionValue:
    return lambda values: np.power(a(values), b(values))


def _root(a: ExpressionValue) -> ExpressionValue:
    return lambda values: np.sqrt(np.maximum(a(values), 0.0))
