"""Tool use: what calls did (PyVision's taxonomy), and accuracy by the number of calls (CodeV, figure 8)."""

from __future__ import annotations

from collections.abc import Mapping

from saccade.evals.protocols.tool_use.records import ToolUse, Use
from saccade.report.plots.bars import bars
from saccade.report.plots.figure import hue
from saccade.report.sections.results import title_of
from saccade.report.sections.view import Panel, SectionRow, SectionTable, figures, mean, rate
from saccade.report.words import NONE


def tool_use(findings: Mapping[str, ToolUse]) -> Panel | None:
    """The panel; None without findings."""
    if not findings:
        return None
    named = {run: (place, one.total) for place, (run, one) in enumerate(findings.items())}
    for place, (run, one) in enumerate(findings.items()):
        if len(one.sources) > 1:
            named |= {_name(run, source): (place, use) for source, use in one.sources.items()}
    operations = {run: _operations(one.total) for run, one in findings.items()}
    labels = {run: shares for run, one in findings.items() if (shares := _labels(one.total))}
    buckets = {run: _buckets(one.total) for run, one in findings.items()}
    calls = {run: {str(n): float(c) for n, c in sorted(one.total.histogram.items())} for run, one in findings.items()}
    done = "Share of the calls that ended well which do this; a call may do several things."
    one_each = "Share of the calls that ended well which have this as their one label; these shares add up to 1."
    right = "Accuracy of the samples with so many calls."
    often = "Samples by their number of calls."
    return Panel(
        "Tool use",
        sheets=(
            SectionTable("Calls", _CALLS, tuple(_line(name, *use) for name, use in named.items())),
            SectionTable("By number of calls", _BUCKETS, _bucket_lines(named), folded=True),
            *_operation_sheet(findings),
        ),
        figures=figures(
            bars("What calls did", done, operations, "share of calls", True),
            bars("What calls did, one label a call", one_each, labels, "share of calls", True),
            bars("Accuracy by calls", right, buckets, "right", True),
            bars("Calls per sample", often, calls, "samples", False),
        ),
    )


_CALLS = ("run", "samples", "calls", "per sample", "failed", "most often")
_BUCKETS = ("run and calls", "of samples, %", "right in the bucket, %", "of all graded: right and here, %")


def _line(name: str, place: int, use: Use) -> SectionRow:
    most = sorted(use.operations, key=lambda one: -one.calls.count)[:3]
    cells = (
        name,
        f"{use.samples:,}",
        f"{use.calls:,}",
        NONE if use.calls_per_sample is None else f"{use.calls_per_sample:.2f}",
        f"{use.failed:,}",
        ", ".join(one.operation.value.replace("_", " ") for one in most) or NONE,
    )
    return SectionRow(cells, hue(place))


def _operations(use: Use) -> dict[str, float]:
    return {
        one.operation.value.replace("_", " "): one.calls.value for one in use.operations if one.calls.value is not None
    }


def _labels(use: Use) -> dict[str, float]:
    """Empty for findings that were made before there was one label a call."""
    return {
        one.operation.value.replace("_", " "): one.labels.value
        for one in use.operations
        if one.labels is not None and one.labels.value
    }


def _buckets(use: Use) -> dict[str, float]:
    return {one.label: one.accuracy.value for one in use.buckets if one.accuracy is not None}


def _bucket_lines(named: Mapping[str, tuple[int, Use]]) -> tuple[SectionRow, ...]:
    return tuple(
        SectionRow(
            (f"{name}: {one.label}", rate(one.samples), mean(one.accuracy, share=True), rate(one.correct)),
            hue(place),
        )
        for name, (place, use) in named.items()
        for one in use.buckets
    )


def _operation_sheet(findings: Mapping[str, ToolUse]) -> tuple[SectionTable, ...]:
    """Return what calls did in each run, on each benchmark where there are several, and by one label a call."""
    columns: dict[str, dict[str, float]] = {}
    for run, one in findings.items():
        columns[run] = _operations(one.total)
        if len(one.sources) > 1:
            columns |= {_name(run, source): _operations(use) for source, use in one.sources.items()}
        if labels := _labels(one.total):
            columns[f"{run}, one label a call"] = labels
    names = dict.fromkeys(name for column in columns.values() for name in column)
    lines = [
        SectionRow((name, *(f"{100 * column[name]:.1f}" if name in column else NONE for column in columns.values())))
        for name in names
    ]
    title = "What calls did, percent of calls"
    return (SectionTable(title, ("operation", *columns), tuple(lines), folded=True),) if lines else ()


def _name(run: str, source: str) -> str:
    return f"{run}, {title_of(source)}"
