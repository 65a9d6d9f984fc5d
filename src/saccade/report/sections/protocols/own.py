"""The panels of protocols that are not ours: whatever they found, as plain tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from saccade.evals.protocols.plain import plain_grids, plain_lines
from saccade.report.plots.figure import hue
from saccade.report.runs.findings import Own
from saccade.report.sections.view import Panel, SectionRow, SectionTable
from saccade.report.words import NONE


def own_panels(found: Mapping[str, Mapping[str, Own]]) -> Iterator[Panel]:
    """A panel for each protocol of `found` (run -> protocol -> findings)."""
    for name in dict.fromkeys(name for own in found.values() for name in own):
        runs = {run: own[name] for run, own in found.items() if name in own}
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
