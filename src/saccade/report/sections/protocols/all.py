"""The panels of all protocols, and the labels by which they let episodes be looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from saccade.evals.protocols.errors.records import Errors
from saccade.evals.protocols.faithfulness.records import Faithfulness
from saccade.evals.protocols.findings import Findings
from saccade.evals.protocols.plain import plain_data, plain_grids, plain_lines
from saccade.report.plots.figure import hue
from saccade.report.runs.findings import Own
from saccade.report.sections.protocols.confidence import confidence
from saccade.report.sections.protocols.errors import ERRORS, error_labels, errors
from saccade.report.sections.protocols.faithfulness import TOOL_USE, faithfulness, outcome_of
from saccade.report.sections.protocols.tokens import tokens
from saccade.report.sections.protocols.tool_use import tool_use
from saccade.report.sections.view import Panel, Section, SectionRow, SectionTable, panel_text
from saccade.report.words import NONE

_PANELS: Mapping[str, Callable[[Mapping[str, Any]], Panel | None]] = {
    "faithfulness": faithfulness,
    "tool_use": tool_use,
    "errors": errors,
    "tokens": tokens,
    "confidence": confidence,
}
LABELS = (*TOOL_USE.values(), *ERRORS)
"""Labels in the order in which they are offered first."""
NAMES = tuple(_PANELS)
"""The protocols that a report shows."""


def protocols(by_run: Mapping[str, Mapping[str, Findings]], own: Mapping[str, Mapping[str, Own]]) -> Section | None:
    """The section of the findings (run -> protocol -> findings); `own` are those of others. None if there are none."""
    panels = []
    for name, make in _PANELS.items():
        panel = make({run: findings[name] for run, findings in by_run.items() if name in findings})
        if panel is not None:
            panels.append(panel)
    panels += own_panels(own)
    return Section("protocols", "Looking and reasoning", tuple(panels)) if panels else None


def findings_text(findings: Findings) -> str:
    """Write what a protocol found in one run for a terminal, in Markdown: the tables and notes of its panel."""
    run, name = findings.about.run, getattr(findings, "protocol", "")
    panel = _PANELS[name]({run: findings}) if name in _PANELS else None
    if panel is None:
        [panel] = own_panels({run: {"": Own("", plain_data(findings))}})
    lost = f"\n{findings.about.lost} samples were lost and are left out." if findings.about.lost else ""
    return panel_text(panel).rstrip() + lost


def labels(findings: Mapping[str, Findings]) -> Iterator[tuple[str, str]]:
    """The ids of samples, each with a label that a protocol gives it."""
    if isinstance(one := findings.get("faithfulness"), Faithfulness):
        yield from outcome_of(one)
    if isinstance(two := findings.get("errors"), Errors):
        yield from error_labels(two)


def own_panels(findings: Mapping[str, Mapping[str, Own]]) -> Iterator[Panel]:
    """A panel for each protocol of `findings` (run -> protocol -> findings)."""
    for name in dict.fromkeys(name for own in findings.values() for name in own):
        runs = {run: own[name] for run, own in findings.items() if name in own}
        yield Panel(next(iter(runs.values())).title, (), (_values(runs), *_tables(runs)))


def _values(runs: Mapping[str, Own]) -> SectionTable:
    columns = {run: plain_lines(own.data) for run, own in runs.items()}
    names = dict.fromkeys(name for column in columns.values() for name in column)
    lines = tuple(SectionRow((name, *(column.get(name, NONE) for column in columns.values()))) for name in names)
    return SectionTable("Values", ("", *columns), lines)


def _tables(runs: Mapping[str, Own]) -> Iterator[SectionTable]:
    for place, (run, own) in enumerate(runs.items()):
        for grid in plain_grids(own.data):
            lines = tuple(SectionRow(row, hue(place)) for row in grid.rows)
            yield SectionTable(f"{run}: {grid.title}", grid.heads, lines, words=len(grid.heads) - 1)
