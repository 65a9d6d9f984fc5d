"""Splits that stay what they are when data are added: each task or picture falls by its own hash."""

from __future__ import annotations

from hashlib import sha256
from itertools import accumulate
from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import (
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Keep,
    each,
    task_pictures,
)


class SplitFilter(FilterSettings):
    """Gives every task a split by a seeded hash of its id or of its pictures; leaves out nothing.

    Shares are met on average, not exactly. All rollouts of one task fall into one split; with `picture`, all tasks
    that have the same pictures (or, without pictures, the same id).
    """

    ABOUT_TASKS = True

    shares: dict[str, PositiveFloat] = Field(default_factory=lambda: {"train": 0.9, "validation": 0.1})
    """Split -> weight."""
    by: Literal["task", "picture"] = "picture"
    seed: int = 0

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.shares:
            raise ValueError("shares names no split")
        return self

    def start(self, around: FilterContext) -> FilterStage:
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        task = trajectory.task
        pictures = [part.sha256 for part in task_pictures(trajectory)] if self.by == "picture" else []
        point = unit_hash(self.seed, *(pictures or [task.id])) * sum(self.shares.values())
        ends = accumulate(self.shares.values())
        name = next((name for name, end in zip(self.shares, ends, strict=True) if point < end), next(iter(self.shares)))
        return Keep(trajectory.model_copy(update={"task": task.model_copy(update={"split": name})}))


def unit_hash(seed: int, *texts: str) -> float:
    """A number in [0, 1) that depends on seed and texts alone."""
    digest = sha256("\0".join([str(seed), *texts]).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
