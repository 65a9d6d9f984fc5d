"""Faithfulness (CodeV): whether right answers rest on pictures that show what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from saccade.evals.protocols.faithfulness.records import (
    Faithfulness,
    JudgeAgreement,
    JudgeFindings,
    ToolUseOutcome,
)
from saccade.evals.protocols.faithfulness.records import OutcomeShares as Rates
from saccade.evals.protocols.findings import Rate
from saccade.report.plots.bars import StackedBar, shares
from saccade.report.plots.figure import Figure, hue
from saccade.report.sections.results import card_of
from saccade.report.sections.view import Panel, SectionRow, SectionTable, figures, rate
from saccade.report.words import NONE

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
    """The panel; None where nothing was judged."""
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
    """Whose verdicts these are."""
    return f"{run} ({_JUDGES[judge.judge]})"


def outcome_of(findings: Faithfulness) -> Iterator[tuple[str, str]]:
    """Of each sample its id and its outcome in words, any crop: by the model, or by boxes where no model judged."""
    for row in findings.rows:
        judged = {one.judge: one.any_crop for one in row.judged}
        outcome = judged.get("model", judged.get("boxes"))
        if outcome is not None:
            yield row.id, TOOL_USE[outcome]


def _sheet(judged: Sequence[_Judged], kind: tuple[str, str], folded: bool = False) -> SectionTable:
    """The rates of one variant (any or every crop) with one denominator (all samples or right answers)."""
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
    """What papers report as right and faithful on the same benchmarks."""
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
