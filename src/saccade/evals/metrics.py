"""Accuracy of repeated samples: avg@k, pass@k, majority@k, each as a mean over tasks.

The unit is the task: intervals come from resampling tasks, not samples. A sample counts as solved for pass@k if it has
full credit; avg@k keeps partial credit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from statistics import fmean
from typing import Final

import numpy as np

from saccade.errors import SaccadeError, SettingsError
from saccade.evals.intervals import MCNEMAR, PERMUTATION, Interval, binary, mcnemar, of_difference, permutation
from saccade.evals.rows import EvalRow, natural
from saccade.tasks.benchmarks.benchmark import CIRCULAR
from saccade.tasks.benchmarks.card import Metric
from saccade.tasks.benchmarks.registry import recorded_card


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
    credits: tuple[float, ...] = ()
    """Of each sample."""


def by_task(rows: Iterable[EvalRow]) -> list[TaskResult]:
    """Group rows that have a score by task, in the order of the rows."""
    groups: dict[str, list[EvalRow]] = defaultdict(list)
    for row in rows:
        if row.correct is not None:
            groups[row.task].append(row)
    return [_result(task, group) for task, group in groups.items()]


def pass_at(k: int, samples: int, solved: int) -> float:
    """Estimate how likely one of `k` samples, drawn without replacement from `samples`, is among the `solved`.

    The unbiased estimator of Chen et al. 2021 (arXiv:2107.03374). Raises ValueError if `k` is larger than `samples`.
    """
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} cannot be estimated from {samples} samples")
    return 1.0 - comb(samples - solved, k) / comb(samples, k)


def majority(votes: Sequence[tuple[str, float]]) -> float:
    """Return the credit of the most frequent answer among (answer, credit); the mean where several tie.

    Empty answers have no vote. Answers that differ only in case and white space count as one.
    """
    credits: dict[str, list[float]] = defaultdict(list)
    for answer, credit in votes:
        plain = " ".join(answer.casefold().split())
        if plain:
            credits[plain].append(credit)
    most = max((len(group) for group in credits.values()), default=0)
    return fmean(fmean(group) for group in credits.values() if len(group) == most) if most else 0.0


def majority_by_samples(votes: Sequence[tuple[str, float]]) -> tuple[float, ...]:
    """Return `majority` for 1, 2, ... samples: its mean over all subsets of so many of the (answer, credit).

    Exact: of each answer only the number drawn matters, and its credit is the mean of its votes.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for answer, credit in votes:
        groups[" ".join(answer.casefold().split())].append(credit)
    silent = len(groups.pop("", ()))
    total = len(votes)
    sums = np.zeros(total + 1)
    for most in range(1, max(map(len, groups.values()), default=0) + 1):
        # [drawn, winners]: ways to draw so many in all, and these ways times the summed credit of the winners.
        ways = np.zeros((total + 1, total // most + 1))
        ways[: silent + 1, 0] = [comb(silent, drawn) for drawn in range(silent + 1)]
        credited = np.zeros_like(ways)
        for credits in groups.values():
            fewer, fewer_credited = np.zeros_like(ways), np.zeros_like(ways)
            for drawn in range(min(len(credits), most - 1) + 1):
                fewer[drawn:] += comb(len(credits), drawn) * ways[: total + 1 - drawn]
                fewer_credited[drawn:] += comb(len(credits), drawn) * credited[: total + 1 - drawn]
            if len(credits) >= most:
                wins, rest = comb(len(credits), most), total + 1 - most
                fewer[most:, 1:] += wins * ways[:rest, :-1]
                fewer_credited[most:, 1:] += wins * (credited[:rest, :-1] + fmean(credits) * ways[:rest, :-1])
            ways, credited = fewer, fewer_credited
        sums += credited[:, 1:] @ (1 / np.arange(1, credited.shape[1]))
    return tuple(float(sums[drawn]) / comb(total, drawn) for drawn in range(1, total + 1))


def mean_pass(results: Sequence[TaskResult], upto: int) -> Mapping[int, float]:
    """Return pass@k over the tasks for k = 1, 2, 4, ... and `upto`, as far as every task has that many samples."""
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
        credits=tuple(credits),
    )


# Benchmarks that are known by another number than the mean over their tasks: VSI-Bench (arXiv:2412.14171 and its
# official code), DynaMath (arXiv:2411.00836), We-Math (arXiv:2407.01284). A card names its metric.

_VSI_DIRECTION = "object_rel_direction"
Numbers = Mapping[str, float]
Tagged = tuple[TaskResult, Mapping[str, str]]
"""A task and its tags by their names."""


def card_numbers(source: str, rows: Sequence[EvalRow]) -> Numbers:
    """Compute the further numbers of a benchmark, by name, from the rows of its tasks; empty for any other source."""
    metric, whole = _metric(source), whole_questions(rows)
    numbers = _own_numbers(whole or rows, metric)
    if not whole:
        return numbers
    credits = [result.average for result in by_task(whole)]
    circular = {CIRCULAR_NUMBER: fmean(credits)} if credits else {}
    return {f"{name}, {CIRCULAR_NUMBER}": value for name, value in numbers.items()} | circular


def _metric(source: str) -> Metric:
    try:
        return recorded_card(source).metric
    except SaccadeError:
        return Metric()  # a world, or a card that the user has elsewhere


def _own_numbers(rows: Sequence[EvalRow], metric: Metric) -> Numbers:
    tags = {row.task: dict(_pairs(row.tags)) for row in rows}
    results = [(result, tags[result.task]) for result in by_task(rows)]
    compute = METRICS.get(metric.id.partition("@")[0])
    return compute(results, metric) if compute is not None and results else {}


# Circular evaluation (MMBench, arXiv:2307.06281): a question is asked once for every rotation of its choices, and is
# right if it is in all of them.


CIRCULAR_NUMBER: Final = "circular"
_ROTATION = re.compile(rf"/{CIRCULAR}-\d+\Z")


def question_of(task: str) -> str:
    """Return the id of the question of which a task is one rotation; of any other task its own."""
    return _ROTATION.sub("", task)


def whole_questions(rows: Sequence[EvalRow]) -> list[EvalRow]:
    """Return a row for each sample of a question, worth its worst rotation; empty where no question is rotated.

    A question of which a rotation has no verdict counts only if another is wrong: else nobody knows.
    """
    if not any(_ROTATION.search(row.task) for row in rows):
        return []
    questions: dict[tuple[str, int], list[EvalRow]] = defaultdict(list)
    for row in rows:
        questions[question_of(row.task), row.rollout].append(row)
    whole = []
    for (name, _), turns in questions.items():
        known = [row.correct for row in turns if row.correct is not None]
        expected = len(turns[0].choices) if _ROTATION.search(turns[0].task) else 1
        decided = len(known) >= expected or min(known, default=1.0) == 0
        whole.append(replace(turns[0], task=name, correct=min(known) if known and decided else None))
    return whole


def card_tags(source: str) -> tuple[str, ...]:
    """Return the names of the tags by which a benchmark's card wants its number given; none for any other source."""
    return _metric(source).by


def tag_mean(results: Sequence[Tagged], metric: Metric) -> Numbers:
    """Average the means of each value of the first tag that the card names."""
    (name, *_) = metric.by or ("",)
    groups = _grouped(results, name)
    return {f"mean over {name}": fmean(fmean(averages) for averages in groups.values())} if groups else {}


def vsi_mean(results: Sequence[Tagged], metric: Metric) -> Numbers:
    """Average over VSI-Bench's types; the three levels of relative direction are averaged to one type first."""
    levels: dict[str, list[float]] = defaultdict(list)
    for name, averages in _grouped(results, "type").items():
        levels[_VSI_DIRECTION if name.startswith(_VSI_DIRECTION) else name].append(fmean(averages))
    return {"mean over type": fmean(map(fmean, levels.values()))} if levels else {}


def worst_case(results: Sequence[Tagged], metric: Metric) -> Numbers:
    """Average over groups of variants, each of which is worth its worst one."""
    groups = _grouped(results, "group")
    return {"worst case": fmean(min(averages) for averages in groups.values())} if groups else {}


def we_math(results: Sequence[Tagged], metric: Metric) -> Numbers:
    """Compute the scores of We-Math: of all composite problems, those mastered and half of those not generalised to.

    Strict: a composite problem that is right counts as mastered only if all its one-step problems are right; loose: if
    one of them is. A task counts as right if more than half of its samples are.
    """
    groups: dict[str, dict[str, bool]] = defaultdict(dict)
    for result, tags in results:
        if "group" in tags and "variant" in tags:
            groups[tags["group"]][tags["variant"]] = result.average > 0.5
    strict = loose = 0.0
    composite = 0
    for variants in groups.values():
        final = [right for variant, right in variants.items() if variant.endswith("multi")]
        steps = [right for variant, right in variants.items() if not variant.endswith("multi")]
        if len(final) != 1 or not steps:
            continue
        composite += 1
        generalises = 0.5 * all(steps)
        strict += float(all(steps)) if final[0] else generalises
        loose += float(any(steps)) if final[0] else generalises
    return {"We-Math strict": strict / composite, "We-Math loose": loose / composite} if composite else {}


METRICS: Mapping[str, Callable[[Sequence[Tagged], Metric], Numbers]] = {
    "task-mean": tag_mean,
    "type-mean": tag_mean,
    "vsi-mean": vsi_mean,
    "average-and-worst-case": worst_case,
    "we-math": we_math,
}
"""Name of a card's metric -> what computes it; `accuracy` is the mean over tasks and needs nothing."""


def _pairs(tags: Iterable[str]) -> Iterable[tuple[str, str]]:
    for tag in tags:
        name, equals, value = tag.partition("=")
        if equals:
            yield name, value


def _grouped(results: Iterable[Tagged], name: str) -> Mapping[str, list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for result, tags in results:
        if name in tags:
            groups[tags[name]].append(result.average)
    return groups


# The mean over benchmarks, as papers print it: each counts once, with the number by which it is known.

_BESIDE_THE_AVERAGE: Final = frozenset({"worst case"})
"""Numbers that a benchmark prints besides its average and not in its place: DynaMath's."""


@dataclass(frozen=True, slots=True)
class SourceScore:
    """The number of one source."""

    number: str
    """Its name: `avg@k`, or as the card's metric calls it."""
    value: float | None
    """From 0 to 1; None where no task could be graded."""


@dataclass(frozen=True, slots=True)
class Macro:
    """The plain mean over the sources of a run."""

    mean: float | None
    """None where a source has no number."""
    parts: Mapping[str, SourceScore]
    """By the name of the source."""


def macro_average(
    averages: Mapping[str, float | None], card_numbers: Mapping[str, Mapping[str, float]], k: int
) -> Macro | None:
    """Average over the sources of `averages`, which are their avg@k; None where there are fewer than two."""
    if len(averages) < 2:
        return None
    parts = {name: source_score(average, card_numbers.get(name, {}), k) for name, average in averages.items()}
    values = [part.value for part in parts.values() if part.value is not None]
    return Macro(fmean(values) if len(values) == len(parts) else None, parts)


def macro_text(macro: Macro | None) -> list[str]:
    """Write a line for a terminal: the mean and the number of each source in it, or why there is none."""
    if macro is None:
        return []
    lost = [name or "tasks without a source" for name, part in macro.parts.items() if part.value is None]
    if macro.mean is None:
        return [f"mean over benchmarks: none; there is no graded task of {', '.join(lost)}"]
    given = ", ".join(
        f"{name or 'tasks without a source'} {100 * part.value:.1f} ({part.number})"
        for name, part in macro.parts.items()
        if part.value is not None
    )
    return [f"mean over benchmarks: {100 * macro.mean:.1f}, each counted once: {given}"]


def source_score(average: float | None, numbers: Mapping[str, float], k: int) -> SourceScore:
    """Return the number by which a source is known: its card's own, or else its avg@k."""
    own = next(
        ((name, value) for name, value in numbers.items() if name.partition(", ")[0] not in _BESIDE_THE_AVERAGE), None
    )
    return SourceScore(*own) if own is not None else SourceScore(f"avg@{k}", average)


# Compares two runs over the same tasks, task by task.
#
# Only tasks that both runs graded are compared; the others are counted. The run with the larger mean over a task's
# samples wins it. `saccade.evals.intervals` chooses the test and the interval.


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
        return len(self.pairs) - self.wins - self.losses

    @property
    def differing(self) -> tuple[Pair, ...]:
        """The tasks that are not the same, wins first."""
        moved = (pair for pair in self.pairs if pair.left != pair.right)
        return tuple(sorted(moved, key=lambda pair: (pair.right - pair.left, natural(pair.task))))


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
