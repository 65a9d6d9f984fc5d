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
    Comparison,
    Macro,
    Pair,
    by_task,
    card_numbers,
    card_tags,
    macro_average,
    macro_text,
    mean_pass,
    whole_questions,
)
from saccade.evals.rows import EvalRow, Spent, natural, spent, spent_text
from saccade.evals.settings import EvalSettings
from saccade.record.trajectory import STOPS, UNANSWERED, StopReason
from saccade.tasks.benchmarks.registry import open_benchmark, published_answers, recorded_card

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


# Writes summaries and comparisons as text for a terminal, in Markdown.


_SHOWN = 20
"""Differing tasks that are listed."""


def summary_text(summary: Summary) -> str:
    """Write the figures of a run."""
    parts: list[tuple[str, Figures]] = list(summary.sources.items()) if len(summary.sources) > 1 else []
    parts += list(summary.tags.items())
    parts += [
        (tag if len(summary.sources) == 1 else f"{source}: {tag}", found)
        for source, by in summary.by.items()
        for tag, found in by.items()
        if len(summary.sources) > 1 or tag not in summary.tags
    ]
    label = next(iter(summary.sources), "all") if len(summary.sources) == 1 else "all"
    shown = [(label or "all", summary.total), *parts]
    lines = [*_figures(shown, summary.k), "", *_methods(shown)]
    for source, numbers in summary.card_numbers.items():
        lines += [f"{source}, {name}: {_percent(value)}" for name, value in numbers.items()]
    lines += macro_text(summary.macro)
    lines.append("stops: " + ", ".join(f"{name} {count}" for name, count in summary.stops.items()))
    if summary.turns is not None and summary.calls is not None:
        tokens = "" if summary.sampled_tokens is None else f", {summary.sampled_tokens:.0f} tokens written"
        known = summary.spent.written.samples
        tokens += f" (mean of {known:,} samples)" if tokens and known < summary.spent.samples else ""
        lines.append(f"per sample: {summary.turns:.1f} turns, {summary.calls:.1f} calls{tokens}")
    if full := summary.stops.get(StopReason.CONTEXT_LIMIT, 0):
        lines.append(f"{full} samples filled the model's context; they count as samples without an answer.")
        if full == summary.total.samples and not summary.turns:
            lines.append(
                "No sample had a turn: question and pictures alone do not fit. Show smaller pictures "
                "(media.shown_pixels), or serve the model with a longer context."
            )
    for stop in UNANSWERED:
        if count := summary.stops.get(stop, 0):
            lines.append(f"{count} of the samples: {STOPS[stop].words} They count as samples without an answer.")
    lines += spent_text(summary.spent)
    lines += _judged(summary.judged)
    if summary.ungraded:
        lines.append(f"{summary.ungraded} samples could not be graded and are in no average; results.jsonl says why.")
    if summary.broken_rows:
        lines.append(f"{summary.broken_rows} rows of the data gave no task (failures.jsonl says why).")
    if summary.missing:
        lines.append(
            f"{summary.missing} samples failed and are in no average (failures.jsonl says why); "
            "the same command tries them again."
        )
    return "\n".join(lines)


def _judged(judged: JudgeSummary | None) -> list[str]:
    if judged is None:
        return []
    missing = sum(judged.no_verdict.values())
    reasons = ", ".join(f"{name} {count}" for name, count in judged.no_verdict.items())
    lines = [
        f"judge: {judged.samples} verdicts" + (f", {missing} answers without one ({reasons})" if missing else ""),
    ]
    if judged.by_judge is not None:
        lines.append(
            f"on these the rule says {_percent(judged.by_rule)}, the judge {_percent(judged.by_judge)}; "
            f"the headline is by the {headline_text(judged)}"
        )
    agreement = judged.agreement
    if agreement is not None:
        kappa = "–" if agreement.kappa is None else f"{agreement.kappa:.2f}"
        lines.append(
            f"they agree on {_percent(agreement.raw)}, kappa {kappa}: both right {agreement.both}, only the rule "
            f"{agreement.only_rule}, only the judge {agreement.only_judge}, both wrong {agreement.neither}"
        )
    return lines


