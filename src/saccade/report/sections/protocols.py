"""The panels of all protocols, and the labels by which they let episodes be looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from statistics import fmean
from typing import Any, TypeVar

from saccade.evals.metrics import paired_test
from saccade.evals.protocols.base import Findings, Mean, Rate, plain_data, plain_grids, plain_lines
from saccade.evals.protocols.confidence import Confidence, Curve, TokenEconomy, TokenPoint
from saccade.evals.protocols.errors import ErrorClass, ErrorRow, Errors
from saccade.evals.protocols.faithfulness import Faithfulness, JudgeAgreement, JudgeFindings, ToolUseOutcome
from saccade.evals.protocols.faithfulness import OutcomeShares as Rates
from saccade.evals.protocols.tool_use import ToolUse, Use
from saccade.report.plots import Axes, Figure, Series, StackedBar, bars, clean, curves, hue, shares
from saccade.report.runs import Own
from saccade.report.sections.view import (
    Panel,
    Section,
    SectionRow,
    SectionTable,
    card_of,
    difference_cells,
    figures,
    mean,
    panel_text,
    percent,
    rate,
    title_of,
)
from saccade.report.words import NONE

# Confidence: agreement across samples, accuracy against the number of turns and a budget.

_BUDGETS = {"turns": "turns allowed", "calls": "calls allowed", "written": "written tokens allowed"}
T = TypeVar("T")
Lines = tuple[SectionRow, ...]


def _lines(by_run: Mapping[str, T], cells: Callable[[str, T], Iterable[Sequence[str]]]) -> Lines:
    """Return the rows that `cells` gives for each run and its findings, in the colour of the run."""
    return tuple(
        SectionRow(tuple(row), hue(place)) for place, (run, one) in enumerate(by_run.items()) for row in cells(run, one)
    )


def confidence(findings: Mapping[str, Confidence]) -> Panel | None:
    """Return the panel; None without findings."""
    if not findings:
        return None
    several = {run: one for run, one in findings.items() if one.agreement is not None}
    notes = [
        "Within a budget a sample counts as right if it was, and had ended, within it; a model that knows its budget "
        "may do better.",
    ]
    if not several:
        notes.append("Every task has one sample: nothing can be said of agreement (sample more with --k).")
    heads = ("tasks", "agreement, %", "unanimous, %", "of them right, %", "calibration error", "separation (AUROC)")
    share = "majority right, %"
    agreement = _lines(findings, lambda run, one: [(run, *_agreement_cells(one))] if one.agreement is not None else [])
    spans = _lines(
        several,
        lambda run, one: [
            (f"{run}: {span.low:.1f}–{span.high:.1f}", f"{span.tasks:,}", mean(span.accuracy, share=True))
            for span in one.spans
        ],
    )
    more = _lines(
        several,
        lambda run, one: [
            (f"{run}: {point.samples}", percent(point.any_right), percent(point.majority)) for point in one.with_samples
        ],
    )
    points = _lines(
        findings,
        lambda run, one: [
            (f"{run}: {label} {point.at:g}", f"{point.samples:,}", mean(point.accuracy, share=True))
            for label, curve in (
                ("turns", one.by_turns),
                ("limit of turns", one.by_turn_limit),
                *((_BUDGETS[curve.name], curve) for curve in one.within),
            )
            for point in curve.points
        ],
    )
    sheets = (
        SectionTable("Agreement of the samples of a task", ("run", *heads), agreement),
        SectionTable("Tasks by agreement", ("run: agreement", "tasks", share), spans, folded=True),
        SectionTable("More samples", ("run: samples", "any right, %", share), more, folded=True),
        SectionTable("Accuracy by turns and budgets", ("run", "samples", "right, %"), points, folded=True),
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
            *(
                _curves(findings, f"Accuracy within a budget of {name}", label, partial(_within, name))
                for name, label in _BUDGETS.items()
            ),
        ),
    )


def _agreement_cells(one: Confidence) -> tuple[str, ...]:
    apart = (NONE if value is None else f"{value:.3f}" for value in (one.calibration_error, one.separation))
    shares = (mean(one.agreement, share=True), rate(one.unanimous), rate(one.unanimous_right))
    return (f"{len(one.tasks):,}", *shares, *apart)


def _within(name: str, findings: Confidence) -> Curve:
    return next((curve for curve in findings.within if curve.name == name), Curve(name=name, points=()))


def _curves(
    findings: Mapping[str, Confidence], title: str, label: str, pick: Callable[[Confidence], Curve]
) -> Figure | None:
    series = []
    for place, (run, one) in enumerate(findings.items()):
        known = [(point.at, point.accuracy) for point in pick(one).points if point.accuracy is not None]
        if known:
            points, ends = tuple((at, own.value) for at, own in known), tuple((own.low, own.high) for _, own in known)
            series.append(Series(run, points, place, marks=len(points) <= 30, intervals=ends))
    if not any(len(one.points) > 1 for one in series):
        return None
    return curves(title, f"{title}, with 95% intervals.", series, Axes(label, "right", percent=True, amounts_x=True))


def _reliability(findings: Mapping[str, Confidence]) -> Figure | None:
    series = []
    for place, (run, one) in enumerate(findings.items()):
        spans = [span for span in one.spans if span.tasks]
        points = tuple((span.agreement, span.accuracy.value) for span in spans)
        ends = tuple((span.accuracy.low, span.accuracy.high) for span in spans)
        series.append(Series(run, points, place, marks=True, intervals=ends))
    says = "Of tasks of like agreement the mean agreement and the accuracy of the most frequent answer."
    return curves("Agreement and accuracy", says, series, Axes("agreement", "majority right", True, percent_x=True))


def _samples(findings: Mapping[str, Confidence]) -> Figure | None:
    series = [
        Series(f"{run}, {name}", tuple((p.samples, getattr(p, field)) for p in one.with_samples), 2 * place + at, True)
        for place, (run, one) in enumerate(findings.items())
        for at, (name, field) in enumerate((("any right", "any_right"), ("majority", "majority")))
        if len(one.with_samples) > 1
    ]
    says = "Share of tasks with a right answer among so many samples, and credit of the most frequent answer."
    return curves("More samples", says, series, Axes("samples of each task", "right", percent=True))


# Errors (VISTA's classes E1 to E6): how often each occurs, and what showed it.

ERRORS = tuple(f"{error} {error.words}" for error in ErrorClass)
"""Labels of episodes."""


def errors(by_run: Mapping[str, Errors]) -> Panel | None:
    """Return the panel; None without findings."""
    if not by_run:
        return None
    lines = _lines(
        by_run,
        lambda run, findings: [
            (
                f"{run}: {one.error} {one.title}" + (" (estimate)" if one.estimated else ""),
                rate(one.samples),
                rate(one.wrong),
                f"{one.steps:,}",
                f"{one.undecided:,}",
                ", ".join(f"{rule} {count:,}" for rule, count in one.rules) or NONE,
            )
            for one in findings.rates
        ],
    )
    heads = ("class", "of samples, %", "of wrong ones, %", "errors", "undecided", "found by")
    notes = list(dict.fromkeys(method for findings in by_run.values() for method in findings.methods))
    notes += [
        f"{run}: {rate(one.any_error)}% of samples have an error that a rule found; {rate(one.format_failures)}% ended "
        "without an answer, which is none of the classes."
        for run, one in by_run.items()
    ]
    notes += [_ON_THE_SAME] * (len(by_run) > 1)
    drawn = {
        run: {f"{one.error} {one.title}": one.samples.value for one in findings.rates if one.samples.value is not None}
        for run, findings in by_run.items()
    }
    says = "Share of samples with an error of each class. E4 and E6 are estimates, over the samples that were decided."
    return Panel(
        "Errors",
        tuple(notes),
        (SectionTable("Errors by class", heads, lines, words=1), *_paired(by_run)),
        figures(bars("Errors by class", says, drawn, "share of samples", True)),
        tuple(
            f"{one.error} {example.id}, turn {step.turn}, {step.rule}: {clean(step.detail, 160)}"
            for findings in by_run.values()
            for one in findings.rates
            for example in one.examples[:3]
            for step in (example.step,)
        ),
    )


_ON_THE_SAME = (
    "On the same samples: the share of each run, their difference in points with its 95% interval, and p of McNemar's "
    "exact test for one sample of each task, else of the paired permutation test."
)


def paired_text(by_run: Mapping[str, Errors]) -> str:
    """Write the error rates of runs on the same samples for a terminal, in Markdown; empty if they share none."""
    tables = tuple(_paired(by_run))
    return panel_text(Panel("", (_ON_THE_SAME,), tables)).rstrip() if tables else ""


def _paired(by_run: Mapping[str, Errors]) -> Iterator[SectionTable]:
    """Yield the error rates of the first run and of each other one on the same samples, with their difference."""
    (first, ours), *others = by_run.items()
    for second, theirs in others:
        of_theirs = {(row.task, row.rollout): row for row in theirs.rows}
        pairs = [(row, other) for row in ours.rows if (other := of_theirs.get((row.task, row.rollout))) is not None]
        lines = [line for error in ErrorClass if (line := _difference(error, pairs)) is not None]
        if lines:
            heads = ("class", "samples", f"{first}, %", f"{second}, %", "difference", "95% interval", "p")
            title = f"Errors of {first} and of {second} on the same samples"
            yield SectionTable(title, heads, tuple(lines))


def _difference(error: ErrorClass, pairs: Sequence[tuple[ErrorRow, ErrorRow]]) -> SectionRow | None:
    """Return one class over the samples of which both runs tell it; None where there is no such sample."""
    known = [pair for pair in pairs if not any(error in row.undecided for row in pair)]
    of_task: dict[str, tuple[list[float], list[float]]] = {}
    for one, other in known:
        sides = of_task.setdefault(one.task, ([], []))
        sides[0].append(float(one.has(error)))
        sides[1].append(float(other.has(error)))
    if not of_task:
        return None
    found = paired_test(list(of_task.values()))
    left, right = (fmean(fmean(sides[side]) for sides in of_task.values()) for side in (0, 1))
    cells = (f"{error} {error.words}", f"{len(known):,}", percent(left), percent(right))
    return SectionRow((*cells, *difference_cells(found)))


def error_labels(findings: Errors) -> Iterator[tuple[str, str]]:
    """Yield each sample's id with each class of error that it has, once."""
    for row in findings.rows:
        for error in sorted({step.error for step in row.errors}):
            yield row.id, f"{error} {error.words}"


