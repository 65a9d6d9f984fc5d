"""Writes summaries and comparisons as text for a terminal, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from saccade.evals.compare import Comparison, Pair
from saccade.evals.metrics import macro_text
from saccade.evals.rows import spent_text
from saccade.evals.summary import Beside, Figures, JudgeSummary, Summary
from saccade.record.trajectory import STOPS, UNANSWERED, StopReason

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
