"""What an episode of the environment is worth: named score parts, whose weighted sum is the last step's reward.

A rubric sees the whole trajectory, gold answer included; it is called once, when the episode is over, and never for an
outage of ours.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Protocol

from saccade.record.score import CORRECT, Score
from saccade.record.trajectory import Trajectory


class Rubric(Protocol):
    """Scores one trajectory."""

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        """The parts, each under a name of its own."""


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """One part, `correct`: 1.0 if the answer is the gold answer, else 0.0; None for a task without gold answer.

    Equal means the same text but for letter case, kinds and amounts of white space, and Unicode's ways to write one
    character (NFC). Nothing else is forgiven: no letter for a choice, no unit, no `4.0` for `4`, no full stop.
    """

    weight: float = 1.0

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        gold, answer = trajectory.task.answer, trajectory.answer
        value = None if gold is None else float(answer is not None and _plain(answer) == _plain(gold))
        return (Score(name=CORRECT, value=value, weight=self.weight, detail="exact match"),)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
