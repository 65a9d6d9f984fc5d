"""The faithfulness protocol (CodeV, algorithm 1), with both denominators and both ways to judge a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from saccade.evals.agreement import table
from saccade.evals.protocols.base import Protocol, Studied
from saccade.evals.protocols.faithfulness.judges import JudgeVerdicts, box_verdicts, pictures
from saccade.evals.protocols.faithfulness.records import (
    Faithfulness,
    FaithfulnessRates,
    FaithfulnessRow,
    JudgeAgreement,
    JudgedSample,
    JudgeFindings,
    JudgeKind,
    OutcomeShares,
    PictureVerdict,
    ToolUseOutcome,
)
from saccade.evals.protocols.findings import Rate, StudiedRun, examples
from saccade.evals.protocols.rates import Rates
from saccade.evals.rows import natural
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.box import BoxRule
from saccade.rewards.reading import calls

_BOXES: Final = BoxRule()
_RULE: Final = f"gold boxes: {_BOXES.contained:.0%} of one inside, at most {_BOXES.largest:.0%} of the picture"


def row(studied: Studied) -> FaithfulnessRow:
    """One sample, judged by the model where there are its verdicts, and by the boxes."""
    trajectory = studied.trajectory
    judged = [] if studied.verdicts is None else [_judged("model", trajectory, studied.verdicts)]
    needed = trajectory.task.evidence and any(map(pictures, trajectory.turns))
    judged.append(_judged("boxes", trajectory, box_verdicts(trajectory, studied.regions if needed else ())))
    return FaithfulnessRow(**studied.head, calls=len(calls(trajectory)), judged=tuple(judged))


def findings(rows: Sequence[FaithfulnessRow], about: StudiedRun) -> Faithfulness:
    """The findings of all rows."""
    kinds: list[JudgeKind] = ["model"] if about.judge else []
    if not about.judge or _some_verdict(rows, "boxes"):
        kinds.append("boxes")
    rates = Rates(rows)
    both = len(kinds) == 2
    return Faithfulness(
        about=about,
        judges=tuple(_of_judge(kind, rows, rates, about.judge) for kind in kinds),
        agreement_pictures=agreement(_picture_pairs(rows)) if both else None,
        agreement_samples=agreement(_sample_pairs(rows)) if both else None,
        rows=tuple(rows),
    )


def outcome(shown: Iterable[bool | None], called: bool, every: bool) -> ToolUseOutcome:
    """The outcome of a sample whose pictures were judged as `shown`, None where there was no verdict."""
    listed = list(shown)
    if not called:
        return ToolUseOutcome.NO_TOOL
    if not listed:
        return ToolUseOutcome.UNFAITHFUL
    if every:
        decided, other = (
            (ToolUseOutcome.UNFAITHFUL, ToolUseOutcome.FAITHFUL) if False in listed else (None, ToolUseOutcome.FAITHFUL)
        )
    else:
        decided, other = (
            (ToolUseOutcome.FAITHFUL, ToolUseOutcome.UNFAITHFUL)
            if True in listed
            else (None, ToolUseOutcome.UNFAITHFUL)
        )
    return decided or (ToolUseOutcome.UNDECIDED if None in listed else other)


def _judged(kind: JudgeKind, trajectory: Trajectory, verdicts: JudgeVerdicts) -> JudgedSample:
    found = tuple(
        PictureVerdict(
            turn=number,
            sha256=part.sha256,
            shows=None if verdict.score is None else verdict.score >= 1,
            invalid=verdict.invalid,
            detail=verdict.detail,
        )
        for number, (turn, row) in enumerate(zip(trajectory.turns, verdicts, strict=True))
        for part, verdict in zip(pictures(turn), row, strict=True)
    )
    called = bool(calls(trajectory))
    shown = [one.shows for one in found]
    return JudgedSample(
        judge=kind,
        any_crop=outcome(shown, called, every=False),
        every_crop=outcome(shown, called, every=True),
        pictures=found,
    )


def _of_judge(kind: JudgeKind, rows: Sequence[FaithfulnessRow], rates: Rates, judge: str) -> JudgeFindings:
    samples = [_sample(row, kind) for row in rows]
    any_crop = [sample.any_crop for sample in samples]
    sources = sorted({row.source for row in rows}, key=natural)
    verdicts = [one for sample in samples for one in sample.pictures]
    shown = [[one.shows for one in sample.pictures if one.shows is not None] for sample in samples]
    return JudgeFindings(
        judge=kind,
        name=judge if kind == "model" else _RULE,
        any_crop=_rates(rows, any_crop, rates),
        every_crop=_rates(rows, [sample.every_crop for sample in samples], rates),
        sources={source: _rates(rows, any_crop, rates, source) for source in sources} if len(sources) > 1 else {},
        pictures=rates.shares([[(sum(one), len(one)) for one in shown]])[0],
        invalid=dict(sorted(Counter(str(one.invalid) for one in verdicts if one.invalid is not None).items())),
        without_picture=sum(row.calls > 0 and not one.pictures for row, one in zip(rows, samples, strict=True)),
        examples=examples((found.value, row.id) for row, found in zip(rows, any_crop, strict=True)),
    )


def _rates(
    rows: Sequence[FaithfulnessRow], outcomes: Sequence[ToolUseOutcome], rates: Rates, source: str | None = None
) -> FaithfulnessRates:
    pairs = list(zip(rows, outcomes, strict=True))
    inside = [source is None or row.source == source for row in rows]
    right = [here and row.right for row, here in zip(rows, inside, strict=True)]
    graded = [here and row.correct is not None for row, here in zip(rows, inside, strict=True)]

    def columns(among: Sequence[bool]) -> Iterator[list[bool | None]]:
        for wanted in ToolUseOutcome:
            yield [found is wanted if here else None for found, here in zip(outcomes, among, strict=True)]

    both = [
        row.right and found is ToolUseOutcome.FAITHFUL if here else None
        for (row, found), here in zip(pairs, graded, strict=True)
    ]
    found = rates.rates([*columns(inside), *columns(right), both])
    count = len(ToolUseOutcome)
    return FaithfulnessRates(
        of_all=_shares(found[:count]), of_correct=_shares(found[count:-1]), faithful_and_correct=found[-1]
    )


def _shares(rates: Sequence[Rate]) -> OutcomeShares:
    return OutcomeShares(**{outcome.value: rate for outcome, rate in zip(ToolUseOutcome, rates, strict=True)})


def _sample(row: FaithfulnessRow, kind: JudgeKind) -> JudgedSample:
    return next(sample for sample in row.judged if sample.judge == kind)


def _picture_pairs(rows: Sequence[FaithfulnessRow]) -> Iterator[tuple[bool | None, bool | None]]:
    for row in rows:
        pairs = zip(_sample(row, "model").pictures, _sample(row, "boxes").pictures, strict=True)
        yield from ((model.shows, boxes.shows) for model, boxes in pairs)


def _sample_pairs(rows: Sequence[FaithfulnessRow]) -> Iterator[tuple[bool | None, bool | None]]:
    said = {ToolUseOutcome.FAITHFUL: True, ToolUseOutcome.UNFAITHFUL: False}
    for row in rows:
        yield said.get(_sample(row, "model").any_crop), said.get(_sample(row, "boxes").any_crop)


def _some_verdict(rows: Sequence[FaithfulnessRow], kind: JudgeKind) -> bool:
    return any(one.shows is not None for row in rows for one in _sample(row, kind).pictures)


PROTOCOL: Final = Protocol("faithfulness", "Faithfulness of tool use (CodeV)", Faithfulness, row, findings)


def agreement(pairs: Iterable[tuple[bool | None, bool | None]]) -> JudgeAgreement:
    """Verdicts of the model and of the boxes on the same things; pairs with a None are left out."""
    counts = table(pairs)
    return JudgeAgreement(
        both=counts.both,
        only_model=counts.only_first,
        only_boxes=counts.only_second,
        neither=counts.neither,
        same=Rate(count=counts.same, of=counts.of),
        kappa=counts.kappa,
    )
