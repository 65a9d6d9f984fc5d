"""What a protocol is: a row from each sample, and findings from all rows. Both are pure; rows are small.

So a run is read once, one trajectory at a time, for all protocols together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

from saccade.evals.protocols.findings import Findings, SampleRow, StudiedRun
from saccade.looks.regions import PictureReader, Region, regions
from saccade.record.score import CORRECT
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.verdict import JudgeVerdict

R = TypeVar("R", bound=SampleRow)
F = TypeVar("F", bound=Findings)


@dataclass(frozen=True)
class Studied:
    """One sample, and what protocols may ask about it."""

    trajectory: Trajectory
    book: PictureReader
    verdicts: tuple[tuple[JudgeVerdict, ...], ...] | None = None
    """A model's verdicts, for each turn one for each picture; None if no model was asked."""
    budget: str = "qwen2.5-vl"
    """Name of the pixel budget by which visual tokens are estimated."""

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """Where the sample looked; decodes pictures, so it is found when first asked for."""
        return regions(self.trajectory, self.book)

    @property
    def head(self) -> dict[str, Any]:
        """The fields that every row begins with."""
        one = self.trajectory
        return {
            "id": one.id,
            "task": one.task.id,
            "rollout": one.rollout,
            "source": one.task.source,
            "correct": next((score.value for score in one.scores if score.name == CORRECT), None),
        }


@dataclass(frozen=True, slots=True)
class Protocol(Generic[R, F]):
    """One study of a stored run: how a sample becomes a row, and rows become findings."""

    name: str
    title: str
    kind: type[F]
    """What it finds."""
    row: Callable[[Studied], R]
    findings: Callable[[Sequence[R], StudiedRun], F]
    """Of rows in the order of tasks and rollouts."""


AnyProtocol: TypeAlias = Protocol[Any, Any]
"""A protocol, whatever it finds."""
