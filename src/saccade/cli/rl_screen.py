"""What `saccade rl` shows while it works: a bar with reward, accuracy and time left, or plain lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_LINES = 20
"""Lines that a whole run prints where the bar cannot be drawn."""


class Screen:
    """A `saccade.rl.train.telling.Watch` on standard error; a context manager."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("Training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._steps = self._progress.add_task("", total=None, told="")
        self._total = 0

    def __enter__(self) -> Self:
        """Draw the bar."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        self._progress.stop()

    def begins(self, done: int, total: int) -> None:
        """Draw the bar where it stands."""
        self._total = total
        self._progress.update(self._steps, total=total, completed=done)

    def step(self, number: int, values: Mapping[str, float | int]) -> None:
        """Move the bar."""
        shown = [name for name in ("reward", "accuracy", "tool_calls") if name in values]
        told = "  ".join(f"{name} {values[name]:.3f}" for name in shown)
        self._progress.update(self._steps, completed=number, told=told)
        if not self._console.is_terminal and (number % max(1, self._total // _LINES) == 0 or number == self._total):
            self._print(f"step {number}/{self._total}  {told}")

    def validated(self, number: int, values: Mapping[str, float | int]) -> None:
        """A line of its own."""
        right, calls = values.get("validation/accuracy"), values.get("validation/tool_calls", 0.0)
        told = "could not be graded" if right is None else f"{right:.1%} right"
        self._print(f"after {number} steps, held-out tasks: {told}, {calls:.2f} calls")

    def saved(self, path: Path) -> None:
        """Name the folder, if it is the trained model."""
        if path.name == "model":
            self._print(f"trained model: {path}")

    def _print(self, line: str) -> None:
        self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)
