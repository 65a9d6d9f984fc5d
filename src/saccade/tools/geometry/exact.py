"""The exact number that a computed one most likely is: a fraction, a multiple of a root or of pi."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt, pi
from typing import Final

_NEAR: Final = 1e-6
_DENOMINATOR: Final = 60
_RADICAND: Final = 100_000


def exact_form(value: float) -> str:
    """As `12`, `7/2`, `5*sqrt(3)`, `9/2*pi`; empty where none of these is as near as a millionth."""
    for unit, name in ((1.0, ""), (pi, "pi")):
        ratio = _fraction(value / unit)
        if ratio is not None and (ratio != 0 or not name):
            return _times(ratio, name)
    square = _fraction(value * value)
    if not square or square.numerator * square.denominator > _RADICAND:
        return ""
    # sqrt(p/q) = sqrt(p*q)/q, with the largest square taken out.
    inner = square.numerator * square.denominator
    outer = next(root for root in range(isqrt(inner), 0, -1) if inner % root**2 == 0)
    factor = Fraction(outer, square.denominator) * (-1 if value < 0 else 1)
    return _times(factor, f"sqrt({inner // outer**2})")


def _fraction(value: float) -> Fraction | None:
    near = Fraction(value).limit_denominator(_DENOMINATOR)
    return near if abs(float(near) - value) <= _NEAR * max(1.0, abs(value)) else None


def _times(factor: Fraction, name: str) -> str:
    if not name:
        return str(factor)
    return name if factor == 1 else f"-{name}" if factor == -1 else f"{factor}*{name}"
