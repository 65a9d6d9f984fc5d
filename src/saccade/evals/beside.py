"""A run beside what published models made of the very same tasks, for benchmarks whose files tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from saccade.errors import SaccadeError
from saccade.evals.benchmarks import source_names
from saccade.evals.metrics import by_task
from saccade.evals.rows import EvalRow
from saccade.evals.settings import EvalSettings
from saccade.evals.summary import by_category
from saccade.tasks.benchmarks.benchmark import open_benchmark
from saccade.tasks.benchmarks.published import published_answers
from saccade.tasks.benchmarks.registry import recorded_card

OURS = "this run"


@dataclass(frozen=True, slots=True)
class Beside:
    """Tasks of one kind that this run and published models answered."""

    name: str
    """A tag, or the source for all of its tasks."""
    tasks: int
    shares: Mapping[str, float | None]
    """`this run` and the models -> share of right answers, from 0 to 1; None where a model's are not known for all."""


Answers = Mapping[str, Mapping[str, bool]]
"""Task id -> model -> whether it was right."""


def published_beside(settings: EvalSettings) -> dict[str, Answers]:
    """For each benchmark of the run that tells it, by the card's id: what published models answered.

    A benchmark whose files are not there any more has no part in it.
    """
    published: dict[str, Answers] = {}
    for name in source_names(settings):
        with suppress(SaccadeError):  # a world, a file of tasks, or data that are gone
            card = recorded_card(name)
            if card.fields.published:
                data = Path(settings.data) if settings.data else None
                published[card.id] = published_answers(open_benchmark(card, data))
    return published


def compared(source: str, rows: Iterable[EvalRow], answers: Answers) -> list[Beside]:
    """The graded tasks of `source` that have `answers`: all together, and by their categories."""
    graded = [row for row in rows if row.source == source and row.correct is not None and answers.get(row.task)]
    if not graded:
        return []
    return [_group(name, group, answers) for name, group in {source: graded, **by_category(graded)}.items()]


def _group(name: str, rows: Sequence[EvalRow], answers: Answers) -> Beside:
    ours = {result.task: result.average for result in by_task(rows)}
    shares: dict[str, float | None] = {OURS: fmean(ours.values())}
    for model in dict.fromkeys(model for task in ours for model in answers[task]):
        right = [answers[task][model] for task in ours if model in answers[task]]
        shares[model] = fmean(right) if len(right) == len(ours) else None
    return Beside(name, len(ours), shares)
