"""How a caller follows a training run: callbacks that decide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

Metrics: TypeAlias = Mapping[str, float | int]


class TrainingCallback:
    """Is called as a run progresses, in the process that writes; override what you need, each method does nothing."""

    def begins(self, done: int, total: int) -> None:
        """Training begins after `done` of `total` steps."""

    def step(self, number: int, values: Metrics) -> None:
        """Step `number` (from 1) is done."""

    def validated(self, number: int, values: Metrics) -> None:
        """Held-out data were looked at after `number` steps."""

    def saved(self, path: Path) -> None:
        """A checkpoint, or the trained model, was written there."""
