"""How a caller follows a run of reinforcement learning: callbacks that decide nothing."""

from __future__ import annotations

from collections.abc import Sequence

from saccade.training.callback import TrainingCallback


class RlCallback(TrainingCallback):
    """What a run of reinforcement learning tells besides; each method does nothing until it is overridden."""

    def takes(self, sources: Sequence[str]) -> None:
        """What the run takes of its sources, a line for each, and what it leaves out and why."""

    def choosing(self, done: int, total: int) -> None:
        """A curriculum has rolled out `done` of `total` tasks."""

    def chose(self, tasks: int, total: int) -> None:
        """It leaves `tasks` of `total`."""
