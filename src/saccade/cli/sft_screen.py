"""What `saccade sft` shows while it works: what is learned from, then loss and speed of each step."""

from __future__ import annotations

from saccade.cli.train_screen import TrainScreen
from saccade.sft.train.callback import SftCallback
from saccade.sft.train.examples import TrainingExamples
from saccade.training.callback import Metrics


class SftScreen(TrainScreen, SftCallback):
    """Draws bars, and says in a line what has no bar."""

    def __init__(self) -> None:
        super().__init__()
        self._examples: TrainingExamples | None = None
        self._reading = self.progress.add_task("Reading", total=None, summary="")

    def reading(self, trajectories: int) -> None:
        """Move the first bar."""
        self.progress.update(self._reading, completed=trajectories)

    def learns_from(self, examples: TrainingExamples) -> None:
        """Said when training begins."""
        self._examples = examples

    def begins(self, done: int, total: int) -> None:
        """Say what is learned from, and what is not."""
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
        """Of the whole step, over all processes."""
        return f"loss {values['loss']:.4f}  {values['tokens_per_second']:.0f} tokens/s"

    def validated(self, number: int, values: Metrics) -> None:
        """A line of its own."""
        loss, right = values["validation_loss"], values["validation_accuracy"]
        self.print(f"step {number}: loss on held-out tasks {loss:.4f}, {right:.1%} of the tokens right")
