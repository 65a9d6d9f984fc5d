"""Sums up a run: its figures as a whole, for each source and for each tag, without times.

`results.jsonl` holds a line for each sample and `summary.json` the figures. Both depend on the samples only: a run
that was killed and continued writes the same bytes as one that was not.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean

from saccade.core.disk import write_atomic
from saccade.errors import SaccadeError
from saccade.evals.benchmarks import source_names
from saccade.evals.intervals import Agreement, Interval, agreement, of_mean
from saccade.evals.metrics import (
    CIRCULAR_NUMBER,
    Macro,
    by_task,
    card_numbers,
    card_tags,
    macro_average,
    mean_pass,
    whole_questions,
)
from saccade.evals.rows import EvalRow, Spent, natural, spent
from saccade.evals.settings import EvalSettings
from saccade.tasks.benchmarks.benchmark import open_benchmark
from saccade.tasks.benchmarks.registry import published_answers, recorded_card

RESULTS = "results.jsonl"
SUMMARY = "summary.json"
_NO_CATEGORY = ("choices-", "group=", "variant=")
"""Beginnings of tags that say how a task was prepared, or which one it is."""
_MOST_VALUES = 40
"""A tag `name=value` with more values than this tells tasks apart and not kinds."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of some tasks."""

    tasks: int
    """With at least one graded sample."""
    samples: int
    """Graded ones."""
    avg: float | None
    """avg@k: the mean over tasks of the mean over samples; None without tasks."""
    interval: Interval | None
    """Of `avg`, 95%."""
    interval_by: str
    """How it was made: `Wilson` or `bootstrap over tasks`; empty without tasks."""
    pass_at: Mapping[int, float]
    majority: float | None
    """majority@k; None where tasks have one sample each."""


@dataclass(frozen=True, slots=True)
class JudgeSummary:
    """A judge's verdicts and the rule's, over the samples that the judge was asked about."""

    headline: Mapping[str, int]
    """`rule` and `judge` -> samples in which that verdict is the one that counts."""

    samples: int
    """With a verdict."""
    no_verdict: Mapping[str, int]
    """Samples without one, by the reason; they are in none of the other figures."""
    by_rule: float | None
    """avg@k by the rule's verdicts only."""
    by_judge: float | None
    """avg@k by the judge's verdicts only."""
    agreement: Agreement | None
    """Whether both say right; partial credit of a rule is right from a half on. None without a sample of both."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All figures of a run."""

    k: int
    total: Figures
    sources: Mapping[str, Figures]
    tags: Mapping[str, Figures]
    """Kinds of tasks; empty where there is no more than one."""
    by: Mapping[str, Mapping[str, Figures]]
    """Source -> tag -> figures, by the tags that the source's card names (`metric.by`)."""
    card_numbers: Mapping[str, Mapping[str, float]]
    """Source -> name -> number, where a benchmark is known by another number than the mean over its tasks."""
    macro: Macro | None
    """The mean over the sources; None where there is one source."""
    ungraded: int
    """Samples whose task could not be graded."""
    missing: int
    """Samples that failed and are not there."""
    broken_rows: int
    """Rows of a benchmark that gave no task."""
    judged: JudgeSummary | None
    """What the judge said; None where none was asked."""
    stops: Mapping[str, int]
    graders: Mapping[str, int]
    turns: float | None
    """Mean over samples, as are the following ones."""
    calls: float | None
    sampled_tokens: float | None
    """Over the samples of which it is known; `spent` says how many."""
    spent: Spent


def summarise(rows: Sequence[EvalRow], *, k: int = 1, missing: int = 0, broken_rows: int = 0) -> Summary:
    """Sum up `rows`."""
    tokens = [row.sampled_tokens for row in rows if row.sampled_tokens is not None]
    by_source = _grouped((row.source, row) for row in rows)
    tags = by_category(rows)
    numbers = {name: card_numbers(name, group) for name, group in by_source.items()}
    sources = {name: figures(group, k) for name, group in by_source.items()}
    return Summary(
        k=k,
        total=figures(rows, k),
        sources=sources,
        tags={tag: figures(group, k) for tag, group in tags.items()} if len(tags) > 1 else {},
        by={name: found for name, group in by_source.items() if (found := _by_card(name, group, k))},
        card_numbers={name: values for name, values in numbers.items() if values},
        macro=macro_average({name: part.avg for name, part in sources.items()}, numbers, k),
        ungraded=sum(row.correct is None for row in rows),
        missing=missing,
        broken_rows=broken_rows,
        judged=judged(rows),
        stops=_counted(row.stop for row in rows),
        graders=_counted(row.grader for row in rows),
        turns=fmean(row.turns for row in rows) if rows else None,
        calls=fmean(row.calls for row in rows) if rows else None,
        sampled_tokens=fmean(tokens) if tokens else None,
        spent=spent(rows),
    )


