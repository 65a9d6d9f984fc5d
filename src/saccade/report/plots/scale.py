"""Axes in numbers: round ticks, pixels of values, and numbers as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10


@dataclass(frozen=True, slots=True)
class AxisScale:
    """Values of an axis and the pixels at which they stand."""

    low: float
    high: float
    ticks: tuple[float, ...]
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`; may be the smaller one."""

    def __call__(self, value: float) -> float:
        """The pixel of `value`, to a tenth."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def step(self) -> float:
        """Distance of two ticks."""
        return self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else self.high - self.low


def scale(values: Iterable[float], span: tuple[float, float], *, zero: bool = False, ticks: int = 5) -> AxisScale:
    """An axis over `values` that begins and ends at a tick; `span` is its pixels, `zero` says that 0 is on it."""
    known = [value for value in values if isfinite(value)] + ([0.0] if zero else [])
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = (min(low, 0.0), max(high, 0.0)) if low else (0.0, 1.0)
    step = _round_step((high - low) / ticks)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    marks = tuple(step * number for number in range(first, last + 1))
    return AxisScale(marks[0], marks[-1], marks, *span)


def tight(values: Iterable[float], span: tuple[float, float], *, ticks: int = 6) -> AxisScale:
    """An axis that begins and ends with the values, for steps of a run; ticks lie between."""
    known = [value for value in values if isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = max(1.0, _round_step((high - low) / ticks))
    marks = tuple(step * number for number in range(ceil(low / step), floor(high / step) + 1))
    return AxisScale(low, high, marks, *span)


def short(value: float, step: float = 0.0) -> str:
    """A number in few characters: `0.25`, `1,200`, `35k`, `1.2M`; with the digits that a tick distance `step` needs."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            divisor = 1e3 if unit == "k" else size
            return f"{value / divisor:.3g}{unit}".replace("-", "−")
    if value == 0 or abs(value) < step * 1e-6:
        return "0"
    if step and step < abs(value):
        digits = max(0, -floor(log10(step) + 1e-9))
        digits += abs(round(step, digits) - step) > step * 1e-6  # 0.25 needs two
        text = f"{value:,.{digits}f}" if digits <= 4 else f"{value:.2g}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is no smaller."""
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= least * (1 - 1e-9))
