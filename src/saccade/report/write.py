"""Writes the report of runs: one page that reaches for nothing outside itself, and pages of its episodes.

Episodes are in the page too while they stay below a budget; beyond it they are in a folder next to it. What a run holds
is read twice, trajectory by trajectory: once for the figures, once for the pages.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from statistics import StatisticsError, correlation
from typing import Final

from markupsafe import Markup

from saccade.evals.api import Evaluation
from saccade.evals.rows import EvalRow, Known, Spent, natural, spent
from saccade.evals.summary import figures as figures_of
from saccade.report.episode_view import Verdict, episode_view
from saccade.report.page import Episodes, Gallery, Other, Written, folded, page_html, report_html, write_page
from saccade.report.picture_book import PictureBook, Sources
from saccade.report.plots import Axes, Figure, Series, clean, curves, hue, stacks
from saccade.report.runs import (
    FAILED_CALL,
    VALIDATION,
    EvalRun,
    Runs,
    TrainingCurves,
    findings_of,
    flat,
    last_parts,
    open_runs,
    own_findings,
    wires_of,
)
from saccade.report.sections.protocols import LABELS, NAMES, labels, protocols
from saccade.report.sections.results import comparison, differing, results, verdict
from saccade.report.sections.view import Panel, Section, SectionRow, SectionTable, between, figures, percent
from saccade.report.words import NONE, money, some

# Curves of training runs: rewards, answers, how the policy moved, where the time went.

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
_LIMITS = {
    "mfu": _Known("Arithmetic used by updates (MFU)", "share of the device's peak", percent=True),
    "bandwidth": _Known("Memory bandwidth used by decoding", "share of a copy's rate", percent=True),
}
_ADVANTAGES: Final = "advantage/"
_PER_RUN = ("broken/", "dropped/", "seconds/", _ADVANTAGES)
"""Beginnings of names of which one run has several in one figure."""


def training(runs: Sequence[TrainingCurves]) -> Section | None:
    """Return the section of the curves; None without training runs."""
    if not runs:
        return None
    names = list(dict.fromkeys(name for run in runs for name in run.points if not name.startswith(VALIDATION)))
    held = {name.removeprefix(VALIDATION) for run in runs for name in run.points if name.startswith(VALIDATION)}
    parts = {
        name: _Known(f"Reward part: {name.removeprefix('reward/')}", "mean of all rollouts")
        for name in names
        if name.startswith("reward/")
    }
    known = {**_REWARD, **parts, **_ANSWERS, **_POLICY, **_LIMITS}
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
        _together(runs),
        _split(runs),
        _panel("How near to the device's limits", _LIMITS, runs),
        _panel("Everything else that was logged", rest, runs),
    ]
    shown = tuple(panel for panel in panels if panel.figures or panel.sheets)
    return Section("training", "Training", (Panel("How to read the curves", (_READING,)), *shown))


def _ever(name: str, runs: Sequence[TrainingCurves]) -> bool:
    """Return whether a number is ever another than zero."""
    return any(value for run in runs for known in (name, VALIDATION + name) for _, value in run.points.get(known, ()))


def _panel(title: str, known: dict[str, _Known], runs: Sequence[TrainingCurves]) -> Panel:
    return Panel(title, figures=figures(*(_curve(name, own, runs) for name, own in known.items())))


def _curve(name: str, known: _Known, runs: Sequence[TrainingCurves]) -> Figure | None:
    """Return the number over the steps, and what held-out tasks gave as marks, where they were asked for it."""
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
    """Draw what belongs to one run: time, broken kinds, reasons of dropped rollouts."""
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
        spread = {name.removeprefix(_ADVANTAGES): at for name, at in run.points.items() if name.startswith(_ADVANTAGES)}
        lines = [Series(name, tuple(points), place) for place, (name, points) in enumerate(spread.items())]
        says = "Of the rollouts that a step trained on: standard deviation, and the values below which 10, 50, 90% are."
        groups.append(curves(f"Advantages{after}", says, lines, Axes(_STEP, "advantage")))
    return Panel("Time and losses", figures=figures(*groups))


_OUTCOMES = ("reward", "accuracy")
_EFFORT = ("tool_calls", "turns", "pictures", "response_length")
_LEAST_STEPS: Final = 3


def _together(runs: Sequence[TrainingCurves]) -> Panel:
    """Show how outcome and effort move together over the steps of each run: Pearson's correlation."""
    lines = []
    for place, run in enumerate(runs):
        for outcome in _OUTCOMES:
            cells = [_correlation(run.points.get(outcome, ()), run.points.get(name, ())) for name in _EFFORT]
            if any(cell != NONE for cell in cells):
                lines.append(SectionRow((f"{run.name}, {outcome}", *cells), hue(place)))
    heads = ("run, outcome", *(name.replace("_", " ") for name in _EFFORT))
    note = "Over the steps that have both numbers; a dash where one never changes. Two things that grow correlate."
    table = SectionTable("Pearson's correlation with", heads, tuple(lines))
    return Panel("What moves together", (note,), (table,)) if lines else Panel("")