# Faithfulness (CodeV): whether right answers rest on pictures that show what was asked.

TONES: Mapping[str, str] = {
    "faithful": "tone-right",
    "unfaithful": "tone-wrong",
    "no tool": "tone-blank",
    "undecided": "tone-none",
}
TOOL_USE = {
    ToolUseOutcome.UNFAITHFUL: "unfaithful",
    ToolUseOutcome.FAITHFUL: "faithful",
    ToolUseOutcome.NO_TOOL: "no tool",
    ToolUseOutcome.UNDECIDED: "faithfulness undecided",
}
"""Labels of episodes."""
_Judged = tuple[str, int, JudgeFindings]
"""A run, its place among the runs, and one judge of it."""
_JUDGES = {"model": "model", "boxes": "gold boxes"}


def faithfulness(findings: Mapping[str, Faithfulness]) -> Panel | None:
    """Return the panel; None where nothing was judged."""
    judged = [(name, place, judge) for place, (name, one) in enumerate(findings.items()) for judge in one.judges]
    if not judged:
        return None
    notes = [
        "A sample is faithful by any crop if one of its pictures shows what the question asks about, by every crop if "
        "all do. A sample that called something and got no picture is unfaithful.",
    ]
    details = [line for run, _, judge in judged for line in _details(run, judge)]
    for run, one in findings.items():
        if one.agreement_samples is not None:
            notes.append(_agreement(run, "samples that both decided", one.agreement_samples))
        if one.agreement_pictures is not None:
            details.append(_agreement(run, "pictures that both judged", one.agreement_pictures))
    return Panel(
        "Faithfulness",
        tuple(notes),
        (
            _sheet(judged, ("any crop", "all samples")),
            _sheet(judged, ("any crop", "right answers")),
            _sheet(judged, ("every crop", "all samples"), folded=True),
            _sheet(judged, ("every crop", "right answers"), folded=True),
            *_by_source(judged),
            *_published(findings),
        ),
        figures(_figure("all samples", judged), _figure("right answers", judged)),
        tuple(details),
    )


