"""Confidence: agreement across samples, accuracy against the number of turns and a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from saccade.evals.protocols.confidence.records import Confidence, Curve
from saccade.report.plots.curves import Axes, Series, curves
from saccade.report.plots.figure import Figure, hue
from saccade.report.sections.view import Panel, SectionRow, SectionTable, figures, mean, percent, rate
from saccade.report.words import NONE

_BUDGETS = {"turns": "turns allowed", "calls": "calls allowed", "written": "written tokens allowed"}


def confidence(findings: Mapping[str, Confidence]) -> Panel | None:
    """The panel; None without findings."""
    if not findings:
        return None
    several = {run: one for run, one in findings.items() if one.agreement is not None}
    lines = tuple(_line(run, one, place) for place, (run, one) in enumerate(findings.items()) if run in several)
    notes = [
        "Within a budget a sample counts as right if it was, and had ended, within it; a model that knows its budget "
        "may do better.",
    ]
    if not several:
        notes.append("Every task has one sample: nothing can be said of agreement (sample more with --k).")
    budgets = [
        _curves(findings, f"Accuracy within a budget of {name}", label, partial(_within, name))
        for name, label in _BUDGETS.items()
    ]
    share = "majority right, %"
    sheets = (
        SectionTable("Agreement of the samples of a task", _HEADS, lines),
        SectionTable("Tasks by agreement", ("run: agreement", "tasks", share), _spans(several), folded=True),
        SectionTable("More samples", ("run: samples", "any right, %", share), _more(several), folded=True),
        SectionTable("Accuracy by turns and budgets", ("run", "samples", "right, %"), _points(findings), folded=True),
    )
    return Panel(
        "Confidence",
        tuple(notes),
        tuple(sheet for sheet in sheets if sheet.lines),
        figures(
            _reliability(several),
            _samples(several),
            _curves(findings, "Accuracy by turns taken", "turns", lambda one: one.by_turns),
            _curves(findings, "Accuracy by turns allowed", "limit of turns", lambda one: one.by_turn_limit),
            *budgets,
        ),
    )


_HEADS = (
    "run",
    "tasks",
    "agreement, %",
    "unanimous, %",
    "of them right, %",
    "calibration error",
    "separation (AUROC)",
)


def _line(run: str, one: Confidence, place: int) -> SectionRow:
    cells = (
        run,
        f"{len(one.tasks):,}",
        mean(one.agreement, share=True),
        rate(one.unanimous),
        rate(one.unanimous_right),
        NONE if one.calibration_error is None else f"{one.calibration_error:.3f}",
        NONE if one.separation is None else f"{one.separation:.3f}",
    )
    return SectionRow(cells, hue(place))


def _spans(several: Mapping[str, Confidence]) -> tuple[SectionRow, ...]:
    return tuple(
        SectionRow(
            (f"{run}: {span.low:.1f}–{span.high:.1f}", f"{span.tasks:,}", mean(span.accuracy, share=True)), hue(place)
        )
        for place, (run, one) in enumerate(several.items())
        for span in one.spans
    )


def _more(several: Mapping[str, Confidence]) -> tuple[SectionRow, ...]:
    return tuple(
        SectionRow((f"{run}: {point.samples}", percent(point.any_right), percent(point.majority)), hue(place))
        for place, (run, one) in enumerate(several.items())
        for point in one.with_samples
    )


def _points(findings: Mapping[str, Confidence]) -> tuple[SectionRow, ...]:
    named = [
        (place, f"{run}: {label}", curve)
        for place, (run, one) in enumerate(findings.items())
        for label, curve in (
            ("turns", one.by_turns),
            ("limit of turns", one.by_turn_limit),
            *((_BUDGETS[curve.name], curve) for curve in one.within),
        )
    ]
    return tuple(
        SectionRow((f"{name} {point.at:g}", f"{point.samples:,}", mean(point.accuracy, share=True)), hue(place))
        for place, name, curve in named
        for point in curve.points
    )


def _within(name: str, findings: Confidence) -> Curve:
    return next((curve for curve in findings.within if curve.name == name), Curve(name=name, points=()))


def _curves(
    findings: Mapping[str, Confidence], title: str, label: str, pick: Callable[[Confidence], Curve]
) -> Figure | None:
    series = []
    for place, (run, one) in enumerate(findings.items()):
        known = [(point.at, point.accuracy) for point in pick(one).points if point.accuracy is not None]
        ends = tuple((own.low, own.high) for _, own in known)
        if known:
            points = tuple((at, own.value) for at, own in known)
            series.append(Series(run, points, place, marks=len(points) <= 30, intervals=ends))
    if not any(len(one.points) > 1 for one in series):
        return None
    says = f"{title}, with 95% intervals."
    return curves(title, says, series, Axes(label, "right", percent=True, amounts_x=True))


def _reliability(findings: Mapping[str, Confidence]) -> Figure | None:
    series = [
        Series(
            run,
            tuple((span.agreement, span.accuracy.value) for span in one.spans if span.tasks),
            place,
            marks=True,
            intervals=tuple((span.accuracy.low, span.accuracy.high) for span in one.spans if span.tasks),
        )
        for place, (run, one) in enumerate(findings.items())
    ]
    says = "Of tasks of like agreement the mean agreement and the accuracy of the most frequent answer."
    axes = Axes("agreement", "majority right", percent=True, percent_x=True)
    return curves("Agreement and accuracy", says, series, axes)


def _samples(findings: Mapping[str, Confidence]) -> Figure | None:
    series = []
    for place, (run, one) in enumerate(findings.items()):
        if len(one.with_samples) > 1:
            points = one.with_samples
            series.append(Series(f"{run}, any right", tuple((p.samples, p.any_right) for p in points), 2 * place, True))
            series.append(
                Series(f"{run}, majority", tuple((p.samples, p.majority) for p in points), 2 * place + 1, True)
            )
    says = "Share of tasks with a right answer among so many samples, and credit of the most frequent answer."
    return curves("More samples", says, series, Axes("samples of each task", "right", percent=True))
