"""Intervals of 95% for means over tasks and for their differences. The same input gives the same numbers.

| what | interval |
|---|---|
| a mean of tasks that are each right or wrong (0 or 1) | Wilson's score interval |
| a mean of graded values, such as means over several samples | percentile bootstrap over tasks |
| a difference of two runs whose tasks are each right or wrong | Newcombe's paired interval |
| a difference of graded values | percentile bootstrap over tasks |

A bootstrap of equal values has no width and says nothing of the next task. Values from 0 to 1 vary most when they are 0
or 1 alone, so there the Wilson interval of that mean stands in, which is no narrower than it should be.

Wilson, Journal of the American Statistical Association 22 (1927). Newcombe, Statistics in Medicine 17 (1998) 2635-2650,
method 10. Recommended for small samples by Brown, Cai and DasGupta, Statistical Science 16 (2001), and by Fagerland,
Lydersen and Laake, Statistics in Medicine 33 (2014). Wilson's and Newcombe's intervals are written out here: SciPy's
Wilson takes whole counts only, and means of graded values are fractions; it has no Newcombe.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from typing import Final, NamedTuple

import numpy as np

DRAWS = 2000
"""Resamples of a bootstrap."""
WILSON: Final = "Wilson"
NEWCOMBE: Final = "Newcombe, paired"
BOOTSTRAP: Final = "bootstrap over tasks"
_AT_ONCE = 2_000_000
"""Numbers held at a time."""
_Z = 1.959963984540054
"""Quantile 0.975 of the normal distribution."""


class Interval(NamedTuple):
    """An interval of 95%."""

    low: float
    high: float


class Named(NamedTuple):
    """An interval and how it was made."""

    interval: Interval
    method: str
    """`WILSON`, `NEWCOMBE` or `BOOTSTRAP`."""


def wilson(right: float, count: float) -> Interval:
    """Wilson's score interval of `right` out of `count`, from 0 to 1; 12 of 12 gives 0.7575 to 1.

    Raises ValueError unless 0 <= right <= count and count > 0.
    """
    if not 0 <= right <= count or not count:
        raise ValueError(f"an interval of {right} out of {count}")
    share, squared = right / count, _Z**2
    middle = share + squared / (2 * count)
    half = _Z * sqrt(share * (1 - share) / count + squared / (4 * count**2))
    below = 1 + squared / count
    # The ends of all and of none are 1 and 0 but for rounding.
    low = 0.0 if not right else (middle - half) / below
    return Interval(low, 1.0 if right == count else (middle + half) / below)


def of_mean(values: Sequence[float], *, seed: int = 0) -> Named:
    """The interval of the mean of values from 0 to 1, one for each task; see the module for which.

    Raises ValueError without values, or if equal values lie outside 0 and 1.
    """
    if values and (binary(values) or min(values) == max(values)):
        return Named(wilson(fsum(values), len(values)), WILSON)
    return Named(bootstrap(values, seed=seed), BOOTSTRAP)


def of_difference(left: Sequence[float], right: Sequence[float], *, seed: int = 0) -> Named:
    """The interval of the mean of `left` less that of `right`, values of the same tasks from 0 to 1.

    Raises ValueError without values, or if one list is longer.
    """
    gaps = [ours - theirs for ours, theirs in zip(left, right, strict=True)]
    if gaps and binary(left) and binary(right):
        return Named(newcombe(_table(left, right)), NEWCOMBE)
    if gaps and min(gaps) == max(gaps):
        return Named(_apart(fsum(left), fsum(right), len(gaps), 0.0), NEWCOMBE)
    return Named(bootstrap(gaps, seed=seed), BOOTSTRAP)


def binary(values: Sequence[float]) -> bool:
    """Whether each value is 0 or 1."""
    return all(value in (0, 1) for value in values)


def newcombe(table: tuple[int, int, int, int]) -> Interval:
    """Newcombe's hybrid score interval (method 10) of a difference of paired shares, from -1 to 1.

    `table` counts the tasks that both solved, only the first, only the second, and neither. Raises ValueError if it is
    empty.
    """
    both, first, second, neither = table
    count = both + first + second + neither
    if not count:
        raise ValueError("an interval of no pairs")
    sides = (both + first) * (second + neither) * (both + second) * (first + neither)
    related: float = both * neither - first * second
    if related > 0:  # corrected for continuity
        related = max(related - count / 2, 0)
    return _apart(both + first, both + second, count, related / sqrt(sides) if sides else 0.0)


def bootstrap(values: Sequence[float], *, seed: int = 0, draws: int = DRAWS) -> Interval:
    """Return the percentile interval of the mean, values (one for each task) drawn again with replacement.

    It has no width if all values are equal. Raises ValueError without values.
    """
    if not values:
        raise ValueError("an interval of no values")
    if min(values) == max(values):
        return Interval(values[0], values[0])
    from scipy import stats  # late: it takes half a second

    block = max(1, _AT_ONCE // len(values))
    random = np.random.default_rng(seed)
    found = stats.bootstrap((values,), np.mean, n_resamples=draws, batch=block, method="percentile", rng=random)
    return Interval(float(found.confidence_interval.low), float(found.confidence_interval.high))


def _table(left: Sequence[float], right: Sequence[float]) -> tuple[int, int, int, int]:
    pairs = [(bool(ours), bool(theirs)) for ours, theirs in zip(left, right, strict=True)]
    return (
        pairs.count((True, True)),
        pairs.count((True, False)),
        pairs.count((False, True)),
        pairs.count((False, False)),
    )


def _apart(left: float, right: float, count: int, correlation: float) -> Interval:
    """Wilson intervals of two sums out of `count`, put together by squares, less what their correlation takes off."""
    low, high = wilson(left, count)
    other_low, other_high = wilson(right, count)

    def reach(one: float, two: float) -> float:
        return sqrt(max(0.0, one**2 - 2 * correlation * one * two + two**2))

    own, other = left / count, right / count
    return Interval(
        max(-1.0, own - other - reach(own - low, other_high - other)),
        min(1.0, own - other + reach(high - own, other - other_low)),
    )