def label(judge: JudgeFindings, run: str) -> str:
    """Judge of these verdicts."""
    return f"{run} ({_JUDGES[judge.judge]})"


def outcome_of(findings: Faithfulness) -> Iterator[tuple[str, str]]:
    """Yield each sample's id and its outcome in words, any crop: by the model, or by boxes where no model judged."""
    for row in findings.rows:
        judged = {one.judge: one.any_crop for one in row.judged}
        outcome = judged.get("model", judged.get("boxes"))
        if outcome is not None:
            yield row.id, TOOL_USE[outcome]


def _sheet(judged: Sequence[_Judged], kind: tuple[str, str], folded: bool = False) -> SectionTable:
    """Return the rates of one variant (any or every crop) with one denominator (all samples or right answers)."""
    crop, of = kind
    heads, lines = ["run (judge)", *TONES], []
    for run, place, judge in judged:
        rates = judge.any_crop if crop == "any crop" else judge.every_crop
        cells = [rate(part) for part in _parts(rates.of_all if of == "all samples" else rates.of_correct).values()]
        if of == "all samples":
            cells.append(rate(rates.faithful_and_correct))
        lines.append(SectionRow((label(judge, run), *cells), hue(place)))
    heads += ["right and faithful"] * (of == "all samples")
    return SectionTable(f"Percent of {of}, {crop}", tuple(heads), tuple(lines), folded=folded)


