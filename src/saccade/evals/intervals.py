"""Intervals of 95% for means over tasks and for their differences. The same input gives the same numbers.

| what | interval |
|---|---|
| a mean of tasks that are each right or wrong (0 or 1) | Wilson's score interval |
| a mean of graded values, such as means over several samples | percentile bootstrap over tasks |
| a difference of two runs whose tasks are each right or wrong | Newcombe's paired interval |
| a difference of graded values | percentile bootstrap over tasks |

A bootstrap of equal values has no width. Values from 0 to 1 vary most when all are 0 or 1, so equal values get the
Wilson interval of their mean, which is no narrower than it should be.

Wilson, Journal of the American Statistical Association 22 (1927). Newcombe, Statistics in Medicine 17 (1998) 2635-2650,
method 10. Recommended for small samples by Brown, Cai and DasGupta, Statistical Science 16 (2001), and by Fagerland,
Lydersen and Laake, Statistics in Medicine 33 (2014). Wilson's and Newcombe's intervals are written out here: SciPy's
Wilson takes whole counts only, and means of graded values are fractions; it has no Newcombe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    """Return Wilson's score interval of `right` out of `count`, from 0 to 1; 12 of 12 gives 0.7575 to 1.

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
    """Return the interval of the mean of values from 0 to 1, one for each task; the table above says which.

    Raises ValueError without values, or if equal values are outside 0 and 1.
    """
    if values and (binary(values) or min(values) == max(values)):
        return Named(wilson(fsum(values), len(values)), WILSON)
    return Named(bootstrap(values, seed=seed), BOOTSTRAP)


def of_difference(left: Sequence[float], right: Sequence[float], *, seed: int = 0) -> Named:
    """Return the interval of the mean of `left` less that of `right`, values of the same tasks from 0 to 1.

    Raises ValueError without values, or if one list is longer.
    """
    gaps = [ours - theirs for ours, theirs in zip(left, right, strict=True)]
    if gaps and binary(left) and binary(right):
        return Named(newcombe(_table(left, right)), NEWCOMBE)
    if gaps and min(gaps) == max(gaps):
        return Named(_apart(fsum(left), fsum(right), len(gaps), 0.0), NEWCOMBE)
    return Named(bootstrap(gaps, seed=seed), BOOTSTRAP)


def binary(values: Sequence[float]) -> bool:
    """Return whether each value is 0 or 1."""
    return all(value in (0, 1) for value in values)


def newcombe(table: tuple[int, int, int, int]) -> Interval:
    """Return Newcombe's hybrid score interval (method 10) of a difference of paired shares, from -1 to 1.

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
    """Combine the Wilson intervals of two sums out of `count` by squares, less what their correlation takes off."""
    low, high = wilson(left, count)
    other_low, other_high = wilson(right, count)

    def reach(one: float, two: float) -> float:
        return sqrt(max(0.0, one**2 - 2 * correlation * one * two + two**2))

    own, other = left / count, right / count
    return Interval(
        max(-1.0, own - other - reach(own - low, other_high - other)),
        min(1.0, own - other + reach(high - own, other - other_low)),
    )


class ContingencyTable(NamedTuple):
    """How often two judges say yes and no to the same things."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def of(self) -> int:
        return sum(self)

    @property
    def same(self) -> int:
        """Things on which both say the same."""
        return self.both + self.neither

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa (1960): agreement beyond what two judges with these counts of yes would reach by chance.

        None where chance alone gives full agreement: each says one thing only, and both the same.
        """
        first, second = self.both + self.only_first, self.both + self.only_second
        chance = first * second + (self.of - first) * (self.of - second)
        # In whole numbers: 1 - chance is 0 exactly where both judges say one thing only.
        return (self.same * self.of - chance) / (self.of**2 - chance) if self.of**2 > chance else None


def table(pairs: Iterable[tuple[bool | None, bool | None]]) -> ContingencyTable:
    """Count pairs of a first and a second judge's verdict; leave out what only one of them judged."""
    counts = Counter(pair for pair in pairs if None not in pair)
    return ContingencyTable(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


@dataclass(frozen=True, slots=True)
class Agreement:
    """Verdicts of a rule and of a judge, as `summary.json` keeps them."""

    both: int
    """Right for both."""
    only_rule: int
    only_judge: int
    neither: int
    raw: float
    """Share of equal verdicts, 0 to 1."""
    kappa: float | None
    """Cohen's kappa; None where chance alone gives full agreement."""


def agreement(pairs: Iterable[tuple[bool | None, bool | None]]) -> Agreement | None:
    """Return the agreement over pairs of a rule's and a judge's verdict; None without a pair that both judged."""
    counts = table(pairs)
    return Agreement(*counts, raw=counts.same / counts.of, kappa=counts.kappa) if counts.of else None


# McNemar's exact test is for one right-or-wrong sample of each task: of the tasks that only one run solved, each side
# is equally likely (a binomial sign test). Means over several samples and partial credit have sizes that a sign test
# would discard, so they get the paired permutation test: if the runs were alike, each difference might as well
# have the other sign. On differences of one size the two tests are the same.
#
# McNemar, Psychometrika 12 (1947). Permutation: Fisher 1935, Pitman 1937; for language models Noreen 1989 and Dror et
# al., ACL 2018. `scipy.stats.permutation_test` is not used: where it draws, it doubles the smaller tail, and it takes
# sums that are 0 but for rounding for larger ones.


MCNEMAR: Final = "McNemar's exact test"
PERMUTATION: Final = "paired permutation test"
_EXACT = 16
"""Differences up to which every assignment of signs is counted: 65,536 of them."""
_DRAWS = 20_000
"""Assignments that are drawn where there are more."""
_ROUNDING = 1e-9


def mcnemar(wins: int, losses: int) -> float:
    """Return the p-value of McNemar's exact test; `wins` and `losses` are the tasks that only one run solved."""
    if wins == losses:
        return 1.0
    from scipy.stats import binomtest  # late: it takes half a second

    return float(binomtest(wins, wins + losses).pvalue)


def permutation(gaps: Sequence[float], *, seed: int = 0) -> float:
    """Return the p-value of the paired permutation test (random signs) on the mean of `gaps`, one for each task.

    Exact for up to 16 gaps that are not 0; beyond, 20,000 assignments are drawn and the observed one is among them
    (Phipson and Smyth 2010), so p is never 0.
    """
    sizes = np.abs(np.array([gap for gap in gaps if gap], dtype=np.float64))
    observed = abs(float(np.sum(np.array(gaps, dtype=np.float64))))
    if not len(sizes):
        return 1.0
    if len(sizes) <= _EXACT:
        sums = np.zeros(1)
        for size in sizes:
            sums = np.concatenate([sums + size, sums - size])
        return float(np.mean(np.abs(sums) >= observed - _ROUNDING))
    random = np.random.default_rng(seed)
    block = max(1, _AT_ONCE // len(sizes))
    reached = 0
    for start in range(0, _DRAWS, block):
        signs = 2.0 * random.integers(0, 2, (min(block, _DRAWS - start), len(sizes))) - 1.0
        reached += int(np.count_nonzero(np.abs(signs @ sizes) >= observed - _ROUNDING))
    return (reached + 1) / (_DRAWS + 1)