def _correlation(left: Iterable[tuple[float, float]], right: Iterable[tuple[float, float]]) -> str:
    other = dict(right)
    pairs = [(value, other[step]) for step, value in left if isfinite(value) and isfinite(other.get(step, nan))]
    if len(pairs) < _LEAST_STEPS:
        return NONE
    try:
        return f"{correlation(*zip(*pairs, strict=True)):.2f}".replace("-", "−")
    except StatisticsError:  # one of them never changes
        return NONE


def _named(run: TrainingCurves, beginning: str) -> dict[str, list[tuple[float, float]]]:
    """Return the numbers with that beginning that are ever above zero, by the rest of their names."""
    return {
        name.removeprefix(beginning).replace("_", " "): points
        for name, points in run.points.items()
        if name.startswith(beginning) and any(value > 0 for _, value in points)
    }


# What the runs are: who answered, how they were played, and in which settings they differ.

_PLACES = frozenset({"data", "sandbox", "threads"})
"""Settings that say where something is."""
_MODELS = frozenset({"model", "judge", "model.source"})
"""Settings that may be paths of this machine, of which the page shows no more than tells them apart."""


def about(runs: Sequence[EvalRun], trainings: Sequence[TrainingCurves]) -> Section:
    """Return the section that says what is reported."""
    panels = []
    if runs:
        lines = tuple(_line(run, hue(place)) for place, run in enumerate(runs))
        heads = (
            "run",
            "right, %",
            "95% interval",
            "tasks",
            "samples",
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
        panels.append(Panel("Runs", (), (SectionTable("Runs", heads, lines, words=2), *differences(own))))
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
    rows, total = run.rows, figures_of(run.rows)
    cells = (
        run.name,
        percent(total.avg),
        between(total.interval),
        f"{len({row.task for row in rows}):,}",
        f"{len(rows):,}",
        f"{len(run.failures):,}",
        f"{sum(row.turns for row in rows) / len(rows):.1f}" if rows else NONE,
        f"{sum(row.calls for row in rows) / len(rows):.1f}" if rows else NONE,
        *_spent(spent(rows)),
        ", ".join(filter(None, run.models)) or NONE,
        ", ".join(dict.fromkeys(filter(None, run.dialects.values()))) or NONE,
    )
    return SectionRow(cells, own)


def _spent(totals: Spent) -> tuple[str, str, str]:
    """Return tokens read and written and the cost, each with the number of samples it is known of if not all."""

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
    """Return the data that a run was trained on, without the paths of the machine."""
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
    """Return the settings that are not the same in all runs, as a table; nothing for one run."""
    names = dict.fromkeys(name for settings in runs.values() for name in settings)
    lines = [
        SectionRow((name, *_shown(name, [settings.get(name, NONE) for settings in runs.values()])))
        for name in sorted(names)
        if name.split(".")[0] not in _PLACES and len({settings.get(name) for settings in runs.values()}) > 1
    ]
    heads = ("setting", *runs)
    title = "Settings that differ"
    return (SectionTable(title, heads, tuple(lines), words=len(runs), folded=True),) if lines else ()


def _shown(name: str, values: Sequence[str]) -> Sequence[str]:
    """Return the values of a setting; of models the last parts of their paths."""
    return last_parts([value.strip('"') for value in values]) if name in _MODELS else values


BUDGET: Final = 12_000_000
"""Bytes of the episodes in the page, about; beyond it they have pages of their own, and the report opens quickly."""
THUMBNAIL: Final = 200
"""Longest side of a picture in the gallery, in pixels."""
DIFFERS: Final = "runs differ"
"""Label of samples whose task runs solved to a different degree."""
_OTHERS = 24
"""Most links from one episode to others of its task."""

CountCallback = Callable[[int, int], None]
"""Hears how many episodes are written, and of how many."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One sample and the number of its page."""

    number: int
    run: EvalRun
    row: EvalRow


class _Order:
    """The samples of all runs by task, so that the runs' answers to one task are neighbours."""

    def __init__(self, runs: Sequence[EvalRun]) -> None:
        listed = [(natural(row.task), place, row.rollout, row) for place, run in enumerate(runs) for row in run.rows]
        listed.sort(key=lambda item: item[:3])
        self.places: dict[tuple[str, str], _Place] = {}
        self._of_task: dict[str, list[_Place]] = defaultdict(list)
        for number, (_, place, _, row) in enumerate(listed, 1):
            kept = _Place(number, runs[place], row)
            self.places[runs[place].name, row.id] = kept
            self._of_task[row.task].append(kept)

    def others(self, place: _Place) -> tuple[Other, ...]:
        """Return the other episodes of its task, the nearest ones."""
        near = self._of_task[place.row.task]
        start = max(0, min(near.index(place) - _OTHERS // 2, len(near) - _OTHERS - 1))
        return tuple(_other(one) for one in near[start : start + _OTHERS + 1] if one is not place)


def write_report(
    runs: Runs,
    target: Path,
    *,
    title: str = "",
    budget: int = BUDGET,
    watch: CountCallback = lambda done, total: None,
) -> Written:
    """Write the report of `runs` to the page `target`.

    Raises `RecordError`: a run's failures or findings cannot be read.
    """
    for run in runs.episodes:
        run.read()
    studied = {run.name: findings_of(run, NAMES) for run in runs.evals}
    own = {run.name: own_findings(run, NAMES) for run in runs.evals}
    for run in runs.evals:
        for sample, label in labels(studied[run.name]):
            run.labels[sample].add(label)
    apart = differing(runs.evals) if len(runs.evals) > 1 else frozenset()
    for run in runs.evals:
        for row in run.rows:
            if row.task in apart:
                run.labels[row.id].add(DIFFERS)
    found = (
        about(runs.evals, runs.trainings),
        comparison(runs.evals),
        results(runs.evals),
        protocols(studied, own),
        training(runs.trainings),
    )
    sections = tuple(section for section in found if section is not None)
    return _written(runs, sections, (target, title, budget), watch)


def _written(
    runs: Runs, sections: tuple[Section, ...], options: tuple[Path, str, int], watch: CountCallback
) -> Written:
    target, title, budget = options
    order = _Order(runs.episodes)
    episodes = Episodes(target, budget=budget)
    gallery = Gallery((DIFFERS, *LABELS, FAILED_CALL))
    thumbnails: dict[str, Sources] = {}
    for run in runs.episodes:
        thumbnails |= _add_episodes(run, order, (episodes, gallery), watch)
    for run in runs.evals:
        for failure in run.failures:
            gallery.add_lost(run, failure)
    hrefs = {place.number: episodes.href(f"e{place.number}") for place in order.places.values()}
    names = [run.name for run in runs.evals] + [run.name for run in runs.trainings]
    title = title or clean(" and ".join(names), 120)
    lead = " ".join(filter(None, [verdict(runs.evals), *map(_outcome, runs.trainings)]))
    body = report_html(title, lead, sections, (*_facts(runs), *episodes.notes), gallery.count > 0)
    bodies = (folded(episode.view.anchor, episode.body) for episode in episodes.together)
    problems = [problem for run in runs.episodes for problem in run.stored.problems]
    problems += [problem for run in runs.trainings for problem in run.problems]
    page = page_html(
        title,
        Markup("").join([body, *bodies]),
        thumbnails | episodes.sources,
        tuple(problems),
        gallery.data(hrefs),
    )
    write_page(target, page)
    return Written(target, episodes.count, episodes.folder if episodes.apart else None)


def _add_episodes(
    run: EvalRun, order: _Order, into: tuple[Episodes, Gallery], watch: CountCallback
) -> Mapping[str, Sources]:
    episodes, gallery = into
    book = PictureBook(run.stored.store)
    book.folder = episodes.folder.parent
    small = book.smaller(THUMBNAIL)
    for trajectory in run.trajectories():
        place = order.places.get((run.name, trajectory.id))
        if place is None:
            continue  # written since the figures were made
        book.new_page()
        wires = wires_of(run.stored.file.parent, trajectory.id, run.stored.problems)
        view = episode_view(f"e{place.number}", trajectory, book, wires=wires)
        episodes.add(view, book.sources, order.others(place))
        pictures = trajectory.task.media
        gallery.add(place.number, run, place.row, small.add(pictures[0].part) if pictures else None)
        watch(episodes.count, len(order.places))
    return small.sources


def _other(place: _Place) -> Other:
    correct = place.row.correct
    outcome = place.run.outcome(place.row)
    right = None if correct is None or 0 < correct < 1 else correct >= 1
    return Other(f"#e{place.number}", f"{place.run.name} #{place.row.rollout}", Verdict(outcome, right))


def _outcome(run: TrainingCurves) -> str:
    """Say in a sentence what a training run came to."""
    for name, what in ((f"{VALIDATION}accuracy", "held-out tasks"), ("accuracy", "its own rollouts")):
        if points := run.points.get(name):
            first, last = (percent(points[at][1]) for at in (0, -1))
            return (
                f"{run.name} was {first}% right on {what} at step {points[0][0]:g}, and {last}% at {points[-1][0]:g}."
            )
    return f"{run.name} was trained for {some(run.steps, 'step')}."


def _facts(runs: Runs) -> tuple[str, ...]:
    facts = []
    if runs.evals:
        samples = sum(len(run.rows) for run in runs.evals)
        facts.append(f"{some(len(runs.evals), 'evaluation')} with {some(samples, 'sample')}.")
    if runs.trainings:
        facts.append(f"{some(len(runs.trainings), 'training run')}.")
    return tuple(facts)


RunLike = str | os.PathLike[str] | Evaluation


def make_report(runs: RunLike | Sequence[RunLike], out: str | os.PathLike[str], *, title: str = "") -> Written:
    """Write the report of one or more runs, evaluations or training runs, to the page `out`.

    Raises `SettingsError`: one of them is no run; `RecordError`: a run's failures or findings cannot be read.
    """
    listed = [runs] if isinstance(runs, str | os.PathLike | Evaluation) else list(runs)
    paths = [run.path if isinstance(run, Evaluation) else Path(run) for run in listed]
    return write_report(open_runs(paths), Path(out), title=title)