def _parts(rates: Rates) -> dict[str, Rate]:
    return {outcome.value.replace("_", " "): getattr(rates, outcome.value) for outcome in ToolUseOutcome}


def _figure(of: str, judged: Sequence[_Judged]) -> Figure | None:
    bars = []
    for run, _, judge in judged:
        rates = judge.any_crop.of_all if of == "all samples" else judge.any_crop.of_correct
        bars.append(StackedBar(label(judge, run), {name: float(part.count) for name, part in _parts(rates).items()}))
    says = f"Tool use of {of} (any crop): faithful, unfaithful, none, and undecided where the judge gave no verdict."
    return shares(f"Tool use of {of}", says, bars, TONES)


def _by_source(judged: Sequence[_Judged]) -> tuple[SectionTable, ...]:
    lines = [
        SectionRow((f"{label(judge, run)}: {source}", *map(rate, _parts(rates.of_all).values())), hue(place))
        for run, place, judge in judged
        if len(judge.sources) > 1
        for source, rates in judge.sources.items()
    ]
    heads = ("run (judge): benchmark", *TONES)
    title = "Percent of the samples of a benchmark, any crop"
    return (SectionTable(title, heads, tuple(lines), folded=True),) if lines else ()


def _agreement(run: str, of: str, agreed: JudgeAgreement) -> str:
    kappa = NONE if agreed.kappa is None else f"{agreed.kappa:.2f}"
    return f"{run}: both judges agree on {rate(agreed.same)}% of {agreed.same.of:,} {of} (Cohen's kappa {kappa})."


def _details(run: str, judge: JudgeFindings) -> Iterator[str]:
    name = label(judge, run)
    yield f"{name}: {judge.name}; {rate(judge.pictures)}% of the pictures show evidence"
    if judge.invalid:
        listed = ", ".join(f"{reason} {count}" for reason, count in judge.invalid.items())
        yield f"{name}: pictures without a verdict: {listed}"
    if judge.without_picture:
        yield f"{name}: {judge.without_picture} samples called something and got no picture: unfaithful"
    for kind in judge.examples:
        yield f"{name}: {kind.kind.replace('_', ' ')}: {', '.join(kind.ids[:3])}"


