"""What came out of a reproduction: the verdict, what led to it, the figures of every policy; as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from saccade.evals.intervals import Interval, of_mean
from saccade.evals.tables import markdown
from saccade.record.disk import write_atomic
from saccade.reproduce.claim import Claim
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.exam_answers import ExamAnswer
from saccade.reproduce.finding import ClaimVerdict, Expectation, Finding
from saccade.reproduce.plan import TrialPlan


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One policy on one task set."""

    policy: str
    seed: int | None
    """None for the start."""
    tasks: str
    """Name of the set."""
    n: int
    accuracy: float
    interval: Interval
    """Of the accuracy, 95%."""
    calls: float
    faithful: float
    """Share of right answers whose evidence was cut out."""


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """Everything that is reported."""

    claim: str
    says: str
    source: str
    verdict: ClaimVerdict
    findings: tuple[Finding, ...]
    rows: tuple[PolicyRow, ...]
    seeds: tuple[int, ...]
    plan: TrialPlan
    model: str
    weakened: bool
    """Whether all began from a model that was weakened first, or from the model as it is."""


def rows_of(evidence: Evidence) -> tuple[PolicyRow, ...]:
    """The start and every arm, by task set."""
    rows: dict[tuple[str, int | None, str], PolicyRow] = {}
    for arm in evidence.settings.arms:
        for row in _rows("start", None, tuple(evidence.start(arm).values())):
            rows.setdefault((row.policy, None, row.tasks), row)
    for arm in evidence.settings.arms:
        for seed in evidence.settings.seeds:
            for row in _rows(arm.name, seed, tuple(evidence.exam(arm, seed).values())):
                rows[arm.name, seed, row.tasks] = row
    return tuple(rows.values())


def _rows(policy: str, seed: int | None, answers: Sequence[ExamAnswer]) -> Iterator[PolicyRow]:
    for name in dict.fromkeys(item.set for item in answers):
        part = [item for item in answers if item.set == name]
        right = [item.right for item in part]
        yield PolicyRow(
            policy,
            seed,
            name,
            len(part),
            fmean(right),
            of_mean(right).interval,
            fmean(item.calls for item in part),
            fmean(item.faithful for item in part),
        )


def expected(claim: Claim, expectations: Sequence[Expectation]) -> str:
    """What is expected, as it is said before anything is run."""
    lines = [f"claim: {claim.says} ({claim.source})", ""]
    lines += [
        f"* {item.says}: {item.side} {item.threshold:g}, pairs are {item.pairs}"
        + ("" if item.decides else " (shown, decides nothing)")
        for item in expectations
    ]
    return "\n".join(
        [
            *lines,
            "",
            "An expectation holds if its 95% interval (bootstrap over pairs) and every seed's mean lie beyond the "
            "threshold, does not hold if none of them does, and is not decided otherwise.",
        ]
    )


def report(outcome: ClaimOutcome) -> str:
    """The tables and the verdict, in Markdown."""
    rows = [
        (
            row.policy,
            "–" if row.seed is None else str(row.seed),
            row.tasks,
            str(row.n),
            f"{100 * row.accuracy:.1f} ({100 * row.interval.low:.1f}–{100 * row.interval.high:.1f})",
            f"{row.calls:.2f}",
            f"{100 * row.faithful:.1f}",
        )
        for row in outcome.rows
    ]
    cut = "" if outcome.plan.steps == outcome.plan.asked else f" of {outcome.plan.asked}, as the time allowed"
    begun = "weakened" if outcome.weakened else "as it is"
    seeds = ", ".join(map(str, outcome.seeds))
    return "\n".join(
        [
            f"# {outcome.claim}: {outcome.verdict.value}",
            "",
            f"{outcome.says} ({outcome.source}).",
            "",
            f"Begun from `{outcome.model}`, {begun}; {outcome.plan.steps} steps{cut}; seeds {seeds}.",
            "",
            *markdown(("policy", "seed", "tasks", "n", "accuracy % (95%)", "calls", "faithful %"), rows),
            "",
            *markdown(("expected", "wanted", "measured", "95%", "pairs", "verdict"), map(_finding, outcome.findings)),
            "",
            *(
                f"* {item.expectation.name}: {item.missing.removesuffix('.')}."
                for item in outcome.findings
                if item.missing
            ),
        ]
    ).rstrip()


def _finding(item: Finding) -> tuple[str, ...]:
    expectation = item.expectation
    return (
        expectation.says,
        f"{expectation.side} {expectation.threshold:g}",
        "–" if item.estimate is None else f"{item.estimate:+.3f}",
        "–" if item.interval is None else f"{item.interval.low:+.3f} to {item.interval.high:+.3f}",
        str(item.pairs),
        item.verdict.value + ("" if expectation.decides else " (shown only)"),
    )


def write_outcome(outcome: ClaimOutcome, root: Path) -> None:
    """`report.md` and `result.json`."""
    write_atomic(root / "report.md", report(outcome) + "\n")
    write_atomic(root / "result.json", json.dumps(asdict(outcome), indent=2) + "\n")