def by_category(rows: Iterable[EvalRow]) -> dict[str, list[EvalRow]]:
    """Group rows by tags that name kinds of tasks, not single tasks or how they were prepared."""
    by_tag = _grouped((tag, row) for row in rows for tag in row.tags if not tag.startswith(_NO_CATEGORY))
    kinds = Counter(tag.partition("=")[0] for tag in by_tag if "=" in tag)
    return {tag: group for tag, group in by_tag.items() if kinds[tag.partition("=")[0]] <= _MOST_VALUES}


def _by_card(source: str, rows: Sequence[EvalRow], k: int) -> dict[str, Figures]:
    """Compute the figures of one source by the tags that its card names, of whole questions where it is circular."""
    wanted = tuple(f"{name}=" for name in card_tags(source))
    whole = whole_questions(rows)
    rows, more = (whole, f", {CIRCULAR_NUMBER}") if whole else (rows, "")
    groups = _grouped((tag, row) for row in rows for tag in row.tags if wanted and tag.startswith(wanted))
    return {f"{tag}{more}": figures(group, k) for tag, group in groups.items()} if len(groups) > 1 else {}


def figures(rows: Sequence[EvalRow], k: int = 1) -> Figures:
    """Compute the figures of `rows`."""
    results = by_task(rows)
    averages = [result.average for result in results]
    several = any(result.samples > 1 for result in results)
    interval, interval_by = of_mean(averages) if averages else (None, "")
    return Figures(
        tasks=len(results),
        samples=sum(result.samples for result in results),
        avg=fmean(averages) if averages else None,
        interval=interval,
        interval_by=interval_by,
        pass_at=mean_pass(results, k),
        majority=fmean(result.majority for result in results) if several else None,
    )


def judged(rows: Iterable[EvalRow]) -> JudgeSummary | None:
    """Sum up what a judge said of `rows`; None where none was asked."""
    asked_rows = [row for row in rows if row.by_judge is not None or row.no_verdict]
    if not asked_rows:
        return None
    judged_rows = [row for row in asked_rows if row.by_judge is not None]
    return JudgeSummary(
        headline=_counted(row.headline for row in asked_rows),
        samples=len(judged_rows),
        no_verdict=_counted(row.no_verdict for row in asked_rows if row.no_verdict),
        by_rule=_average(replace(row, correct=row.by_rule) for row in judged_rows),
        by_judge=_average(replace(row, correct=row.by_judge) for row in judged_rows),
        agreement=agreement((_right(row.by_rule), _right(row.by_judge)) for row in judged_rows),
    )


def _average(rows: Iterable[EvalRow]) -> float | None:
    averages = [result.average for result in by_task(rows)]
    return fmean(averages) if averages else None


def _right(credit: float | None) -> bool | None:
    return None if credit is None else credit >= 0.5


def write_summary(root: Path, rows: Iterable[EvalRow], summary: Summary) -> None:
    """Write both files into a run folder; each appears complete or not at all."""
    write_atomic(root / RESULTS, "".join(json.dumps(_cells(row), ensure_ascii=False) + "\n" for row in rows))
    write_atomic(root / SUMMARY, json.dumps(_plain(summary), ensure_ascii=False, indent=2) + "\n")


def _cells(row: EvalRow) -> Mapping[str, object]:
    return {field.name: getattr(row, field.name) for field in fields(row)}  # asdict copies every value


def _plain(summary: Summary) -> Mapping[str, object]:
    data = asdict(summary)
    by = (part for parts in data["by"].values() for part in parts.values())
    for part in (data["total"], *data["sources"].values(), *data["tags"].values(), *by):
        part["interval"] = None if part["interval"] is None else list(part["interval"])
    return data


def _grouped(named: Iterable[tuple[str, EvalRow]]) -> dict[str, list[EvalRow]]:
    groups: dict[str, list[EvalRow]] = defaultdict(list)
    for name, row in named:
        groups[name].append(row)
    return {name: groups[name] for name in sorted(groups, key=natural)}


def _counted(names: Iterable[str]) -> Mapping[str, int]:
    return dict(sorted(Counter(names).items()))


# Some benchmarks publish what models answered on each task; a run is compared with these.

OURS = "this run"


@dataclass(frozen=True, slots=True)
class Beside:
    """Shares of right answers on tasks of one kind, of this run and of published models."""

    name: str
    """A tag, or the source for all of its tasks."""
    tasks: int
    shares: Mapping[str, float | None]
    """`this run` and the models -> share of right answers, from 0 to 1; None where a model's are not known for all."""


Answers = Mapping[str, Mapping[str, bool]]
"""Task id -> model -> whether it was right."""


def published_beside(settings: EvalSettings) -> dict[str, Answers]:
    """Return what published models answered, by card id, for the benchmarks of the run that publish it.

    Benchmarks whose files are gone are left out.
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
    """Compare this run with `answers` on the graded tasks of `source`: all together, and by category."""
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