def _published(findings: Mapping[str, Faithfulness]) -> tuple[SectionTable, ...]:
    """Return the right and faithful shares that papers report on the same benchmarks."""
    sources = dict.fromkeys(source for one in findings.values() for judge in one.judges for source in judge.sources)
    lines = []
    for source in sources:
        card = card_of(source)
        if card is None or all(score.faithful is None for score in card.scores):
            continue
        for place, (run, one) in enumerate(findings.items()):
            for judge in one.judges:
                if source in judge.sources:
                    own = rate(judge.sources[source].faithful_and_correct)
                    lines.append(SectionRow((label(judge, run), own, card.title, "this report"), hue(place)))
        lines += [
            SectionRow((score.model, f"{score.faithful:.1f}", card.title, score.source), reference=True)
            for score in card.scores
            if score.faithful is not None
        ]
    heads = ("", "right and faithful, of all", "benchmark", "from")
    return (SectionTable("Beside published rates (any crop)", heads, tuple(lines), words=2),) if lines else ()


# Token economy (PyVision-RL, figure 4): visual and text tokens per sample against accuracy.

_AXES = Axes("visual tokens per sample, mean", "right", percent=True, amounts_x=True)


def tokens(findings: Mapping[str, TokenEconomy]) -> Panel | None:
    """Return the panel; None without findings."""
    if not findings:
        return None
    lines = _lines(
        findings,
        lambda run, one: starmap(_token_cells, {_name(run, one): one.total, **_sources(run, one)}.items()),
    )
    spans, lengths = (_lines(findings, partial(_quarters, kind)) for kind in ("spans", "lengths"))
    heads = ("run", "samples", "right, %", "pictures", "visual tokens", "text tokens", "written", "read in all turns")
    notes = [
        f"{run}: visual tokens of {one.estimated:,} samples are computed from the pictures' sizes by the budget of "
        f"{one.about.budget}."
        for run, one in findings.items()
        if one.estimated
    ]
    if any(_partial(point) for one in findings.values() for point in (one.total, *one.sources.values(), *one.spans)):
        notes.append("A mean over a part of the samples says of how many; of the others the backend gave no number.")
    by_run = [_series(_name(run, one), [one.total], place) for place, (run, one) in enumerate(findings.items())]
    parts = [_series(run, one.spans, place) for place, (run, one) in enumerate(findings.items()) if len(one.spans) > 1]
    return Panel(
        "Token economy",
        tuple(notes),
        (
            SectionTable("Tokens per sample: means with 95% intervals", heads, lines),
            SectionTable("In quarters by visual tokens", heads, spans, folded=True),
            SectionTable("In quarters by tokens written", heads, lengths, folded=True),
        ),
        figures(
            curves("Accuracy and visual tokens", "Each run as a point, with the 95% interval.", by_run, _AXES),
            curves("Accuracy within a run", "Samples in quarters by their visual tokens.", parts, _AXES),
        ),
    )


def _name(run: str, findings: TokenEconomy) -> str:
    return f"{run} ({findings.about.frames})" if findings.about.frames else run


def _sources(run: str, findings: TokenEconomy) -> dict[str, TokenPoint]:
    many = len(findings.sources) > 1
    return {f"{run}, {source}": point for source, point in findings.sources.items() if many}


def _quarters(kind: str, run: str, one: TokenEconomy) -> list[tuple[str, ...]]:
    return [_token_cells(f"{run}: {point.label}", point) for point in getattr(one, kind)]


def _token_cells(name: str, point: TokenPoint) -> tuple[str, ...]:
    right = mean(point.accuracy, share=True, of=point.samples)
    return (name, f"{point.samples:,}", right, *(mean(number, of=point.samples) for number in _numbers(point)))


