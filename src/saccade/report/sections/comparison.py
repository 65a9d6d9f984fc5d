"""Runs against each other, task by task: the first one against each of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from saccade.errors import SettingsError
from saccade.evals.compare import Comparison, compare
from saccade.report.runs.eval_run import EvalRun
from saccade.report.sections.results import title_of
from saccade.report.sections.view import Panel, Section, SectionRow, SectionTable
from saccade.report.words import some

_HEADS = ("", "tasks", "difference", "95% interval", "p", "first better", "second better", "the same")


def comparison(runs: Sequence[EvalRun]) -> Section | None:
    """The section that compares runs; None for fewer than two."""
    if len(runs) < 2:
        return None
    panels = [_pair(runs[0], other) for other in runs[1:]]
    return Section("comparison", "Comparison", tuple(panels))


def differing(runs: Sequence[EvalRun]) -> frozenset[str]:
    """Tasks that runs solved to a different degree, of those that several runs graded."""
    by_task: dict[str, set[float]] = {}
    for run in runs:
        credits: dict[str, list[float]] = {}
        for row in run.rows:
            if row.correct is not None:
                credits.setdefault(row.task, []).append(row.correct)
        for task, values in credits.items():
            by_task.setdefault(task, set()).add(sum(values) / len(values))
    return frozenset(task for task, values in by_task.items() if len(values) > 1)


def _pair(left: EvalRun, right: EvalRun) -> Panel:
    title = f"{left.name} against {right.name}"
    try:
        overall = compare(left.rows, right.rows, seed=left.seed)
    except SettingsError as error:
        return Panel(title, (str(error),))
    parts = {"all": overall, **dict(_by_source(left, right))}
    compared = parts.values()
    lines = [_line(name, found) for name, found in parts.items()]
    alone = [
        f"{some(count, 'task')} only in {run.name}"
        for count, run in ((overall.only_left, left), (overall.only_right, right))
        if count
    ]
    notes = [
        f"Percent right of {left.name} less that of {right.name}, over the tasks that both runs graded; positive: "
        f"{left.name} is better. A task is better in the run with the larger mean over its samples."
    ]
    tests, intervals = _kinds(found.test for found in compared), _kinds(found.interval_by for found in compared)
    notes.append(f"p by {tests}, two-sided; intervals by {intervals}.")
    notes += [f"Not compared: {' and '.join(alone)}."] if alone else []
    return Panel(title, tuple(notes), (SectionTable(title, _HEADS, tuple(lines)),))


def _kinds(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))


def _by_source(left: EvalRun, right: EvalRun) -> Iterator[tuple[str, Comparison]]:
    sources = dict.fromkeys(row.source for row in left.rows)
    for source in sources if len(sources) > 1 else ():
        ours = [row for row in left.rows if row.source == source]
        theirs = [row for row in right.rows if row.source == source]
        try:
            difference = compare(ours, theirs, seed=left.seed)
        except SettingsError:
            continue  # this benchmark is in one of them alone
        yield title_of(source), difference


def _line(name: str, comparison: Comparison) -> SectionRow:
    cells = (
        name,
        f"{len(comparison.pairs):,}",
        f"{100 * comparison.difference:+.1f}",
        f"{100 * comparison.interval.low:+.1f} to {100 * comparison.interval.high:+.1f}",
        f"{comparison.p:.3g}",
        f"{comparison.wins:,}",
        f"{comparison.losses:,}",
        f"{comparison.ties:,}",
    )
    return SectionRow(tuple(cell.replace("-", "−") if cell[:1] in "+-" else cell for cell in cells))
