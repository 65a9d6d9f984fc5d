"""How the outside sees a run: nothing here decides anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from saccade.sft.train.examples import TrainingExamples


class Watch(Protocol):
    """Hears what a run does, in the process that writes."""

    def reading(self, trajectories: int) -> None:
        """So many trajectories were made into tokens."""

    def begins(self, examples: TrainingExamples, done: int, total: int) -> None:
        """Training begins after `done` of `total` steps."""

    def step(self, number: int, values: Mapping[str, float | int]) -> None:
        """Step `number` (from 1) is done."""

    def validated(self, number: int, values: Mapping[str, float | int]) -> None:
        """The held-out rows were looked at after `number` steps."""

    def saved(self, path: Path) -> None:
        """A checkpoint, or the trained model, was written there."""


class NoWatch:
    """Hears and says nothing."""

    def reading(self, trajectories: int) -> None: ...
    def begins(self, examples: TrainingExamples, done: int, total: int) -> None: ...
    def step(self, number: int, values: Mapping[str, float | int]) -> None: ...
    def validated(self, number: int, values: Mapping[str, float | int]) -> None: ...
    def saved(self, path: Path) -> None: ...
