"""Shows a training run while it works: a bar with a few numbers and the time left, or plain lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from saccade.cli.output import plain_column, plain_console
from saccade.training.launch import is_first
from saccade.training.parts import Metrics, TrainingCallback
from saccade.training.rl.metrics import RlCallback
from saccade.training.sft.examples import SftCallback, TrainingExamples

_LINES = 20
"""Lines that a whole run prints where the bar cannot be drawn."""


class TrainScreen(TrainingCallback, ABC):
    """A callback that draws on standard error, for every trainer; a context manager.

    Of several processes only the first draws.
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
        """Move the bar; without a terminal, print a line now and then."""
        summary = self.summary(values)
        self.progress.update(self._steps, completed=number, summary=summary)
        if not self.console.is_terminal and (number % max(1, self._total // _LINES) == 0 or number == self._total):
            self.print(f"step {number}/{self._total}  {summary}")

    @abstractmethod
    def summary(self, values: Metrics) -> str:
        """Return the numbers of a step as a short text."""

    def saved(self, path: Path) -> None:
        """Name the folder, if it is the trained model."""
        if path.name == "model":
            self.print(f"trained model: {path}")

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self.progress.console.print(line, highlight=False, markup=False, soft_wrap=True)


class RlScreen(TrainScreen, RlCallback):
    """Shows reward, accuracy and calls of each step of `saccade rl`."""

    def __init__(self) -> None:
        super().__init__()
        self._choosing = self.progress.add_task("Choosing tasks", total=None, summary="", visible=False)

    def takes(self, sources: Sequence[str]) -> None:
        """Print a line for each source."""
        for line in sources:
            self.print(f"trained on {line}")

    def choosing(self, done: int, total: int) -> None:
        """Move the bar of the choice."""
        self.progress.update(self._choosing, completed=done, total=total, visible=done < total)

    def chose(self, tasks: int, total: int) -> None:
        """Print a line."""
        self.print(f"{tasks} of {total} tasks have a pass rate in the curriculum's band, and are trained on")

    def summary(self, values: Metrics) -> str:
        """Return the numbers that have a value."""
        shown = [name for name in ("reward", "accuracy", "tool_calls") if name in values]
        return "  ".join(f"{name} {values[name]:.3f}" for name in shown)

    def validated(self, number: int, values: Metrics) -> None:
        """Print a line."""
        right, calls = values.get("validation/accuracy"), values.get("validation/tool_calls", 0.0)
        grade = "could not be graded" if right is None else f"{right:.1%} right"
        self.print(f"after {number} steps, held-out tasks: {grade}, {calls:.2f} calls")


class SftScreen(TrainScreen, SftCallback):
    """Shows the data of `saccade sft`, then loss and speed of each step."""

    def __init__(self) -> None:
        super().__init__()
        self._examples: TrainingExamples | None = None
        self._reading = self.progress.add_task("Reading", total=None, summary="")

    def reading(self, trajectories: int) -> None:
        """Move the first bar."""
        self.progress.update(self._reading, completed=trajectories)

    def learns_from(self, examples: TrainingExamples) -> None:
        """Keep them until training begins."""
        self._examples = examples

    def begins(self, done: int, total: int) -> None:
        """Print what is learned from, and what is left out."""
        if (examples := self._examples) is not None:
            tokens = sum(len(row) for row in examples.train)
            learned = sum(int(row.trained.sum()) for row in examples.train)
            self.print(
                f"{len(examples.train)} trajectories of {tokens} tokens, {learned} of them learned; "
                f"{len(examples.validation)} held out; {total} steps" + (f", {done} of them done" if done else "")
            )
            for reason, count in examples.left_out.items():
                self.print(f"left out: {count} {reason}" + (f" ({examples.refusal})" if "token form" in reason else ""))
        self.progress.update(self._reading, visible=False)
        super().begins(done, total)

    def summary(self, values: Metrics) -> str:
        """Return loss and speed of the whole step, over all processes."""
        return f"loss {values['loss']:.4f}  {values['tokens_per_second']:.0f} tokens/s"

    def validated(self, number: int, values: Metrics) -> None:
        """Print a line."""
        loss, right = values["validation_loss"], values["validation_accuracy"]
        self.print(f"step {number}: loss on held-out tasks {loss:.4f}, {right:.1%} of the tokens right")
