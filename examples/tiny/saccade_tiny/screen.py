"""What a build shows while it works, and what an examination comes to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import sqrt

from saccade.plugins.worlds.cli import ExamRow
from saccade.training.sft.examples import SftCallback
from saccade.training.sft.synth.outcome import SynthProgress


class Screen:
    """A line for every part, with the minutes before it, and now and then one for how it goes."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def elapsed(self) -> str:
        """Return the minutes and seconds since the screen was made."""
        minutes, seconds = divmod(round(time.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02}"

    def part(self, name: str) -> None:
        """Say what begins, and when."""
        print(f"{self.elapsed()}  {name}", flush=True)

    def demonstrations(self, name: str, progress: SynthProgress) -> None:
        """Print a line at every fifth of a run of demonstrations."""
        if progress.done % max(1, progress.total // 5) == 0:
            line = f"  {name} {progress.done}/{progress.total}"
            wrong = progress.kept - progress.right
            print(line + (f", {wrong} wrong and left out" if wrong else ""), flush=True)

    def trainer(self) -> SftCallback:
        """Return a callback that prints plain lines."""
        return _Lines()


class _Lines(SftCallback):
    """A line for a step now and then, and for each validation."""

    def __init__(self) -> None:
        self._every = 1

    def begins(self, done: int, total: int) -> None:
        """Set the pace so that twenty lines are printed."""
        self._every = max(1, total // 20)

    def step(self, number: int, values: Mapping[str, float | int]) -> None:
        """Print loss and speed now and then."""
        if number % self._every == 0:
            print(
                f"  step {number}  loss {values['loss']:.4f}  {values['accuracy']:.1%} of the tokens right  "
                f"{values['tokens_per_second']:.0f} tokens/s",
                flush=True,
            )

    def validated(self, number: int, values: Mapping[str, float | int]) -> None:
        """Print loss and accuracy of the held-out tasks."""
        print(
            f"  held out: loss {values['validation_loss']:.4f}, {values['validation_accuracy']:.1%} right", flush=True
        )


def markdown(rows: Sequence[ExamRow]) -> str:
    """Write the rows as a Markdown table; ± is one standard error of the share."""
    lines = ["| on unseen seeds | n | without code | with code | target |", "|---|---|---|---|---|"]
    for row in rows:
        guessed = "–" if row.without_code is None else _share(row.without_code, row.tasks)
        aim = "–" if row.target is None else f"{row.target:.0%}"
        lines.append(f"| {row.name} | {row.tasks} | {guessed} | {_share(row.with_code, row.tasks)} | {aim} |")
    return "\n".join(lines)


def _share(right: int, of: int) -> str:
    share = right / of
    return f"{share:.0%} ± {sqrt(share * (1 - share) / of):.0%}"
