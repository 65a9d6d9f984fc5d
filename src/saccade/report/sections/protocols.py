"""The panels of all protocols, and the labels by which they let episodes be looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from saccade.evals.compare import paired_test
from saccade.evals.protocols.confidence import Confidence, Curve, TokenEconomy, TokenPoint
from saccade.evals.protocols.errors import ErrorClass, ErrorRow, Errors
from saccade.evals.protocols.faithfulness import Faithfulness, JudgeAgreement, JudgeFindings, ToolUseOutcome
from saccade.evals.protocols.faithfulness import OutcomeShares as Rates
from saccade.evals.protocols.findings import Findings, Rate
from saccade.evals.protocols.plain import plain_data, plain_grids, plain_lines
from saccade.evals.protocols.tool_use import ToolUse, Use
from saccade.report.plots import Axes, Figure, Series, StackedBar, bars, clean, curves, hue, shares
from saccade.report.runs import Own
from saccade.report.sections.view import (
    Panel,
    Section,
    SectionRow,
    SectionTable,
    card_of,
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


def confidence(findings: Mapping[str, Confidence]) -> Panel | None:
    """Return the panel; None without findings."""
    if not findings:
        return None
    several = {run: one for run, one in findings.items() if one.agreement is not None}
    lines = tuple(_line(run, one, place) for place, (run, one) in enumerate(findings.items()) if run in several)
    notes = [
        "Within a budget a sample counts as right if it was, and had ended, within it; a model that knows its budget "
        "may do better.",
    ]
    if not several:
        notes.append("Every task has one sample: nothing can be said of agreement (sample more with --k).")
    budgets = [
        _curves(findings, f"Accuracy within a budget of {name}", label, partial(_within, name))
        for name, label in _BUDGETS.items()
    ]
    share = "majority right, %"
    sheets = (
        SectionTable("Agreement of the samples of a task", _HEADS, lines),
        SectionTable("Tasks by agreement", ("run: agreement", "tasks", share), _spans(several), folded=True),
        SectionTable("More samples", ("run: samples", "any right, %", share), _more(several), folded=True),
        SectionTable("Accuracy by turns and budgets", ("run", "samples", "right, %"), _points(findings), folded=True),
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
            *budgets,
        ),
    )


_HEADS = (
    "run",
    "tasks",
    "agreement, %",
    "unanimous, %",
    "of them right, %",
    "calibration error",
    "separation (AUROC)",
)


def _line(run: str, one: Confidence, place: int) -> SectionRow:
    cells = (
        run,
        f"{len(one.tasks):,}",
        mean(one.agreement, share=True),
        rate(one.unanimous),
        rate(one.unanimous_right),
        NONE if one.calibration_error is None else f"{one.calibration_error:.3f}",
        NONE if one.separation is None else f"{one.separation:.3f}",
    )
    return SectionRow(cells, hue(place))


def _spans(several: Mapping[str, Confidence]) -> tuple[SectionRow, ...]:
    return tuple(
        SectionRow(
            (f"{run}: {span.low:.1f}–{span.high:.1f}", f"{span.tasks:,}", mean(span.accuracy, share=True)), hue(place)
        )
        for place, (run, one) in enumerate(several.items())
        for span in one.spans
    )


def _more(several: Mapping[str, Confidence]) -> tuple[SectionRow, ...]:
    return tuple(
        SectionRow((f"{run}: {point.samples}", percent(point.any_right), percent(point.majority)), hue(place))
        for place, (run, one) in enumerate(several.items())
        for point in one.with_samples
    )


def _points(findings: Mapping[str, Confidence]) -> tuple[SectionRow, ...]:
    named = [
        (place, f"{run}: {label}", curve)
        for place, (run, one) in enumerate(findings.items())
        for label, curve in (
            ("turns", one.by_turns),
            ("limit of turns", one.by_turn_limit),
            *((_BUDGETS[curve.name], curve) for curve in one.within),
        )
    ]
    return tuple(
        SectionRow((f"{name} {point.at:g}", f"{point.samples:,}", mean(point.accuracy, share=True)), hue(place))
        for place, name, curve in named
        for point in curve.points
    )


def _within(name: str, findings: Confidence) -> Curve:
    return next((curve for curve in findings.within if curve.name == name), Curve(name=name, points=()))


def _curves(
    findings: Mapping[str, Confidence], title: str, label: str, pick: Callable[[Confidence], Curve]
) -> Figure | None:
    series = []
    for place, (run, one) in enumerate(findings.items()):
        known = [(point.at, point.accuracy) for point in pick(one).points if point.accuracy is not None]
        ends = tuple((own.low, own.high) for _, own in known)
        if known:
            points = tuple((at, own.value) for at, own in known)
            series.append(Series(run, points, place, marks=len(points) <= 30, intervals=ends))
    if not any(len(one.points) > 1 for one in series):
        return None
    says = f"{title}, with 95% intervals."
    return curves(title, says, series, Axes(label, "right", percent=True, amounts_x=True))


def _reliability(findings: Mapping[str, Confidence]) -> Figure | None:
    series = [
        Series(
            run,
            tuple((span.agreement, span.accuracy.value) for span in one.spans if span.tasks),
            place,
            marks=True,
            intervals=tuple((span.accuracy.low, span.accuracy.high) for span in one.spans if span.tasks),
        )
        for place, (run, one) in enumerate(findings.items())
    ]
    says = "Of tasks of like agreement the mean agreement and the accuracy of the most frequent answer."
    axes = Axes("agreement", "majority right", percent=True, percent_x=True)
    return curves("Agreement and accuracy", says, series, axes)


def _samples(findings: Mapping[str, Confidence]) -> Figure | None:
    series = []
    for place, (run, one) in enumerate(findings.items()):
        if len(one.with_samples) > 1:
            points = one.with_samples
            series.append(Series(f"{run}, any right", tuple((p.samples, p.any_right) for p in points), 2 * place, True))
            series.append(
                Series(f"{run}, majority", tuple((p.samples, p.majority) for p in points), 2 * place + 1, True)
            )
    says = "Share of tasks with a right answer among so many samples, and credit of the most frequent answer."
    return curves("More samples", says, series, Axes("samples of each task", "right", percent=True))


# Errors (VISTA's classes E1 to E6): how often each occurs, and what showed it.

ERRORS = tuple(f"{error} {error.words}" for error in ErrorClass)
"""Labels of episodes."""


def errors(by_run: Mapping[str, Errors]) -> Panel | None:
    """Return the panel; None without findings."""
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
    if len(by_run) > 1:
        notes.append(
            "On the same samples: the share of each run, their difference in points with its 95% interval, and p of "
            "McNemar's exact test for one sample of each task, else of the paired permutation test."
        )
    drawn = {
        run: {f"{one.error} {one.title}": one.samples.value for one in findings.rates if one.samples.value is not None}
        for run, findings in by_run.items()
    }
    says = "Share of samples with an error of each class. E4 and E6 are estimates, over the samples that were decided."
    return Panel(
        "Errors",
        tuple(notes),
        (SectionTable("Errors by class", heads, tuple(lines), words=1), *_paired(by_run)),
        figures(bars("Errors by class", says, drawn, "share of samples", True)),
        tuple(
            f"{one.error} {example.id}, turn {step.turn}, {step.rule}: {clean(step.detail, 160)}"
            for findings in by_run.values()
            for one in findings.rates
            for example in one.examples[:3]
            for step in (example.step,)
        ),
    )


def _paired(by_run: Mapping[str, Errors]) -> Iterator[SectionTable]:
    """Yield the error rates of the first run and of each other one on the same samples, with their difference."""
    (first, ours), *others = by_run.items()
    for second, theirs in others:
        pairs = [(row, other) for row in ours.rows if (other := _rows(theirs).get((row.task, row.rollout))) is not None]
        lines = [line for error in ErrorClass if (line := _difference(error, pairs)) is not None]
        if lines:
            heads = ("class", "samples", f"{first}, %", f"{second}, %", "difference", "95% interval", "p")
            title = f"Errors of {first} and of {second} on the same samples"
            yield SectionTable(title, heads, tuple(lines))


def _rows(findings: Errors) -> dict[tuple[str, int], ErrorRow]:
    return {(row.task, row.rollout): row for row in findings.rows}


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
    ends = f"{100 * found.interval.low:+.1f} to {100 * found.interval.high:+.1f}"
    shares = (f"{error} {error.words}", f"{len(known):,}", percent(left), percent(right))
    cells = (*shares, f"{100 * found.difference:+.1f}", ends, f"{found.p:.3g}")
    return SectionRow(tuple(cell.replace("-", "−") if cell[:1] in "+-" else cell for cell in cells))


def error_labels(findings: Errors) -> Iterator[tuple[str, str]]:
    """Of each sample its id and a class of error that it has, each once."""
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
    """Of each sample its id and its outcome in words, any crop: by the model, or by boxes where no model judged."""
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
    lines = [
        _line_tokens(name, point, place)
        for place, (run, one) in enumerate(findings.items())
        for name, point in {_name(run, one): one.total, **_sources(run, one)}.items()
    ]
    spans, lengths = (
        tuple(
            _line_tokens(f"{run}: {point.label}", point, place)
            for place, (run, one) in enumerate(findings.items())
            for point in getattr(one, quarters)
        )
        for quarters in ("spans", "lengths")
    )
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
            SectionTable("Tokens per sample: means with 95% intervals", heads, tuple(lines)),
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


def _line_tokens(name: str, point: TokenPoint, place: int) -> SectionRow:
    numbers = (point.pictures, point.visual, point.text, point.written, point.processed)
    cells = (
        name,
        f"{point.samples:,}",
        mean(point.accuracy, share=True, of=point.samples),
        *(mean(number, of=point.samples) for number in numbers),
    )
    return SectionRow(cells, hue(place))


def _partial(point: TokenPoint) -> bool:
    """Whether a number of it is a mean over a part of its samples."""
    numbers = (point.accuracy, point.pictures, point.visual, point.text, point.written, point.processed)
    return any(number is not None and number.samples < point.samples for number in numbers)


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
    named = {run: (place, one.total) for place, (run, one) in enumerate(findings.items())}
    for place, (run, one) in enumerate(findings.items()):
        if len(one.sources) > 1:
            named |= {_name_tool_use(run, source): (place, use) for source, use in one.sources.items()}
    operations = {run: _operations(one.total) for run, one in findings.items()}
    labels = {run: shares for run, one in findings.items() if (shares := _labels(one.total))}
    buckets = {run: _buckets(one.total) for run, one in findings.items()}
    calls = {run: {str(n): float(c) for n, c in sorted(one.total.histogram.items())} for run, one in findings.items()}
    done = "Share of the calls that ended well which do this; a call may do several things."
    one_each = "Share of the calls that ended well which have this as their one label; these shares add up to 1."
    right = "Accuracy of the samples with so many calls."
    often = "Samples by their number of calls."
    return Panel(
        "Tool use",
        sheets=(
            SectionTable("Calls", _CALLS, tuple(_line_tool_use(name, *use) for name, use in named.items())),
            SectionTable("By number of calls", _BUCKETS, _bucket_lines(named), folded=True),
            *_operation_sheet(findings),
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


def _line_tool_use(name: str, place: int, use: Use) -> SectionRow:
    most = sorted(use.operations, key=lambda one: -one.calls.count)[:3]
    cells = (
        name,
        f"{use.samples:,}",
        f"{use.calls:,}",
        NONE if use.calls_per_sample is None else f"{use.calls_per_sample:.2f}",
        f"{use.failed:,}",
        ", ".join(one.operation.value.replace("_", " ") for one in most) or NONE,
    )
    return SectionRow(cells, hue(place))


def _operations(use: Use) -> dict[str, float]:
    return {
        one.operation.value.replace("_", " "): one.calls.value for one in use.operations if one.calls.value is not None
    }


def _labels(use: Use) -> dict[str, float]:
    """Return an empty list for findings that were made before there was one label a call."""
    return {
        one.operation.value.replace("_", " "): one.labels.value
        for one in use.operations
        if one.labels is not None and one.labels.value
    }


def _buckets(use: Use) -> dict[str, float]:
    return {one.label: one.accuracy.value for one in use.buckets if one.accuracy is not None}


def _bucket_lines(named: Mapping[str, tuple[int, Use]]) -> tuple[SectionRow, ...]:
    return tuple(
        SectionRow(
            (f"{name}: {one.label}", rate(one.samples), mean(one.accuracy, share=True), rate(one.correct)),
            hue(place),
        )
        for name, (place, use) in named.items()
        for one in use.buckets
    )


def _operation_sheet(findings: Mapping[str, ToolUse]) -> tuple[SectionTable, ...]:
    """Return what calls did in each run, on each benchmark where there are several, and by one label a call."""
    columns: dict[str, dict[str, float]] = {}
    for run, one in findings.items():
        columns[run] = _operations(one.total)
        if len(one.sources) > 1:
            columns |= {_name_tool_use(run, source): _operations(use) for source, use in one.sources.items()}
        if labels := _labels(one.total):
            columns[f"{run}, one label a call"] = labels
    names = dict.fromkeys(name for column in columns.values() for name in column)
    lines = [
        SectionRow((name, *(f"{100 * column[name]:.1f}" if name in column else NONE for column in columns.values())))
        for name in names
    ]
    title = "What calls did, percent of calls"
    return (SectionTable(title, ("operation", *columns), tuple(lines), folded=True),) if lines else ()


def _name_tool_use(run: str, source: str) -> str:
    return f"{run}, {title_of(source)}"


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
