"""How a caller follows a supervised run: callbacks that decide nothing."""

from __future__ import annotations

from saccade.sft.train.examples import TrainingExamples
from saccade.training.callback import TrainingCallback


class SftCallback(TrainingCallback):
    """What a supervised run tells besides; each method does nothing until it is overridden."""

    def reading(self, trajectories: int) -> None:
        """So many trajectories were made into tokens."""

    def learns_from(self, examples: TrainingExamples) -> None:
        """What was read, before training begins."""
