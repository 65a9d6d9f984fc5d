"""What `saccade sft` shows while it works: one bar with loss, speed and time left; plain lines where no terminal is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from saccade.sft.train.examples import Examples

_LINES = 20
"""Lines that a whole run prints where the bar cannot be drawn."""


class Screen:
    """A `Watch` on standard error; a context manager."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._reading = self._progress.add_task("Reading", total=None, told="")
        self._steps = self._progress.add_task("Training", total=None, told="", visible=False)
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

    def reading(self, trajectories: int) -> None:
        """Move the first bar."""
        self._progress.update(self._reading, completed=trajectories)

    def begins(self, examples: Examples, done: int, total: int) -> None:
        """Say what is learned from, and what is not."""
        self._total = total
        tokens = sum(len(row) for row in examples.train)
        learned = sum(int(row.trained.sum()) for row in examples.train)
        self._print(
            f"{len(examples.train)} trajectories of {tokens} tokens, {learned} of them learned; "
            f"{len(examples.validation)} held out; {total} steps" + (f", {done} of them done" if done else "")
        )
        for reason, count in examples.left_out.items():
            self._print(f"left out: {count} {reason}" + (f" ({examples.refusal})" if "token form" in reason else ""))
        self._progress.update(self._reading, visible=False)
        self._progress.update(self._steps, total=total, completed=done, visible=True)

    def step(self, number: int, values: Mapping[str, float | int]) -> None:
        """Move the bar."""
        told = f"loss {values['loss']:.4f}  {values['tokens_per_second']:.0f} tokens/s"
        self._progress.update(self._steps, completed=number, told=told)
        if not self._console.is_terminal and (number % max(1, self._total // _LINES) == 0 or number == self._total):
            self._print(f"step {number}/{self._total}  {told}")

    def validated(self, number: int, values: Mapping[str, float | int]) -> None:
        """A line of its own."""
        loss, right = values["validation_loss"], values["validation_accuracy"]
        self._print(f"step {number}: loss on held-out tasks {loss:.4f}, {right:.1%} of the tokens right")

    def saved(self, path: Path) -> None:
        """Name the folder, if it is the trained model."""
        if path.name == "model":
            self._print(f"trained model: {path}")

    def _print(self, line: str) -> None:
        self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)
