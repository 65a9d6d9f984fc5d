"""Answers that a rule and a judge graded: both numbers, which one is the headline, and how far they agree."""

from __future__ import annotations

from collections.abc import Mapping

from saccade.evals.summary import JudgeSummary
from saccade.evals.tables import headline_text
from saccade.report.sections.view import SectionRow, SectionTable, percent
from saccade.report.words import NONE

HEADS = ("by rule, %", "by judge, %", "headline")
"""Columns of a table of scores where one of its runs was judged."""
NOTE = (
    "A judge was asked beside the rule. Both numbers are over the answers on which it gave a verdict; the headline is "
    "the one that counts in every other figure."
)


def cells(summary: JudgeSummary | None) -> tuple[str, ...]:
    """What stands under `HEADS`; dashes for a run without a judge."""
    if summary is None:
        return (NONE,) * len(HEADS)
    return percent(summary.by_rule), percent(summary.by_judge), headline_text(summary)


def agreement(summaries: Mapping[str, JudgeSummary], colours: Mapping[str, str]) -> SectionTable:
    """How far rule and judge agree in each run that was judged, with the class of its colour."""
    heads = (
        "",
        "agree, %",
        "Cohen's kappa",
        "both right",
        "only rule",
        "only judge",
        "both wrong",
        "verdicts",
        "without one",
    )
    return SectionTable(
        "Rule and judge",
        heads,
        tuple(SectionRow((name, *_counts(judged)), colours[name]) for name, judged in summaries.items()),
        words=1,
    )


def _counts(summary: JudgeSummary) -> tuple[str, ...]:
    missing = ", ".join(f"{reason} {count:,}" for reason, count in summary.no_verdict.items())
    last = (f"{summary.samples:,}", missing or "0")
    agreed = summary.agreement
    if agreed is None:
        return (*(NONE,) * 6, *last)
    kappa = NONE if agreed.kappa is None else f"{agreed.kappa:.2f}".replace("-", "−")
    counts = (agreed.both, agreed.only_rule, agreed.only_judge, agreed.neither)
    return (percent(agreed.raw), kappa, *(f"{count:,}" for count in counts), *last)
