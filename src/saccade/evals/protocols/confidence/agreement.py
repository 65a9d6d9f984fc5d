"""How far samples of one task agree, and what that says of the answer that most of them gave."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from statistics import fmean
from typing import Final

from saccade.evals.intervals import of_mean
from saccade.evals.metrics import majority
from saccade.evals.protocols.confidence.records import AgreementSpan, ConfidenceRow, TaskAgreement
from saccade.evals.protocols.findings import Mean

SPANS: Final = 5


def agreements(rows: Sequence[ConfidenceRow]) -> tuple[TaskAgreement, ...]:
    """Every task with more than one graded sample, in the order of the rows."""
    groups: dict[str, list[ConfidenceRow]] = defaultdict(list)
    for row in rows:
        if row.correct is not None:
            groups[row.task].append(row)
    return tuple(_agreement(task, group) for task, group in groups.items() if len(group) > 1)


def spans(tasks: Sequence[TaskAgreement]) -> Iterator[AgreementSpan]:
    """Tasks of like agreement, from little to much; those without tasks are left out."""
    for number in range(SPANS):
        low, high = number / SPANS, (number + 1) / SPANS
        inside = [task for task in tasks if (low < task.agreement or number == 0) and task.agreement <= high]
        if inside:
            yield AgreementSpan(
                low=low,
                high=high,
                tasks=len(inside),
                agreement=fmean(task.agreement for task in inside),
                accuracy=mean([task.majority for task in inside]),
            )


def calibration_error(spans: Sequence[AgreementSpan]) -> float | None:
    """Expected calibration error (Naeini et al., 2015) of agreement as the chance that the majority is right."""
    tasks = sum(span.tasks for span in spans)
    if not tasks:
        return None
    return sum(span.tasks * abs(span.agreement - span.accuracy.value) for span in spans) / tasks


def separation(tasks: Sequence[TaskAgreement]) -> float | None:
    """Chance that a right majority has the higher agreement than a wrong one, ties half; None without one of each."""
    right = Counter(task.agreement for task in tasks if task.majority == 1)
    wrong = Counter(task.agreement for task in tasks if task.majority == 0)
    if not right or not wrong:
        return None
    won = sum(
        count * other * (1.0 if high > low else 0.5 if high == low else 0.0)
        for (high, count), (low, other) in product(right.items(), wrong.items())
    )
    return won / (right.total() * wrong.total())


def mean(values: Sequence[float]) -> Mean:
    """The mean of values of tasks with its interval."""
    low, high = of_mean(values).interval
    return Mean(value=fmean(values), samples=len(values), low=low, high=high)


def _agreement(task: str, rows: Sequence[ConfidenceRow]) -> TaskAgreement:
    answers = Counter(row.answer for row in rows if row.answer)
    most = max(answers.values(), default=0)
    return TaskAgreement(
        task=task,
        samples=len(rows),
        answered=answers.total(),
        distinct=len(answers),
        agreement=most / len(rows),
        majority=majority([(row.answer, row.correct or 0.0) for row in rows]),
        average=fmean(row.correct or 0.0 for row in rows),
    )
