"""Thyme's reward as its code has it: right, in form, and a thought that agrees with the answer, paid only if right.

Whether thought and answer agree is the score `consistent` that a judge must have put on the trajectory
(`reward.consistency_judge` of a recipe); without it a right rollout has no total, and a wrong one needs none.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from saccade.record.score import Score
from saccade.record.settings import Settings
from saccade.record.trajectory import Trajectory
from saccade.rewards.form import one_thought_one_answer
from saccade.rewards.judges.consistency import CONSISTENT
from saccade.rewards.reading import accuracy
from saccade.rewards.reward import Reward, RewardGroup, reward_each


class ThymeReward(Settings):
    """R = accuracy + 0.5 format + 0.5 consistency · [accuracy > 0]."""

    accuracy_weight: float = 1.0
    format_weight: float = 0.5
    consistency_weight: float = 0.5

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy`, `format` and `consistency`."""
        return reward_each(group, self._reward)

    def needs_consistency(self, trajectory: Trajectory) -> bool:
        """Whether the judge must be asked about a trajectory: only a right one is paid for it."""
        return self.consistency_weight != 0 and not trajectory.lost and (accuracy(trajectory) or 0.0) > 0

    def _reward(self, number: int, trajectory: Trajectory) -> Reward:
        right = accuracy(trajectory)
        consistency = next((score for score in trajectory.scores if score.name == CONSISTENT), Score(name=CONSISTENT))
        agrees = 0.0 if right is not None and right <= 0 else None if right is None else consistency.value
        return Reward(
            parts=(
                Score(name="accuracy", value=right, weight=self.accuracy_weight),
                Score(name="format", value=float(one_thought_one_answer(trajectory)), weight=self.format_weight),
                Score(name="consistency", value=agrees, weight=self.consistency_weight, detail=consistency.detail),
            )
        )


PRESETS: Final = MappingProxyType({"repo": ThymeReward()})
