"""What the faithfulness protocol finds (CodeV, section 3 and appendix 8; its figures 2 and 5 and table 5).

A sample is faithful by `any_crop` if one of its pictures is, by `every_crop` if all are. A sample that called something
and got no picture is unfaithful: nothing it was shown is evidence. What a judge could not say is `undecided`, which is
an outcome of its own and stays in every denominator.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from pydantic import FiniteFloat, NonNegativeInt

from saccade.evals.protocols.findings import Findings, Rate, SampleExamples, SampleRow
from saccade.record.base import Record, Sha256, Text
from saccade.rewards.judges.verdict import NoVerdict

JudgeKind = Literal["model", "boxes"]


class ToolUseOutcome(StrEnum):
    """What a sample's tool use was."""

    FAITHFUL = "faithful"
    UNFAITHFUL = "unfaithful"
    NO_TOOL = "no_tool"
    """The sample has no call."""
    UNDECIDED = "undecided"
    """The judge gave no verdict on a picture that would decide."""


class PictureVerdict(Record):
    """One judge on one picture that came back."""

    turn: NonNegativeInt
    """From 0."""
    sha256: Sha256
    shows: bool | None
    """Whether the picture shows what the question asks about; None without a verdict."""
    invalid: NoVerdict | None = None
    detail: Text = ""


class JudgedSample(Record):
    """One judge on one sample."""

    judge: JudgeKind
    any_crop: ToolUseOutcome
    every_crop: ToolUseOutcome
    pictures: tuple[PictureVerdict, ...] = ()


class FaithfulnessRow(SampleRow):
    """One sample, as each judge saw it."""

    calls: NonNegativeInt
    judged: tuple[JudgedSample, ...]
    """One for each judge."""


class OutcomeShares(Record):
    """The four outcomes of some samples; they add up to all."""

    faithful: Rate
    unfaithful: Rate
    no_tool: Rate
    undecided: Rate


class FaithfulnessRates(Record):
    """The rates with both denominators."""

    of_all: OutcomeShares
    """Over all samples, right or wrong (figure 5)."""
    of_correct: OutcomeShares
    """Over the samples with a right answer (figure 2)."""
    faithful_and_correct: Rate
    """Right and faithful, over all samples (algorithm 1 and table 5)."""


class JudgeFindings(Record):
    """What one judge says of the run."""

    judge: JudgeKind
    name: Text
    """The model, or the rule about boxes."""
    any_crop: FaithfulnessRates
    every_crop: FaithfulnessRates
    sources: Mapping[str, FaithfulnessRates]
    """By benchmark, any crop."""
    pictures: Rate
    """Pictures that show evidence, of those with a verdict."""
    invalid: Mapping[str, int]
    """Pictures without a verdict, by the reason."""
    without_picture: NonNegativeInt
    """Samples that called something and got no picture back."""
    examples: tuple[SampleExamples, ...]
    """By outcome of any crop."""


class JudgeAgreement(Record):
    """Two judges on the same things, those without a verdict by both left out."""

    both: NonNegativeInt
    only_model: NonNegativeInt
    only_boxes: NonNegativeInt
    neither: NonNegativeInt
    same: Rate
    """Raw agreement."""
    kappa: FiniteFloat | None
    """Cohen's kappa; None where chance alone gives full agreement."""


class Faithfulness(Findings):
    """How often an answer rests on the evidence, by each judge."""

    protocol: Literal["faithfulness"] = "faithfulness"
    judges: tuple[JudgeFindings, ...]
    agreement_pictures: JudgeAgreement | None
    """Between the model and the boxes; None unless both judged."""
    agreement_samples: JudgeAgreement | None
    """Any crop; samples that are faithful or unfaithful to both."""
    rows: tuple[FaithfulnessRow, ...]
