"""Define a judge's verdict on one call: a score, or the typed reason why there is none.

A missing verdict never counts as zero: a rollout whose reward needs it is left out of training.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol, Self

from pydantic import FiniteFloat, model_validator

from saccade.record.base import Record, Text
from saccade.record.trajectory import Trajectory


class NoVerdict(StrEnum):
    """Why a judge gave no score."""

    MALFORMED = "malformed"
    """The judge's replies did not have the requested form."""
    OUTAGE = "outage"
    """The judge could not be reached."""
    REFUSED = "refused"
    """The judge's backend refused the request, and no retry could help."""
    NO_EVIDENCE = "no_evidence"
    """The judge needs gold boxes, and the task has none."""
    NOT_ASKED = "not_asked"
    """The rollout is only monitored, so no judge was asked."""
    UNSEEN = "unseen"
    """The pictures of the call could not be read or placed."""


class JudgeVerdict(Record):
    """A score from 0 to 1, or why there is none."""

    score: FiniteFloat | None = None
    invalid: NoVerdict | None = None
    detail: Text = ""
    """For a person."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.score is None) == (self.invalid is None):
            raise ValueError("a verdict has either a score or the reason why there is none")
        return self


class Judge(Protocol):
    """Judges the calls of a trajectory by what they returned."""

    async def judge(self, trajectory: Trajectory, turns: Collection[int]) -> tuple[JudgeVerdict | None, ...]:
        """Return a verdict for each turn whose number is in `turns`, all of them calls; None for other turns."""
