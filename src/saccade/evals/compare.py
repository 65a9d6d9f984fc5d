"""Two runs over the same tasks, compared task by task.

Only tasks that both runs graded are compared; the others are counted. A task is won by the run with the larger mean
over its samples. With one sample each that is McNemar's test; with more it is the sign test, computed alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from saccade.errors import SettingsError
from saccade.evals.intervals import Interval, bootstrap, mcnemar
from saccade.evals.metrics import by_task
from saccade.evals.rows import Row, natural


@dataclass(frozen=True, slots=True)
class Pair:
    """One task in both runs."""

    task: str
    left: float
    """Mean over the samples."""
    right: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs over the same tasks say of each other."""

    pairs: tuple[Pair, ...]
    only_left: int
    """Tasks that the other run has not, or could not grade."""
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
    p: float
    """McNemar's exact test, two-sided."""

    @property
    def ties(self) -> int:
        """Tasks in which both are the same."""
        return len(self.pairs) - self.wins - self.losses

    @property
    def differing(self) -> tuple[Pair, ...]:
        """The tasks that are not the same, wins first."""
        return tuple(sorted((pair for pair in self.pairs if pair.left != pair.right), key=_wins_first))


def compare(left: Sequence[Row], right: Sequence[Row], *, seed: int = 0) -> Comparison:
    """Compare the rows of two runs.

    Raises:
        SettingsError: they have no task in common, or a task is not the same in both.
    """
    _check_same(left, right)
    ours = {result.task: result.average for result in by_task(left)}
    theirs = {result.task: result.average for result in by_task(right)}
    pairs = tuple(Pair(task, ours[task], theirs[task]) for task in ours if task in theirs)
    if not pairs:
        raise SettingsError(
            "these runs have no graded task in common, so there is nothing to compare. "
            "Evaluate both with the same sources, --n and seed."
        )
    gaps = [pair.left - pair.right for pair in pairs]
    wins, losses = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    return Comparison(
        pairs=pairs,
        only_left=len(ours) - len(pairs),
        only_right=len(theirs) - len(pairs),
        both_right=sum(pair.left == pair.right == 1 for pair in pairs),
        wins=wins,
        losses=losses,
        difference=fmean(gaps),
        interval=bootstrap(gaps, seed=seed),
        p=mcnemar(wins, losses),
    )


def _check_same(left: Sequence[Row], right: Sequence[Row]) -> None:
    known = {row.task: row for row in left}
    for row in right:
        other = known.get(row.task, row)
        if (row.question, row.gold, sorted(row.choices)) != (other.question, other.gold, sorted(other.choices)):
            raise SettingsError(
                f"task {row.task} has another question or gold answer in the two runs, so they cannot be compared."
            )


def _wins_first(pair: Pair) -> tuple[float, tuple[tuple[int, str], ...]]:
    return pair.right - pair.left, natural(pair.task)
