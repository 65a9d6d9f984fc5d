"""Tests of two runs over the same tasks: is one better than chance would make it? Two-sided; seeded where they draw.

McNemar's exact test is for one right-or-wrong sample of each task: of the tasks that one run alone solved, each side is
as likely (a binomial sign test on these). Means over several samples and partial credit have sizes that a sign test
would throw away, so there the paired permutation test is used: if the runs were alike, each task's difference might as
well have the other sign. On differences of one size the two tests are the same.

McNemar, Psychometrika 12 (1947). Permutation: Fisher 1935, Pitman 1937; for language models Noreen 1989 and Dror et
al., ACL 2018 (The Hitchhiker's Guide to Testing Statistical Significance in NLP).

The permutation test is not `scipy.stats.permutation_test`: where the differences are drawn, that doubles the smaller
tail, and it takes sums that are 0 but for rounding for larger ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

MCNEMAR: Final = "McNemar's exact test"
PERMUTATION: Final = "paired permutation test"
_EXACT = 16
"""Differences up to which every assignment of signs is counted: 65,536 of them."""
_DRAWS = 20_000
"""Assignments that are drawn where there are more."""
_AT_ONCE = 2_000_000
"""Numbers held at a time."""
_ROUNDING = 1e-9


def mcnemar(wins: int, losses: int) -> float:
    """Return the p-value of McNemar's exact test; `wins` and `losses` are the tasks that only one run solved."""
    if wins == losses:
        return 1.0
    from scipy.stats import binomtest  # late: it takes half a second

    return float(binomtest(wins, wins + losses).pvalue)


def permutation(gaps: Sequence[float], *, seed: int = 0) -> float:
    """p-value of the paired permutation test (random signs) on the mean of `gaps`, one for each task.

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
