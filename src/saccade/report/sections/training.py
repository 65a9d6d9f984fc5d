"""The curves of training runs: what they earned, how they answered, how the policy moved, where the time went."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from saccade.evals.rows import Known, Spent, spent
from saccade.report.plots import Axes, Figure, Series, curves, hue, stacks
from saccade.report.runs import VALIDATION, EvalRun, TrainingCurves, flat
from saccade.report.sections.view import Panel, Section, SectionRow, SectionTable, figures
from saccade.report.words import NONE, money

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


# What the runs are: who answered, how they were played, and in which settings they differ.

_PLACES = frozenset({"data", "sandbox", "threads"})
"""Settings that say where something lies."""
_MODELS = frozenset({"model", "judge", "model.source"})
"""Settings that may be paths of this machine, of which the page shows no more than tells them apart."""


def about(runs: Sequence[EvalRun], trainings: Sequence[TrainingCurves]) -> Section:
    """The section that says what is reported."""
    panels = []
    if runs:
        lines = tuple(_line(run, hue(place)) for place, run in enumerate(runs))
        heads = (
            "run",
            "tasks",
            "samples",
            "each task",
            "lost",
            "turns",
            "calls",
            "tokens read",
            "written",
            "cost",
            "model",
            "dialect",
        )
        own = {run.name: _settings(run) for run in runs}
        panels.append(Panel("Evaluations", (), (SectionTable("Runs", heads, lines, words=2), *differences(own))))
    if trainings:
        rows = tuple(_trained(run, hue(place)) for place, run in enumerate(trainings))
        training_heads = ("run", "steps", "held out: first", "best", "last", "begun with", "dialect", "tasks")
        settings = {run.name: run.settings for run in trainings}
        panels.append(
            Panel(
                "Training runs",
                (),
                (SectionTable("Training runs", training_heads, rows, words=3), *differences(settings)),
            )
        )
    return Section("runs", "Runs", tuple(panels))


def _line(run: EvalRun, own: str) -> SectionRow:
    rows = run.rows
    cells = (
        run.name,
        f"{len({row.task for row in rows}):,}",
        f"{len(rows):,}",
        f"{run.k:,}",
        f"{len(run.failures):,}",
        f"{sum(row.turns for row in rows) / len(rows):.1f}" if rows else NONE,
        f"{sum(row.calls for row in rows) / len(rows):.1f}" if rows else NONE,
        *_spent(spent(rows)),
        ", ".join(filter(None, run.models)) or NONE,
        ", ".join(dict.fromkeys(filter(None, run.dialects.values()))) or NONE,
    )
    return SectionRow(cells, own)


def _spent(totals: Spent) -> tuple[str, str, str]:
    """Tokens read and written and the cost, each with the number of samples that it is known of where it is not all."""

    def shown(known: Known, text: str) -> str:
        if not known.samples:
            return NONE
        return text if known.samples == totals.samples else f"{text} (of {known.samples:,})"

    return (
        shown(totals.read, f"{totals.read.amount:,.0f}"),
        shown(totals.written, f"{totals.written.amount:,.0f}"),
        shown(totals.dollars, money(totals.dollars.amount)),
    )


def _trained(run: TrainingCurves, own: str) -> SectionRow:
    held = [value for _, value in run.points.get("validation/accuracy", ())]
    settings = run.settings
    source = settings.get("model.source", NONE).strip('"')
    cells = (
        run.name,
        f"{run.steps:,}",
        *(f"{100 * value:.1f}%" for value in ((held[0], max(held), held[-1]) if held else ())),
        *((NONE,) * (0 if held else 3)),
        source.rsplit("/", 1)[-1] or NONE,  # no paths of the machine on a page that is sent on
        (settings.get("recipe.dialect") or settings.get("dialect") or NONE).strip('"'),
        _sources(settings) or NONE,
    )
    return SectionRow(cells, own)


def _sources(settings: Mapping[str, str]) -> str:
    """What a run was trained on, without the paths of the machine."""
    for name in ("tasks.source", "recipe.source"):
        try:
            held = json.loads(settings.get(name, "null"))
        except ValueError:
            continue
        listed = held if isinstance(held, list) else [held]
        named = [item.get("name") if isinstance(item, dict) else item for item in listed]
        if shown := [str(item).rstrip("/").rsplit("/", 1)[-1] for item in named if item]:
            return ", ".join(shown)
    return ""


def _settings(run: EvalRun) -> Mapping[str, str]:
    if run.settings is None:
        return {}
    settings = run.settings.model_copy(update={"model": run.settings.asked, "judge": run.settings.judge_name})
    return dict(flat(settings.model_dump(mode="json")))


def differences(runs: Mapping[str, Mapping[str, str]]) -> tuple[SectionTable, ...]:
    """The settings that are not the same in all runs, as a table; nothing for one run."""
    names = dict.fromkeys(name for settings in runs.values() for name in settings)
    lines = [
        SectionRow((name, *_shown(name, [settings.get(name, NONE) for settings in runs.values()])))
        for name in sorted(names)
        if name.split(".")[0] not in _PLACES and len({settings.get(name) for settings in runs.values()}) > 1
    ]
    heads = ("setting", *runs)
    return (SectionTable("Settings that differ", heads, tuple(lines), words=len(runs)),) if lines else ()


def _shown(name: str, values: Sequence[str]) -> Sequence[str]:
    """The values of a setting; of models the last parts of their paths, as many as tell them apart."""
    if name not in _MODELS:
        return values
    parts = [value.strip('"').split("/") for value in values]
    for length in range(1, max(map(len, parts)) + 1):
        short = ["/".join(part[-length:]) for part in parts]
        if len(set(short)) == len(set(values)):
            return short
    return values
