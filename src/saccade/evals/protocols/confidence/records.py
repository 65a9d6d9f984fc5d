"""What the confidence protocol finds: agreement across samples, accuracy against turns and budget.

A curve over a budget counts a sample as right if it was, and had ended, within the budget: what the same run would have
had if every later sample had been stopped without an answer. A model that knows its budget may do better.
"""

from __future__ import annotations

from typing import Literal

from pydantic import FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveInt

from saccade.evals.protocols.findings import Findings, Mean, Rate, SampleRow
from saccade.record.base import Name, Record, Text


class ConfidenceRow(SampleRow):
    """One sample: its answer, and what it cost to reach."""

    answer: Text
    """As the grader extracted it, plain; empty without an answer."""
    turns: NonNegativeInt
    calls: NonNegativeInt
    written: NonNegativeInt | None
    """Tokens that the model wrote; None if the backend does not say."""
    turn_limit: PositiveInt | None
    """The budget that the episode had."""


class TaskAgreement(Record):
    """The graded samples of one task that were taken more than once."""

    task: Name
    samples: NonNegativeInt
    answered: NonNegativeInt
    distinct: NonNegativeInt
    """Different answers."""
    agreement: FiniteFloat
    """Share of the samples that gave the most frequent answer, 0 to 1."""
    majority: FiniteFloat
    """Credit of that answer, ties by their mean."""
    average: FiniteFloat
    """Mean credit."""


class AgreementSpan(Record):
    """Tasks of like agreement: a bar of a reliability diagram."""

    low: FiniteFloat
    """Agreement above this (from 0 on: this or more)."""
    high: FiniteFloat
    """Up to this."""
    tasks: NonNegativeInt
    agreement: FiniteFloat
    """Mean."""
    accuracy: Mean
    """Of the most frequent answer."""


class CurvePoint(Record):
    """Accuracy at one number of turns, or within one budget."""

    at: NonNegativeFloat
    samples: NonNegativeInt
    """That ended with exactly this many turns; of a budget, within it."""
    accuracy: Mean | None


class SamplesPoint(Record):
    """Accuracy with `samples` samples of each task."""

    samples: PositiveInt
    any_right: FiniteFloat
    """pass@n, unbiased."""
    majority: FiniteFloat
    """Credit of the most frequent of the first n answers."""


class Curve(Record):
    """Points in ascending order."""

    name: Name
    points: tuple[CurvePoint, ...]


class Confidence(Findings):
    """How far samples agree, and accuracy against turns and budgets."""

    protocol: Literal["confidence"] = "confidence"
    tasks: tuple[TaskAgreement, ...]
    """Those with more than one graded sample."""
    agreement: Mean | None
    """Mean over `tasks`."""
    unanimous: Rate
    """Tasks whose samples all gave one answer, of `tasks`."""
    unanimous_right: Rate
    """Right ones among the unanimous."""
    calibration_error: FiniteFloat | None
    """Expected calibration error of agreement as confidence of the most frequent answer, over `spans`."""
    separation: FiniteFloat | None
    """Chance that a task whose majority is right has the higher agreement than one whose is wrong (AUROC)."""
    spans: tuple[AgreementSpan, ...]
    by_turns: Curve
    """Accuracy of the samples that took exactly so many turns."""
    by_turn_limit: Curve
    """Accuracy of the samples that were allowed so many turns, where a run holds several limits."""
    within: tuple[Curve, ...]
    """Accuracy within a budget of `turns`, `calls` and `written` tokens."""
    with_samples: tuple[SamplesPoint, ...]
    rows: tuple[ConfidenceRow, ...]
