"""Findings as text for a terminal, in Markdown, one function for each protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from saccade.evals.protocols.confidence.records import Confidence, Curve
from saccade.evals.protocols.errors.records import Errors
from saccade.evals.protocols.faithfulness.records import Faithfulness, JudgeAgreement, JudgeFindings, OutcomeShares
from saccade.evals.protocols.findings import Findings, Mean, Rate
from saccade.evals.protocols.plain import plain_data, plain_grids, plain_lines
from saccade.evals.protocols.tokens.records import TokenEconomy, TokenPoint
from saccade.evals.protocols.tool_use.records import ToolUse, Use
from saccade.evals.tables import markdown

_SHOWN = 3
"""Examples of each kind that are listed."""


def findings_text(findings: Findings) -> str:
    """The findings; those of a protocol of somebody's own as `plain` shows them."""
    match findings:
        case Faithfulness():
            lines = _faithfulness(findings)
        case Errors():
            lines = _errors(findings)
        case ToolUse():
            lines = _tool_use(findings)
        case TokenEconomy():
            lines = _tokens(findings)
        case Confidence():
            lines = _confidence(findings)
        case _:
            lines = _plain(findings)
    lost = [f"{findings.about.lost} samples were lost and are left out."] if findings.about.lost else []
    return "\n".join([*lines, *lost])


def _plain(findings: Findings) -> list[str]:
    data = plain_data(findings)
    lines = markdown(("what", "value"), plain_lines(data).items())
    for grid in plain_grids(data):
        lines += ["", f"{grid.title}:", "", *markdown(grid.heads, grid.rows)]
    return lines


def _faithfulness(findings: Faithfulness) -> list[str]:
    lines = []
    for judge in findings.judges:
        lines += [f"Judged by {judge.name}: {_rate(judge.pictures)} of the pictures show evidence.", ""]
        lines += markdown(("samples", "faithful", "unfaithful", "no tool", "undecided"), _outcomes(judge))
        right = judge.any_crop.faithful_and_correct
        every = judge.every_crop.faithful_and_correct
        lines += ["", f"right and faithful, of all: {_rate(right)} by any picture, {_rate(every)} by every picture"]
        if judge.invalid:
            listed = ", ".join(f"{reason} {count}" for reason, count in judge.invalid.items())
            lines.append(f"pictures without a verdict: {listed}")
        if judge.without_picture:
            lines.append(f"{judge.without_picture} samples called something and got no picture: unfaithful")
        lines += [f"{kind.kind}: {', '.join(kind.ids[:_SHOWN])}" for kind in judge.examples] + [""]
    for name, agreed in (("pictures", findings.agreement_pictures), ("samples", findings.agreement_samples)):
        if agreed is not None:
            lines.append(_agreement(name, agreed))
    return lines


def _outcomes(judge: JudgeFindings) -> Iterable[Sequence[str]]:
    for variant, rates in (("any picture", judge.any_crop), ("every picture", judge.every_crop)):
        yield _shares(f"all, {variant}", rates.of_all)
        yield _shares(f"right, {variant}", rates.of_correct)
    for source, rates in judge.sources.items():
        yield _shares(f"{source or '?'}, any picture", rates.of_all)


def _shares(name: str, shares: OutcomeShares) -> Sequence[str]:
    return (name, *map(_rate, (shares.faithful, shares.unfaithful, shares.no_tool, shares.undecided)))


def _agreement(name: str, agreed: JudgeAgreement) -> str:
    kappa = "–" if agreed.kappa is None else f"{agreed.kappa:.2f}"
    table = f"both {agreed.both}, model alone {agreed.only_model}, boxes alone {agreed.only_boxes}"
    return (
        f"model and boxes on {name}: agree in {_rate(agreed.same)}, Cohen's kappa {kappa} ({table}, "
        f"neither {agreed.neither})"
    )


def _errors(findings: Errors) -> list[str]:
    rows = [
        (
            f"{rate.error} {rate.title}{' (estimate)' if rate.estimated else ''}",
            _rate(rate.samples),
            _rate(rate.wrong),
            str(rate.steps),
            str(rate.undecided) if rate.estimated else "",
        )
        for rate in findings.rates
    ]
    lines = markdown(("error", "of samples", "of wrong ones", "steps", "undecided"), rows)
    lines += ["", f"any of E1, E2, E3, E5: {_rate(findings.any_error)}; no answer: {_rate(findings.format_failures)}"]
    for rate in findings.rates:
        for example in rate.examples[:_SHOWN]:
            step = example.step
            lines.append(f"{rate.error} {example.id}, turn {step.turn}, {step.rule}: {_one_line(step.detail)}")
    return [*lines, *findings.methods]


