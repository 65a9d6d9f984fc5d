"""How a caller follows a run of reinforcement learning: callbacks that decide nothing."""

from __future__ import annotations

from saccade.training.callback import TrainingCallback


class RlCallback(TrainingCallback):
    """What a run of reinforcement learning tells besides; each method does nothing until it is overridden."""

    def takes(self, tasks: int, total: int | None) -> None:
        """The run takes `tasks` of the `total` that its source has; None: it has no end."""

    def choosing(self, done: int, total: int) -> None:
        """A curriculum has rolled out `done` of `total` tasks."""

    def chose(self, tasks: int, total: int) -> None:
        """It leaves `tasks` of `total`."""
