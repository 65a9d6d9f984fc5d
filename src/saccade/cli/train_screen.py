"""What a training run shows while it works: a bar with a few numbers and the time left, or plain lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from saccade.cli.plain import plain_column, plain_console
from saccade.training.callback import Metrics, TrainingCallback
from saccade.training.launch import is_first

_LINES = 20
"""Lines that a whole run prints where the bar cannot be drawn."""


class TrainScreen(TrainingCallback, ABC):
    """The part of a callback, on standard error, that is the same for every trainer; a context manager.

    Of several processes the first one draws.
    """

    def __init__(self) -> None:
        self.console = plain_console(stderr=True)
        self.progress = Progress(
            plain_column("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            plain_column("{task.fields[summary]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (self.console.is_terminal and is_first()),
        )
        self._steps = self.progress.add_task("Training", total=None, summary="", visible=False)
        self._total = 0

    def __enter__(self) -> Self:
        """Draw."""
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        self.progress.stop()

    def begins(self, done: int, total: int) -> None:
        """Draw the bar where it stands."""
        self._total = total
        self.progress.update(self._steps, total=total, completed=done, visible=True)

    def step(self, number: int, values: Metrics) -> None:
        """Move the bar; where there is none, now and then a line."""
        summary = self.summary(values)
        self.progress.update(self._steps, completed=number, summary=summary)
        if not self.console.is_terminal and (number % max(1, self._total // _LINES) == 0 or number == self._total):
            self.print(f"step {number}/{self._total}  {summary}")

    @abstractmethod
    def summary(self, values: Metrics) -> str:
        """What is shown of a step."""

    def saved(self, path: Path) -> None:
        """Name the folder, if it is the trained model."""
        if path.name == "model":
            self.print(f"trained model: {path}")

    def print(self, line: str) -> None:
        """A line above the bar."""
        self.progress.console.print(line, highlight=False, markup=False, soft_wrap=True)
