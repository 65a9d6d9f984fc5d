"""What `saccade rl` shows while it works: reward, accuracy and calls of each step."""

from __future__ import annotations

from collections.abc import Sequence

from saccade.cli.train_screen import TrainScreen
from saccade.rl.train.metrics import RlCallback
from saccade.training.callback import Metrics


class RlScreen(TrainScreen, RlCallback):
    """Draws bars, and says in a line what has no bar."""

    def __init__(self) -> None:
        super().__init__()
        self._choosing = self.progress.add_task("Choosing tasks", total=None, summary="", visible=False)

    def takes(self, sources: Sequence[str]) -> None:
        """A line for each, also where nothing is left out."""
        for line in sources:
            self.print(f"trained on {line}")

    def choosing(self, done: int, total: int) -> None:
        """Move a bar of its own."""
        self.progress.update(self._choosing, completed=done, total=total, visible=done < total)

    def chose(self, tasks: int, total: int) -> None:
        """A line of its own."""
        self.print(f"{tasks} of {total} tasks have a pass rate in the curriculum's band, and are trained on")

    def summary(self, values: Metrics) -> str:
        """Those that have a value."""
        shown = [name for name in ("reward", "accuracy", "tool_calls") if name in values]
        return "  ".join(f"{name} {values[name]:.3f}" for name in shown)

    def validated(self, number: int, values: Metrics) -> None:
        """A line of its own."""
        right, calls = values.get("validation/accuracy"), values.get("validation/tool_calls", 0.0)
        grade = "could not be graded" if right is None else f"{right:.1%} right"
        self.print(f"after {number} steps, held-out tasks: {grade}, {calls:.2f} calls")
