"""Compares two runs over the same tasks, task by task.

Only tasks that both runs graded are compared; the others are counted. The run with the larger mean over a task's
samples wins it. `saccade.evals.intervals` chooses the test and the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from saccade.errors import SettingsError
from saccade.evals.intervals import MCNEMAR, PERMUTATION, Interval, binary, mcnemar, of_difference, permutation
from saccade.evals.metrics import by_task
from saccade.evals.rows import EvalRow, natural


@dataclass(frozen=True, slots=True)
class Pair:
    """One task in both runs."""

    task: str
    left: float
    """Mean over the samples."""
    right: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of a comparison."""

    pairs: tuple[Pair, ...]
    only_left: int
    """Tasks that the other run lacks or could not grade."""
    only_right: int
    both_right: int
    """Tasks that both solved in every sample."""
    wins: int
    """Tasks in which the left run is better."""
    losses: int
    difference: float
    """Mean of left minus right."""
    interval: Interval
    """Of `difference`, 95%."""
    interval_by: str
    """How it was made."""
    p: float
    """Of `test`, two-sided."""
    test: str
    """McNemar's exact test for one right-or-wrong sample of each task, else the paired permutation test."""

    @property
    def ties(self) -> int:
        """Tasks in which both are the same."""
        return len(self.pairs) - self.wins - self.losses

    @property
    def differing(self) -> tuple[Pair, ...]:
        """The tasks that are not the same, wins first."""
        return tuple(sorted((pair for pair in self.pairs if pair.left != pair.right), key=_wins_first))


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two means over the same tasks, and how likely it is by chance."""

    difference: float
    """First minus second."""
    interval: Interval
    interval_by: str
    p: float
    test: str


def paired_test(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], *, seed: int = 0) -> Difference:
    """Compare the values, from 0 to 1, of each task's samples in two runs. Raises ValueError without tasks."""
    left, right = ([fmean(side) for side in sides] for sides in zip(*pairs, strict=True))
    gaps = [one - other for one, other in zip(left, right, strict=True)]
    single = all(len(side) == 1 and binary(side) for pair in pairs for side in pair)
    interval, interval_by = of_difference(left, right, seed=seed)
    p = mcnemar(sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)) if single else permutation(gaps, seed=seed)
    return Difference(fmean(gaps), interval, interval_by, p, MCNEMAR if single else PERMUTATION)


def compare(left: Sequence[EvalRow], right: Sequence[EvalRow], *, seed: int = 0) -> Comparison:
    """Compare the rows of two runs. Raises `SettingsError` if they have no task in common, or a task is not the same in
    both.
    """
    _check_same(left, right)
    ours = {result.task: result for result in by_task(left)}
    theirs = {result.task: result for result in by_task(right)}
    both = [(ours[task], theirs[task]) for task in ours if task in theirs]
    pairs = tuple(Pair(one.task, one.average, other.average) for one, other in both)
    if not pairs:
        raise SettingsError(
            "these runs have no graded task in common, so there is nothing to compare. "
            "Evaluate both with the same sources, --n and seed."
        )
    gaps = [pair.left - pair.right for pair in pairs]
    found = paired_test([(one.credits, other.credits) for one, other in both], seed=seed)
    return Comparison(
        pairs=pairs,
        only_left=len(ours) - len(pairs),
        only_right=len(theirs) - len(pairs),
        both_right=sum(pair.left == pair.right == 1 for pair in pairs),
        wins=sum(gap > 0 for gap in gaps),
        losses=sum(gap < 0 for gap in gaps),
        difference=found.difference,
        interval=found.interval,
        interval_by=found.interval_by,
        p=found.p,
        test=found.test,
    )


def _check_same(left: Sequence[EvalRow], right: Sequence[EvalRow]) -> None:
    known = {row.task: row for row in left}
    for row in right:
        other = known.get(row.task, row)
        if (row.question, row.gold, sorted(row.choices)) != (other.question, other.gold, sorted(other.choices)):
            raise SettingsError(
                f"task {row.task} has another question or gold answer in the two runs, so they cannot be compared."
            )


def _wins_first(pair: Pair) -> tuple[float, tuple[tuple[int, str], ...]]:
    return pair.right - pair.left, natural(pair.task)
