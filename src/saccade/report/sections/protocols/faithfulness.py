"""Faithfulness (CodeV): whether right answers rest on pictures that show what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from saccade.evals.protocols.faithfulness.records import (
    Faithfulness,
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
    notes += [_agreement(name, one) for name, one in findings.items() if one.agreement_samples is not None]
    return Panel(
        "Faithfulness",
        tuple(notes),
        (
            _sheet(judged, ("any crop", "all samples")),
            _sheet(judged, ("any crop", "right answers")),
            _sheet(judged, ("every crop", "all samples"), folded=True),
            _sheet(judged, ("every crop", "right answers"), folded=True),
            *_published(findings),
        ),
        figures(_figure("all samples", judged), _figure("right answers", judged)),
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


def _agreement(run: str, findings: Faithfulness) -> str:
    assert findings.agreement_samples is not None  # asked by the caller
    kappa = findings.agreement_samples.kappa
    return (
        f"{run}: both judges agree on {rate(findings.agreement_samples.same)}% of "
        f"{findings.agreement_samples.same.of:,} samples that both "
        f"decided (Cohen's kappa {NONE if kappa is None else f'{kappa:.2f}'})."
    )


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
