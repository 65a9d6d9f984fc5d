"""The benchmark's report as a table for people and as JSON that holds every single value."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from saccade.bench.loop import LoopFigure
from saccade.bench.measure import FULL, Measurement, NotMeasured, Result
from saccade.bench.ours import Saccade
from saccade.bench.peer_jupyter import Jupyter
from saccade.bench.sandbox import Report, RowResult

SCHEMA = 1


def heading(report: Report) -> list[str]:
    """What stands above the table: machine, isolation, warnings."""
    machine = report.machine
    off = [state.layer.value for state in report.isolation.layers if not state.on]
    lines = [
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system}, "
        f"Python {machine.python}, load {machine.load:.2f}",
        f"isolation on: {', '.join(report.isolation.names) or 'none'}",
    ]
    if off:
        lines.append(f"isolation off: {', '.join(off)}")
    if machine.busy:
        lines.append(
            f"WARNING: the machine was busy (load {machine.load:.2f} on {machine.cores} cores); trust ratios only."
        )
    if report.scale != FULL:
        lines.append("A quick run: fewer repeats, smaller numbers of sessions; some targets are not judged.")
    return [*lines, *report.missing]


def table(report: Report) -> Table:
    """Medians of each kind of work by contender, and whether the targets were met."""
    shown = Table(title="saccade bench sandbox (medians, number of values in brackets)", title_justify="left")
    shown.add_column("work")
    shown.add_column("unit")
    for contender in report.contenders:
        shown.add_column(contender, justify="right")
    shown.add_column("ratio to jupyter", justify="right")
    shown.add_column("target", justify="right")
    shown.add_column("")
    for row in report.rows:
        cells = [_cell(row.results.get(contender)) for contender in report.contenders]
        target = row.row.target.text if row.row.target is not None else ""
        shown.add_row(
            f"{row.row.name}: {row.row.title_at(report.scale)}",
            row.row.unit,
            *cells,
            _ratio(row),
            target,
            _verdict(row, report),
        )
    return shown


def footing(report: Report) -> list[str]:
    """What stands below the table: the limits, and notes that do not fit into a cell."""
    lines = []
    if report.fork:
        lines.append(f"limit: fork + exit + wait with the zygote's modules: {statistics.median(report.fork):.1f} ms")
    if report.drawing and report.drawings_per_second is not None:
        lines.append(
            f"limit: drawing the crop alone, one plain process on each of {report.machine.cores} cores: "
            f"{statistics.median(report.drawing):.1f} ms, so at most {report.drawings_per_second:.1f} per second"
        )
    for row in report.rows:
        for contender, result in row.results.items():
            note = result.note if isinstance(result, Measurement) else result.reason
            if note and not (isinstance(result, NotMeasured) and len(note) <= 12):
                lines.append(f"{row.row.name}, {contender}: {note}")
    return lines


def as_json(report: Report) -> dict[str, object]:
    """Everything, with all single values."""
    return {
        "schema": SCHEMA,
        "machine": report.machine.as_dict(),
        "isolation": report.isolation.model_dump(mode="json"),
        "scale": asdict(report.scale),
        "limits": {
            "fork_ms": list(report.fork),
            "drawing_ms": list(report.drawing),
            "drawings_per_second": report.drawings_per_second,
        },
        "missing": list(report.missing),
        "rows": [_row_json(row, report) for row in report.rows],
    }


def _row_json(row: RowResult, report: Report) -> dict[str, object]:
    results: dict[str, object] = {}
    for contender, result in row.results.items():
        if isinstance(result, Measurement):
            results[contender] = {"median": result.median, "values": list(result.values), "note": result.note}
        else:
            results[contender] = {"not_measured": result.reason}
    return {
        "name": row.row.name,
        "title": row.row.title_at(report.scale),
        "unit": row.row.unit,
        "target": row.row.target.text if row.row.target is not None else None,
        "met": row.met(report.scale),
        "results": results,
    }


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    if isinstance(result, NotMeasured):
        return result.reason if len(result.reason) <= 12 else "failed"
    value = result.median
    text = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
    return f"{text} ({len(result.values)})"


def _ratio(row: RowResult) -> str:
    ours, jupyter = row.median(Saccade.name), row.median(Jupyter.name)
    if not ours or not jupyter:
        return ""
    better = ours / jupyter if row.row.higher_is_better else jupyter / ours
    return f"{better:.0f}×" if better >= 10 else f"{better:.1f}×"


def _verdict(row: RowResult, report: Report) -> str:
    met = row.met(report.scale)
    if row.row.target is None:
        return ""
    return "not judged" if met is None else "met" if met else "MISSED"


def loop_table(figures: Sequence[LoopFigure], title: str = "saccade bench loop") -> Table:
    """The figures of `saccade bench loop`, or of another benchmark of the same form."""
    shown = Table(title=title, title_justify="left")
    for column in ("what", "value", "beside", "that", "ratio", "target", ""):
        shown.add_column(column, justify="right" if column in ("value", "that", "ratio") else "left")
    for figure in figures:
        shown.add_row(
            figure.name,
            f"{figure.value:.3g} {figure.unit}",
            figure.beside,
            "" if figure.other is None else f"{figure.other:.3g}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.target,
            "" if not figure.target else "not judged" if figure.met is None else "met" if figure.met else "MISSED",
        )
    return shown
