"""A run beside what published models made of the very same tasks, for benchmarks whose files tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from saccade.errors import SaccadeError
from saccade.evals.metrics import by_task
from saccade.evals.rows import Row
from saccade.evals.settings import EvalSettings
from saccade.tasks.benchmarks.benchmark import open_benchmark
from saccade.tasks.benchmarks.published import published_answers
from saccade.tasks.benchmarks.registry import load_card

OURS = "this run"


@dataclass(frozen=True, slots=True)
class Beside:
    """Tasks of one kind that this run and published models answered."""

    name: str
    """A tag, or the source for all of its tasks."""
    tasks: int
    shares: Mapping[str, float | None]
    """`this run` and the models -> share of right answers, from 0 to 1; None where a model's are not told of all."""


def beside(settings: EvalSettings, rows: Sequence[Row]) -> tuple[Beside, ...]:
    """For each benchmark of the run that tells what published models answered: all its graded tasks, and each tag.

    A benchmark whose files are not there any more has no part in it.
    """
    made: list[Beside] = []
    for name in settings.sources:
        with suppress(SaccadeError):  # a world, a file of tasks, or data that are gone
            card = load_card(name)
            if card.fields.published:
                answers = published_answers(open_benchmark(card, Path(settings.data) if settings.data else None))
                made += compared(card.id, [row for row in rows if row.source == card.id], answers)
    return tuple(made)


def compared(source: str, rows: Sequence[Row], answers: Mapping[str, Mapping[str, bool]]) -> list[Beside]:
    """The tasks of `rows` that have `answers`: all together, and by their tags."""
    ours = {result.task: result.average for result in by_task(rows) if answers.get(result.task)}
    if not ours:
        return []
    tags: dict[str, set[str]] = {}
    for row in rows:
        for tag in row.tags if row.task in ours else ():
            tags.setdefault(tag, set()).add(row.task)
    models = list(dict.fromkeys(model for task in ours for model in answers[task]))
    groups = {source: set(ours), **dict(sorted(tags.items()))}
    return [_group(name, sorted(tasks), ours, answers, models) for name, tasks in groups.items()]


def _group(
    name: str,
    tasks: Sequence[str],
    ours: Mapping[str, float],
    answers: Mapping[str, Mapping[str, bool]],
    models: Sequence[str],
) -> Beside:
    shares: dict[str, float | None] = {OURS: fmean(ours[task] for task in tasks)}
    for model in models:
        told = [answers[task][model] for task in tasks if model in answers[task]]
        shares[model] = fmean(told) if len(told) == len(tasks) else None
    return Beside(name, len(tasks), shares)
