"""The outcome of a reproduction: verdict, findings, the numbers of every policy; as text, JSON, PNG and SVG."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from examples.reproduce.evidence import Claim, ClaimVerdict, Evidence, Expectation, Finding
from examples.reproduce.exam import ExamAnswer
from examples.reproduce.settings import TrialPlan
from saccade.core.disk import write_atomic
from saccade.evals.intervals import Interval, of_mean
from saccade.evals.summary import markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    """Return the start and every arm, by task set."""
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
    """Return what is expected, as it is said before anything is run."""
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
    """Return the tables and the verdict, in Markdown."""
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
    """Write `report.md` and `result.json`."""
    write_atomic(root / "report.md", report(outcome) + "\n")
    write_atomic(root / "result.json", json.dumps(asdict(outcome), indent=2) + "\n")


_SMOOTH = 5
"""Steps that a point of the thick line is the mean of."""
_COLOURS = ("#1f6feb", "#d4572a", "#2a9d5c", "#8a4fbf", "#b8860b", "#555555")
_VERDICTS = {ClaimVerdict.HOLDS: "#2a9d5c", ClaimVerdict.FAILS: "#c0392b", ClaimVerdict.OPEN: "#888888"}


def draw(claim: Claim, evidence: Evidence, findings: Sequence[Finding], verdict: ClaimVerdict, root: Path) -> None:
    """Write `figure.png` and `figure.svg` into `root`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = (3.4, 0.9 + 0.5 * len(findings))
    figure = Figure(figsize=(4.2 * max(3, len(claim.curves)), sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    # Two parts, so that the long labels below do not make the curves narrow.
    parts: Any = figure.subfigures(2, 1, height_ratios=heights)
    above, below = parts
    panels = above.subplots(1, len(claim.curves), squeeze=False)[0]
    for panel, (value, label) in zip(panels, claim.curves, strict=True):
        _curve(panel, evidence, value, label)
    _draw_findings(below.subplots(), findings)
    seeds = ", ".join(map(str, evidence.settings.seeds))
    above.suptitle(f"{claim.name}: {verdict.value}   (seeds {seeds})", fontsize=11)
    handles, labels = panels[0].get_legend_handles_labels()
    above.legend(handles, labels, loc="outside lower center", ncols=max(1, len(labels)), frameon=False, fontsize=9)
    for suffix in ("png", "svg"):
        figure.savefig(root / f"figure.{suffix}", dpi=130)


def _curve(axes: Axes, evidence: Evidence, value: str, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    for number, arm in enumerate(evidence.settings.arms):
        colour = _COLOURS[number % len(_COLOURS)]
        runs = [[step.get(value) for step in evidence.steps(arm, seed)] for seed in evidence.settings.seeds]
        for run in runs:
            known = [(at, item) for at, item in enumerate(run, 1) if item is not None]
            axes.plot([at for at, _ in known], [item for _, item in known], color=colour, alpha=0.25, linewidth=0.8)
        smooth = _smooth(runs)
        axes.plot([at for at, _ in smooth], [item for _, item in smooth], color=colour, label=arm.name)
    axes.set_title(label, fontsize=10)
    axes.set_xlabel("step", fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _smooth(runs: Sequence[Sequence[float | None]]) -> list[tuple[int, float]]:
    """Return (step, mean over seeds and the last few steps)."""
    points = []
    for at in range(max(map(len, runs), default=0)):
        near = [item for run in runs for item in run[max(0, at - _SMOOTH + 1) : at + 1] if item is not None]
        if near:
            points.append((at + 1, fmean(near)))
    return points


def _draw_findings(axes: Axes, findings: Sequence[Finding]) -> None:
    """Draw estimates with their intervals, and the threshold of each as a mark."""
    labels: list[str] = []
    for at, item in enumerate(reversed(findings)):
        expectation, colour = item.expectation, _VERDICTS[item.verdict]
        labels.append(f"{expectation.says}\n{item.verdict.value}")
        axes.plot(
            [expectation.threshold],
            [at],
            marker=">" if expectation.side == "above" else "<",
            color="black",
            markersize=6,
        )
        if item.estimate is None or item.interval is None:
            continue
        errors: Any = [[item.estimate - item.interval.low], [item.interval.high - item.estimate]]
        axes.errorbar([item.estimate], [at], xerr=errors, fmt="o", color=colour, capsize=3)
    axes.axvline(0.0, color="#bbbbbb", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.set_xlabel("difference with its 95% interval; black: the threshold, pointing to what is wanted", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
