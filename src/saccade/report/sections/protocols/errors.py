"""Errors (VISTA's classes E1 to E6): how often each occurs, and what showed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from saccade.evals.protocols.errors.records import ErrorClass, Errors
from saccade.report.plots.bars import bars
from saccade.report.plots.figure import clean, hue
from saccade.report.sections.view import Panel, SectionRow, SectionTable, figures, rate
from saccade.report.words import NONE

ERRORS = tuple(f"{error} {error.words}" for error in ErrorClass)
"""Labels of episodes."""


def errors(by_run: Mapping[str, Errors]) -> Panel | None:
    """The panel; None without findings."""
    if not by_run:
        return None
    lines = [
        SectionRow(
            (
                f"{run}: {one.error} {one.title}" + (" (estimate)" if one.estimated else ""),
                rate(one.samples),
                rate(one.wrong),
                f"{one.steps:,}",
                f"{one.undecided:,}",
                ", ".join(f"{rule} {count:,}" for rule, count in one.rules) or NONE,
            ),
            hue(place),
        )
        for place, (run, findings) in enumerate(by_run.items())
        for one in findings.rates
    ]
    heads = ("class", "of samples, %", "of wrong ones, %", "errors", "undecided", "found by")
    notes = list(dict.fromkeys(method for findings in by_run.values() for method in findings.methods))
    notes += [
        f"{run}: {rate(one.any_error)}% of samples have an error that a rule found; {rate(one.format_failures)}% ended "
        "without an answer, which is none of the classes."
        for run, one in by_run.items()
    ]
    drawn = {
        run: {f"{one.error} {one.title}": one.samples.value for one in findings.rates if one.samples.value is not None}
        for run, findings in by_run.items()
    }
    says = "Share of samples with an error of each class. E4 and E6 are estimates, over the samples that were decided."
    return Panel(
        "Errors",
        tuple(notes),
        (SectionTable("Errors by class", heads, tuple(lines), words=1),),
        figures(bars("Errors by class", says, drawn, "share of samples", True)),
        tuple(
            f"{one.error} {example.id}, turn {step.turn}, {step.rule}: {clean(step.detail, 160)}"
            for findings in by_run.values()
            for one in findings.rates
            for example in one.examples[:3]
            for step in (example.step,)
        ),
    )


def error_labels(findings: Errors) -> Iterator[tuple[str, str]]:
    """Of each sample its id and a class of error that it has, each once."""
    for row in findings.rows:
        for error in sorted({step.error for step in row.errors}):
            yield row.id, f"{error} {error.words}"