def _numbers(point: TokenPoint) -> tuple[Mean | None, ...]:
    return point.pictures, point.visual, point.text, point.written, point.processed


def _partial(point: TokenPoint) -> bool:
    """Return whether a number of it is a mean over a part of its samples."""
    known = (point.accuracy, *_numbers(point))
    return any(number is not None and number.samples < point.samples for number in known)


def _series(name: str, points: Iterable[TokenPoint], place: int) -> Series:
    known = [
        ((point.visual.value, point.accuracy.value), (point.accuracy.low, point.accuracy.high))
        for point in points
        if point.visual is not None and point.accuracy is not None
    ]
    places, intervals = zip(*known, strict=True) if known else ((), ())
    return Series(name, places, place, marks=True, intervals=intervals)


# Tool use: what calls did (PyVision's taxonomy), and accuracy by the number of calls (CodeV, figure 8).


def tool_use(findings: Mapping[str, ToolUse]) -> Panel | None:
    """Return the panel; None without findings."""
    if not findings:
        return None
    named = {
        run: {
            run: one.total,
            **({f"{run}, {title_of(name)}": use for name, use in one.sources.items()} if len(one.sources) > 1 else {}),
        }
        for run, one in findings.items()
    }
    operations = {run: _operations(one.total) for run, one in findings.items()}
    labels = {run: shares for run, one in findings.items() if (shares := _labels(one.total))}
    buckets = {
        run: {bucket.label: bucket.accuracy.value for bucket in one.total.buckets if bucket.accuracy is not None}
        for run, one in findings.items()
    }
    calls = {run: {str(n): float(c) for n, c in sorted(one.total.histogram.items())} for run, one in findings.items()}
    done = "Share of the calls that ended well which do this; a call may do several things."
    one_each = "Share of the calls that ended well which have this as their one label; these shares add up to 1."
    right = "Accuracy of the samples with so many calls."
    often = "Samples by their number of calls."
    return Panel(
        "Tool use",
        sheets=(
            SectionTable("Calls", _CALLS, _lines(named, lambda _, uses: starmap(_use_cells, uses.items()))),
            SectionTable("By number of calls", _BUCKETS, _lines(named, _bucket_cells), folded=True),
            *_operation_sheet(named),
        ),
        figures=figures(
            bars("What calls did", done, operations, "share of calls", True),
            bars("What calls did, one label a call", one_each, labels, "share of calls", True),
            bars("Accuracy by calls", right, buckets, "right", True),
            bars("Calls per sample", often, calls, "samples", False),
        ),
    )


_CALLS = ("run", "samples", "calls", "per sample", "failed", "most often")
_BUCKETS = ("run and calls", "of samples, %", "right in the bucket, %", "of all graded: right and here, %")


def _use_cells(name: str, use: Use) -> tuple[str, ...]:
    most = sorted(use.operations, key=lambda one: -one.calls.count)[:3]
    return (
        name,
        f"{use.samples:,}",
        f"{use.calls:,}",
        NONE if use.calls_per_sample is None else f"{use.calls_per_sample:.2f}",
        f"{use.failed:,}",
        ", ".join(one.operation.value.replace("_", " ") for one in most) or NONE,
    )


def _bucket_cells(_: str, uses: Mapping[str, Use]) -> Iterator[tuple[str, ...]]:
    for name, use in uses.items():
        for one in use.buckets:
            yield f"{name}: {one.label}", rate(one.samples), mean(one.accuracy, share=True), rate(one.correct)


def _operations(use: Use) -> dict[str, float]:
    return {
        one.operation.value.replace("_", " "): one.calls.value for one in use.operations if one.calls.value is not None
    }


def _labels(use: Use) -> dict[str, float]:
    return {one.operation.value.replace("_", " "): one.labels.value for one in use.operations if one.labels.value}