def _tool_use(findings: ToolUse) -> list[str]:
    groups = [("all", findings.total), *(findings.sources.items() if len(findings.sources) > 1 else ())]
    names = [share.operation for share in findings.total.operations]
    values = [name.value for name in names]
    rows = [[name, *(_operation(use, name) for _, use in groups), _label(findings, name)] for name in values]
    lines = markdown(("operation, of calls", *(name or "?" for name, _ in groups), "one label a call"), rows)
    total = findings.total
    mean = "–" if total.calls_per_sample is None else f"{total.calls_per_sample:.2f}"
    lines += ["", f"{total.calls} calls, {mean} per sample; {total.failed} failed", ""]
    buckets = [
        (f"{name or '?'}, {bucket.label} calls", _rate(bucket.samples), _mean(bucket.accuracy), _rate(bucket.correct))
        for name, use in groups
        for bucket in use.buckets
        if bucket.samples.count
    ]
    return lines + markdown(("samples", "share", "accuracy", "right, of all"), buckets)


def _operation(use: Use, name: str) -> str:
    return next((_rate(share.calls) for share in use.operations if share.operation == name), "0.0")


def _label(findings: ToolUse, name: str) -> str:
    share = next((share.labels for share in findings.total.operations if share.operation == name), None)
    return "–" if share is None else _rate(share)


def _tokens(findings: TokenEconomy) -> list[str]:
    points = [findings.total, *(findings.sources.values() if len(findings.sources) > 1 else ())]
    points += [span.model_copy(update={"label": f"visual tokens {span.label}"}) for span in findings.spans]
    head = ("samples", "n", "accuracy", "pictures", "visual", "text", "written", "read in all turns")
    lines = markdown(head, map(_point, points))
    if findings.about.frames:
        lines.append(f"Frames of videos were sampled before: {findings.about.frames}.")
    if findings.estimated:
        lines.append(
            f"Visual tokens of {findings.estimated} samples are estimates by the sizes of {findings.about.budget}."
        )
    return lines


def _point(point: TokenPoint) -> Sequence[str]:
    numbers = (point.visual, point.text, point.written, point.processed)
    return (
        point.label,
        str(point.samples),
        _mean(point.accuracy),
        _number(point.pictures, point.samples, 1),
        *(_number(number, point.samples, 0) for number in numbers),
    )


def _number(mean: Mean | None, samples: int, digits: int) -> str:
    """A mean; over fewer than `samples` it says over how many."""
    if mean is None:
        return "–"
    return f"{mean.value:.{digits}f}" + (f" (of {mean.samples})" if mean.samples < samples else "")


def _confidence(findings: Confidence) -> list[str]:
    lines = []
    if findings.tasks:
        lines.append(f"agreement over {len(findings.tasks)} tasks: {_mean(findings.agreement)}")
        lines.append(
            f"unanimous: {_rate(findings.unanimous)} of tasks, of these right: {_rate(findings.unanimous_right)}"
        )
        if findings.calibration_error is not None:
            lines.append(f"calibration error of agreement: {findings.calibration_error:.3f}")
        if findings.separation is not None:
            lines.append(f"a right majority agrees more than a wrong one: {_percent(findings.separation)} of pairs")
        spans = [(f"{s.low:.1f}–{s.high:.1f}", str(s.tasks), _mean(s.accuracy)) for s in findings.spans]
        lines += ["", *markdown(("agreement", "tasks", "majority right"), spans), ""]
        several = [(str(p.samples), _percent(p.any_right), _percent(p.majority)) for p in findings.with_samples]
        lines += [*markdown(("samples of each task", "one right", "majority right"), several), ""]
    else:
        lines += ["Every task has one sample: nothing can be said of agreement (sample more with --k).", ""]
    lines += _curve("exactly so many turns", findings.by_turns)
    for curve in (findings.by_turn_limit, *findings.within):
        name = "turn limit" if curve is findings.by_turn_limit else f"within so many {curve.name}"
        lines += ["", *_curve(name, curve)] if curve.points else []
    return lines


def _curve(name: str, curve: Curve) -> list[str]:
    rows = [(f"{point.at:g}", str(point.samples), _mean(point.accuracy)) for point in curve.points]
    return markdown((name, "samples", "accuracy"), rows)


def _rate(rate: Rate) -> str:
    if rate.value is None:
        return "–"
    interval = "" if rate.low is None or rate.high is None else f" ({100 * rate.low:.0f}–{100 * rate.high:.0f})"
    return f"{_percent(rate.value)}{interval}"


def _mean(mean: Mean | None) -> str:
    return "–" if mean is None else f"{_percent(mean.value)} ({100 * mean.low:.0f}–{100 * mean.high:.0f})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:160]
