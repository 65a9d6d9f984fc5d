"""What the runs are: who answered, how they were played, and in which settings they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from saccade.evals.spent import Known, Spent, spent
from saccade.report.plots.figure import hue
from saccade.report.runs.eval_run import EvalRun
from saccade.report.runs.training_run import TrainingCurves, flat
from saccade.report.sections.view import Panel, Section, SectionRow, SectionTable
from saccade.report.words import NONE, money

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
