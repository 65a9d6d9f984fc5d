"""Accuracy of repeated samples: avg@k, pass@k, majority@k, each as a mean over tasks.

A task's samples are never taken for tasks of their own: intervals come from resampling tasks. A sample counts as solved
for pass@k if it has full credit; avg@k keeps partial credit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean

from saccade.evals.rows import EvalRow


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The graded samples of one task."""

    task: str
    average: float
    solved: int
    """Samples with full credit."""
    samples: int
    majority: float
    """Credit of the answer that most samples gave; see `majority`."""


def by_task(rows: Iterable[EvalRow]) -> list[TaskResult]:
    """The tasks of rows that have a score, in the order of the rows."""
    groups: dict[str, list[EvalRow]] = defaultdict(list)
    for row in rows:
        if row.correct is not None:
            groups[row.task].append(row)
    return [_result(task, group) for task, group in groups.items()]


def pass_at(k: int, samples: int, solved: int) -> float:
    """Chance that at least one of `k` samples, drawn without replacement from `samples`, is among the `solved`.

    The unbiased estimator of Chen et al. 2021 (arXiv:2107.03374). Raises ValueError if `k` is larger than `samples`.
    """
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} cannot be estimated from {samples} samples")
    return 1.0 - comb(samples - solved, k) / comb(samples, k)


def majority(votes: Sequence[tuple[str, float]]) -> float:
    """Credit of the most frequent answer among (answer, credit); the mean of the first ones where several tie.

    An empty answer has no vote. Answers are one if they are the same text but for case and white space.
    """
    credits: dict[str, list[float]] = defaultdict(list)
    for answer, credit in votes:
        plain = " ".join(answer.casefold().split())
        if plain:
            credits[plain].append(credit)
    most = max((len(group) for group in credits.values()), default=0)
    return fmean(fmean(group) for group in credits.values() if len(group) == most) if most else 0.0


def mean_pass(results: Sequence[TaskResult], upto: int) -> Mapping[int, float]:
    """pass@k over the tasks for k = 1, 2, 4, ... and `upto`, as far as every task has that many samples."""
    if not results:
        return {}
    fewest = min(upto, min(result.samples for result in results))
    powers = {2**power for power in range(fewest.bit_length())} | {fewest}
    return {k: fmean(pass_at(k, result.samples, result.solved) for result in results) for k in sorted(powers)}


def _result(task: str, rows: Sequence[EvalRow]) -> TaskResult:
    credits = [row.correct for row in rows if row.correct is not None]
    return TaskResult(
        task,
        average=fmean(credits),
        solved=sum(credit == 1 for credit in credits),
        samples=len(rows),
        majority=majority([(row.extracted, row.correct or 0.0) for row in rows]),
    )