def headline_text(judged: JudgeSummary) -> str:
    """Say whose verdict counts: `rule`, `judge`, or both with their numbers of samples."""
    if len(judged.headline) == 1:
        return next(iter(judged.headline))
    return " and ".join(f"{name} ({count:,})" for name, count in judged.headline.items())


def beside_text(groups: Sequence[Beside]) -> str:
    """Write a run next to published models, in percent; a model that is known only for some groups has gaps."""
    models = list(dict.fromkeys(model for group in groups for model in group.shares))
    rows = [
        [group.name, str(group.tasks), *(_percent(group.shares.get(model)) for model in models)] for group in groups
    ]
    return "\n".join(["right on the same tasks, as their files say:", "", *markdown(("tasks of", "n", *models), rows)])


def comparison_text(comparison: Comparison, left: str, right: str) -> str:
    """Write the outcome of a comparison."""
    sides = (sum(pair.left for pair in comparison.pairs), sum(pair.right for pair in comparison.pairs))
    count = len(comparison.pairs)
    lines = [
        f"{left} less {right}: difference {100 * comparison.difference:+.1f} points, 95% interval "
        f"{100 * comparison.interval.low:+.1f} to {100 * comparison.interval.high:+.1f} ({comparison.interval_by})",
        f"{comparison.test}: p = {comparison.p:.3g}",
        "",
        *markdown(
            ("run", "avg", "better in", "only here"),
            [
                (left, _percent(sides[0] / count), str(comparison.wins), str(comparison.only_left)),
                (right, _percent(sides[1] / count), str(comparison.losses), str(comparison.only_right)),
            ],
        ),
        "",
        f"{count} tasks in both: {comparison.ties} the same ({comparison.both_right} right in both), "
        f"{comparison.wins} better in the first, {comparison.losses} in the second",
    ]
    differing = comparison.differing
    if differing:
        lines += [
            "",
            *markdown(
                ("task", "first", "second"),
                [(pair.task, f"{pair.left:.2f}", f"{pair.right:.2f}") for pair in _ends(differing)],
            ),
        ]
        if len(differing) > _SHOWN:
            lines.append(f"({len(differing)} differ; --json lists all)")
    return "\n".join(lines)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table with padded columns, the first aligned left, the others right."""
    cells = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [_line(row, widths) for row in cells]
    rule = "|".join(["", "-" * (widths[0] + 2), *(f"{'-' * (width + 1)}:" for width in widths[1:]), ""])
    return [lines[0], rule, *lines[1:]]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        text.ljust(width) if column == 0 else text.rjust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    )
    return "| " + " | ".join([first, *rest]) + " |"


def _figures(parts: Sequence[tuple[str, Figures]], k: int) -> list[str]:
    total = parts[0][1]
    passes = [count for count in total.pass_at if count > 1]
    head = ["tasks of", "tasks", "samples", f"avg@{k}", "95%", *(f"pass@{count}" for count in passes)]
    head += [f"maj@{k}"] if total.majority is not None else []
    rows = []
    for name, figures in parts:
        interval = figures.interval
        row = [name, str(figures.tasks), str(figures.samples), _percent(figures.avg)]
        row.append("–" if interval is None else f"{100 * interval.low:.1f}–{100 * interval.high:.1f}")
        row += [_percent(figures.pass_at.get(count)) for count in passes]
        row += [_percent(figures.majority)] if total.majority is not None else []
        rows.append(row)
    return markdown(head, rows)


def _methods(parts: Sequence[tuple[str, Figures]]) -> list[str]:
    """Say how the intervals were made, where there are any."""
    used = list(dict.fromkeys(figures.interval_by for _, figures in parts if figures.interval_by))
    return [f"95% intervals: {' or '.join(used)}"] if used else []


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _ends(differing: Sequence[Pair]) -> Sequence[Pair]:
    return differing if len(differing) <= _SHOWN else [*differing[: _SHOWN // 2], *differing[-_SHOWN // 2 :]]
