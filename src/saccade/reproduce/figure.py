"""The figure of a claim: how its arms were trained, and what its expectations came to. PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from saccade.reproduce.claim import Claim
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import ClaimVerdict, Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    _findings(below.subplots(), findings)
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
    """(step, mean over seeds and the last few steps)."""
    points = []
    for at in range(max(map(len, runs), default=0)):
        near = [item for run in runs for item in run[max(0, at - _SMOOTH + 1) : at + 1] if item is not None]
        if near:
            points.append((at + 1, fmean(near)))
    return points


def _findings(axes: Axes, findings: Sequence[Finding]) -> None:
    """Estimates with their intervals, and the threshold of each as a mark."""
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
