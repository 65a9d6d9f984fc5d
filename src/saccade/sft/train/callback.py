"""How a caller follows a run: callbacks that decide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from saccade.sft.train.examples import TrainingExamples


class SftCallback:
    """Is called as a run progresses, in the process that writes; override what you need, each method does nothing."""

    def reading(self, trajectories: int) -> None:
        """So many trajectories were made into tokens."""

    def begins(self, examples: TrainingExamples, done: int, total: int) -> None:
        """Training begins after `done` of `total` steps."""

    def step(self, number: int, values: Mapping[str, float | int]) -> None:
        """Step `number` (from 1) is done."""

    def validated(self, number: int, values: Mapping[str, float | int]) -> None:
        """Loss and accuracy on the held-out rows were computed after `number` steps."""

    def saved(self, path: Path) -> None:
        """A checkpoint, or the trained model, was written there."""
