"""Trajectories whose answer is not exactly the gold one (VISTA-Gym's rule for cold-start data)."""

from __future__ import annotations

import re
import unicodedata
from string import ascii_uppercase

from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import (
    KEEP,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Undecided,
    each,
)

_LETTER = re.compile(r"\(?([A-Z])\)?[.:)]?")


class ExactAnswer(FilterSettings):
    """Leaves out trajectories whose answer is not exactly the gold answer.

    Nothing is converted or judged: `5` is not `5.0`. A task without a gold answer is undecided.
    """

    fold: bool = True
    """Whether case, outer blanks, and how many blanks stand together are looked over."""
    letters: bool = True
    """Whether the letter of a choice counts as the choice."""

    def start(self, around: FilterContext) -> FilterStage:
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        gold, answer = trajectory.task.answer, trajectory.answer
        if gold is None:
            return Undecided("no gold answer")
        if answer is None:
            return Drop("no answer", f"stopped: {trajectory.stop}")
        if self.letters:
            answer = _choice(answer, trajectory.task)
        same = folded(answer) == folded(gold) if self.fold else answer == gold
        return KEEP if same else Drop("answer is not exact", f"{answer[:80]!r} for {gold[:80]!r}")


def folded(text: str) -> str:
    """`text` without differences of case, width of characters and number of blanks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _choice(answer: str, task: Task) -> str:
    """The text of the choice that a letter alone names; any other answer as it is."""
    match = _LETTER.fullmatch(answer.strip())
    if match is None or answer in task.choices:
        return answer
    index = ascii_uppercase.index(match[1])
    return task.choices[index] if index < len(task.choices) else answer
