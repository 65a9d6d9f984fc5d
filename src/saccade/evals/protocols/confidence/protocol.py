"""The confidence protocol: agreement across samples, accuracy against number of turns and budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Final

from saccade.evals.metrics import majority, pass_at
from saccade.evals.protocols.base import Protocol, Studied
from saccade.evals.protocols.confidence.agreement import agreements, calibration_error, mean, separation, spans
from saccade.evals.protocols.confidence.records import Confidence, ConfidenceRow, Curve, CurvePoint, SamplesPoint
from saccade.evals.protocols.findings import Rate, StudiedRun
from saccade.evals.protocols.rates import Rates
from saccade.grading.grade import grade_of
from saccade.record.base import clean_text
from saccade.record.score import CORRECT
from saccade.rewards.reading import calls

Number = Callable[[ConfidenceRow], int | None]

_STEPS: Final = 10
"""Points of a curve over a number with many values."""


def row(studied: Studied) -> ConfidenceRow:
    """The row of one sample: its answer in plain words, and how much was written for it."""
    trajectory = studied.trajectory
    detail = next((score.detail for score in trajectory.scores if score.name == CORRECT), "")
    answer = (grade_of(detail).extracted or trajectory.answer or "") if trajectory.answer is not None else ""
    written = [turn.tokens.sampled for turn in trajectory.turns]
    known = [number for number in written if number is not None]
    return ConfidenceRow(
        **studied.head,
        answer=" ".join(clean_text(answer).casefold().split()),
        turns=len(trajectory.turns),
        calls=len(calls(trajectory)),
        written=sum(known) if len(known) == len(written) else None,
        turn_limit=trajectory.provenance.limits.turns,
    )


def findings(rows: Sequence[ConfidenceRow], about: StudiedRun) -> Confidence:
    """The findings of all rows."""
    tasks = agreements(rows)
    unanimous = [task for task in tasks if task.distinct == 1 and task.answered == task.samples]
    groups = tuple(spans(tasks))
    limits = {row.turn_limit for row in rows}
    return Confidence(
        about=about,
        tasks=tasks,
        agreement=mean([task.agreement for task in tasks]) if tasks else None,
        unanimous=Rate(count=len(unanimous), of=len(tasks)),
        unanimous_right=Rate(count=sum(task.majority == 1 for task in unanimous), of=len(unanimous)),
        calibration_error=calibration_error(groups),
        separation=separation(tasks),
        spans=groups,
        by_turns=_exactly("turns", rows, lambda row: row.turns),
        by_turn_limit=_exactly("turn_limit", rows if len(limits) > 1 else (), lambda row: row.turn_limit),
        within=(
            _within("turns", rows, lambda row: row.turns),
            _within("calls", rows, lambda row: row.calls),
            _within("written", rows, lambda row: row.written),
        ),
        with_samples=tuple(_with_samples(rows)),
        rows=tuple(rows),
    )


def _exactly(name: str, rows: Sequence[ConfidenceRow], number: Number) -> Curve:
    """Accuracy of the samples with each value of `number`."""
    values = sorted({value for row in rows if (value := number(row)) is not None})
    columns = [[row.correct if number(row) == value else None for row in rows] for value in values]
    counts = [sum(number(row) == value for row in rows) for value in values]
    means = Rates(rows).credits(columns)
    return Curve(
        name=name,
        points=tuple(
            CurvePoint(at=at, samples=n, accuracy=one) for at, n, one in zip(values, counts, means, strict=True)
        ),
    )


def _within(name: str, rows: Sequence[ConfidenceRow], number: Number) -> Curve:
    """Accuracy of all samples if those beyond each budget had been stopped without an answer."""
    known = [row for row in rows if number(row) is not None]
    values = sorted(value for row in known if (value := number(row)) is not None)
    budgets = _budgets(values)
    columns = [
        [None if row.correct is None else row.correct * ((number(row) or 0) <= most) for row in known]
        for most in budgets
    ]
    counts = [sum(value <= most for value in values) for most in budgets]
    means = Rates(known).credits(columns)
    return Curve(
        name=name,
        points=tuple(
            CurvePoint(at=at, samples=n, accuracy=one) for at, n, one in zip(budgets, counts, means, strict=True)
        ),
    )


def _budgets(values: Sequence[int]) -> list[int]:
    """Every value there is; of many, those at even shares of the samples."""
    distinct = sorted(set(values))
    if len(distinct) <= 2 * _STEPS:
        return distinct
    return sorted({values[len(values) * step // _STEPS - 1] for step in range(1, _STEPS + 1)})


def _with_samples(rows: Sequence[ConfidenceRow]) -> Iterator[SamplesPoint]:
    """pass@n and majority@n over the tasks, as far as every task has n graded samples."""
    groups: dict[str, list[ConfidenceRow]] = defaultdict(list)
    for row in rows:
        if row.correct is not None:
            groups[row.task].append(row)
    fewest = min(map(len, groups.values()), default=0)
    for count in range(1, fewest + 1):
        yield SamplesPoint(
            samples=count,
            any_right=fmean(pass_at(count, len(group), sum(row.right for row in group)) for group in groups.values()),
            majority=fmean(
                majority([(row.answer, row.correct or 0.0) for row in group[:count]]) for group in groups.values()
            ),
        )


PROTOCOL: Final = Protocol("confidence", "Confidence", Confidence, row, findings)