def _operation_sheet(named: Mapping[str, Mapping[str, Use]]) -> tuple[SectionTable, ...]:
    """Return what calls did in each run, on each benchmark where there are several, and by one label a call."""
    columns: dict[str, dict[str, float]] = {}
    for run, uses in named.items():
        columns |= {name: _operations(use) for name, use in uses.items()}
        if labels := _labels(uses[run]):
            columns[f"{run}, one label a call"] = labels
    names = dict.fromkeys(name for column in columns.values() for name in column)
    lines = tuple(SectionRow((name, *(percent(column.get(name)) for column in columns.values()))) for name in names)
    title = "What calls did, percent of calls"
    return (SectionTable(title, ("operation", *columns), lines, folded=True),) if lines else ()


INTERVALS = (
    "95% intervals: of accuracy as the summary has them; of other shares Wilson's where each task has one trial "
    "or all tasks agree, else the bootstrap over tasks."
)
_PANELS: Mapping[str, Callable[[Mapping[str, Any]], Panel | None]] = {
    "faithfulness": faithfulness,
    "tool_use": tool_use,
    "errors": errors,
    "tokens": tokens,
    "confidence": confidence,
}
LABELS = (*TOOL_USE.values(), *ERRORS)
"""Labels in the order in which they are offered first."""
NAMES = tuple(_PANELS)
"""The protocols that a report shows."""


def protocols(by_run: Mapping[str, Mapping[str, Findings]], own: Mapping[str, Mapping[str, Own]]) -> Section | None:
    """Return the section of the findings (run -> protocol -> findings); `own` are those of others.

    None if there are none.
    """
    panels = []
    for name, make in _PANELS.items():
        panel = make({run: findings[name] for run, findings in by_run.items() if name in findings})
        if panel is not None:
            panels.append(panel)
    if panels:
        panels[0] = replace(panels[0], notes=(*panels[0].notes, INTERVALS))
    panels += own_panels(own)
    return Section("protocols", "Looking and reasoning", tuple(panels), folded=True) if panels else None


def findings_text(findings: Findings) -> str:
    """Write what a protocol found in one run for a terminal, in Markdown: the tables and notes of its panel."""
    run, name = findings.about.run, getattr(findings, "protocol", "")
    panel = _PANELS[name]({run: findings}) if name in _PANELS else None
    if panel is None:
        [panel] = own_panels({run: {"": Own("", plain_data(findings))}})
    lost = f"\n{findings.about.lost} samples were lost and are left out." if findings.about.lost else ""
    said = f"\n{INTERVALS}" if name in _PANELS else ""
    return panel_text(panel).rstrip() + said + lost


def labels(findings: Mapping[str, Findings]) -> Iterator[tuple[str, str]]:
    """Yield the ids of samples, each with a label that a protocol gives it."""
    if isinstance(one := findings.get("faithfulness"), Faithfulness):
        yield from outcome_of(one)
    if isinstance(two := findings.get("errors"), Errors):
        yield from error_labels(two)


def own_panels(findings: Mapping[str, Mapping[str, Own]]) -> Iterator[Panel]:
    """Yield a panel for each protocol of `findings` (run -> protocol -> findings)."""
    for name in dict.fromkeys(name for own in findings.values() for name in own):
        runs = {run: own[name] for run, own in findings.items() if name in own}
        yield Panel(next(iter(runs.values())).title, (), (_values(runs), *_tables(runs)))


def _values(runs: Mapping[str, Own]) -> SectionTable:
    columns = {run: plain_lines(own.data) for run, own in runs.items()}
    names = dict.fromkeys(name for column in columns.values() for name in column)
    lines = tuple(SectionRow((name, *(column.get(name, NONE) for column in columns.values()))) for name in names)
    return SectionTable("Values", ("", *columns), lines)


def _tables(runs: Mapping[str, Own]) -> Iterator[SectionTable]:
    for place, (run, own) in enumerate(runs.items()):
        for grid in plain_grids(own.data):
            lines = tuple(SectionRow(row, hue(place)) for row in grid.rows)
            yield SectionTable(f"{run}: {grid.title}", grid.heads, lines, words=len(grid.heads) - 1)
