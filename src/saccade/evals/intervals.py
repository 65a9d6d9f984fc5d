"""Intervals and tests: the bootstrap over tasks and McNemar's exact test. The same input gives the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DRAWS = 2000
"""Resamples of a bootstrap."""
_AT_ONCE = 2_000_000
"""Numbers held at a time."""


class Interval(NamedTuple):
    """An interval of 95%."""

    low: float
    high: float


def bootstrap(values: Sequence[float], *, seed: int = 0, draws: int = DRAWS) -> Interval:
    """Percentile interval of the mean, values (one for each task) drawn again with replacement.

    Raises ValueError without values.
    """
    if not values:
        raise ValueError("an interval of no values")
    numbers = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(seed)
    block = max(1, _AT_ONCE // len(numbers))
    means = np.concatenate(
        [
            numbers[random.integers(0, len(numbers), (min(block, draws - start), len(numbers)))].mean(axis=1)
            for start in range(0, draws, block)
        ]
    )
    low, high = np.percentile(means, (2.5, 97.5))
    return Interval(float(low), float(high))


def mcnemar(wins: int, losses: int) -> float:
    """Two-sided p-value of McNemar's exact test: of `wins + losses` tasks that differ, each side is as likely."""
    differing = wins + losses
    # Binomial coefficients one from the other, in whole numbers: thousands of tasks are no problem for either.
    term = tail = 1
    for count in range(min(wins, losses)):
        term = term * (differing - count) // (count + 1)
        tail += term
    return min(1.0, float(2 * tail / 2**differing))
