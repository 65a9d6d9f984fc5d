"""The curves of training runs: what they earned, how they answered, how the policy moved, where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saccade.report.plots.curves import Axes, Series, curves
from saccade.report.plots.figure import Figure
from saccade.report.plots.stacks import stacks
from saccade.report.runs.training_run import VALIDATION, TrainingCurves
from saccade.report.sections.view import Panel, Section, figures

_STEP = "step"
_READING = (
    "Marks are greedy answers to held-out tasks. From 60 steps on the thin line is what was logged, and the bold one "
    "its running mean over a twentieth of the steps."
)


@dataclass(frozen=True, slots=True)
class _Known:
    """A number that has a title and a unit."""

    title: str
    label: str
    percent: bool = False
    zero: bool = True


_REWARD = {
    "reward": _Known("Reward", "mean of all rollouts"),
}
_ANSWERS = {
    "accuracy": _Known("Accuracy", "right rollouts, or in supervised runs right tokens", percent=True),
    "tool_calls": _Known("Tool calls", "calls per rollout"),
    "turns": _Known("Turns", "turns per rollout"),
    "pictures": _Known("Pictures that came back", "pictures per rollout"),
    "response_length": _Known("Response length", "tokens written per rollout"),
}
_POLICY = {
    "entropy": _Known("Entropy", "nats per token"),
    "gradient_norm": _Known("Gradient norm", "before clipping"),
    "clip_fraction": _Known("Clip fraction", "clipped tokens", percent=True),
    "right_with_negative_advantage": _Known("Right, with negative advantage", "share of right rollouts", percent=True),
    "kl": _Known("Distance to the reference", "nats per token"),
    "loss": _Known("Loss", "loss", zero=False),
    "logprob_gap": _Known("Largest gap between sampling and training", "nats"),
    "learning_rate": _Known("Learning rate", "learning rate"),
}
_PER_RUN = ("broken/", "dropped/", "seconds/")
"""Beginnings of names of which one run has several in one figure."""


def training(runs: Sequence[TrainingCurves]) -> Section | None:
    """The section of the curves; None without training runs."""
    if not runs:
        return None
    names = list(dict.fromkeys(name for run in runs for name in run.points if not name.startswith(VALIDATION)))
    held = {name.removeprefix(VALIDATION) for run in runs for name in run.points if name.startswith(VALIDATION)}
    parts = {
        name: _Known(f"Reward part: {name.removeprefix('reward/')}", "mean of all rollouts")
        for name in names
        if name.startswith("reward/")
    }
    known = {**_REWARD, **parts, **_ANSWERS, **_POLICY}
    others = [
        name
        for name in [*names, *sorted(held)]
        if name not in known and not name.startswith(_PER_RUN) and _ever(name, runs)
    ]
    rest = {name: _Known(name.replace("_", " "), name, zero=False) for name in dict.fromkeys(others)}
    panels = [
        _panel("Reward", {**_REWARD, **parts}, runs),
        _panel("Answers", _ANSWERS, runs),
        _panel("Policy", _POLICY, runs),
        _split(runs),
        _panel("Everything else that was logged", rest, runs),
    ]
    shown = tuple(panel for panel in panels if panel.figures)
    return Section("training", "Training", (Panel("How to read the curves", (_READING,)), *shown))


def _ever(name: str, runs: Sequence[TrainingCurves]) -> bool:
    """Whether a number is ever another than zero."""
    return any(value for run in runs for known in (name, VALIDATION + name) for _, value in run.points.get(known, ()))


def _panel(title: str, known: dict[str, _Known], runs: Sequence[TrainingCurves]) -> Panel:
    return Panel(title, figures=figures(*(_curve(name, own, runs) for name, own in known.items())))


def _curve(name: str, known: _Known, runs: Sequence[TrainingCurves]) -> Figure | None:
    """The number over the steps, and what held-out tasks gave as marks, where they were asked for it."""
    series = []
    for place, run in enumerate(runs):
        if points := run.points.get(name):
            series.append(Series(run.name, tuple(points), 2 * place if len(runs) == 1 else place))
        if points := run.points.get(VALIDATION + name):
            number = 1 if len(runs) == 1 else place
            series.append(Series(f"{run.name}, held out", tuple(points), number, marks=True))
    says = f"{known.label.capitalize()}, by step."
    return curves(known.title, says, series, Axes(_STEP, known.label, percent=known.percent, zero=known.zero))


def _split(runs: Sequence[TrainingCurves]) -> Panel:
    """What is drawn for each run alone: time, broken kinds, reasons of dropped rollouts."""
    groups = []
    for run in runs:
        after = f": {run.name}" if len(runs) > 1 else ""
        seconds = _named(run, "seconds/")
        says = "Seconds of each step, by what they were spent on. Sandbox: waiting for it while nothing was decoded."
        groups.append(stacks(f"Time{after}", says, seconds, (_STEP, "seconds per step")))
        broken = _named(run, "broken/")
        lines = [Series(kind, tuple(points), place) for place, (kind, points) in enumerate(broken.items())]
        axes = Axes(_STEP, "share of rollouts", percent=True)
        groups.append(curves(f"Broken rollouts{after}", "What broke rollouts through their own doing.", lines, axes))
        dropped = _named(run, "dropped/")
        says = "Rollouts that a step did not train on, by the reason."
        groups.append(stacks(f"Rollouts left out{after}", says, dropped, (_STEP, "rollouts per step")))
    return Panel("Time and losses", figures=figures(*groups))


def _named(run: TrainingCurves, beginning: str) -> dict[str, list[tuple[float, float]]]:
    """The numbers with that beginning that are ever above zero, by the rest of their names."""
    return {
        name.removeprefix(beginning).replace("_", " "): points
        for name, points in run.points.items()
        if name.startswith(beginning) and any(value > 0 for _, value in points)
    }
