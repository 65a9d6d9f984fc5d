"""DeepEyes' reward as its code has it: right, in form, and a picture was asked for on the way to a right answer.

`repo` is for visual tasks (0.8 accuracy, 0.2 format, 1.2 tool), `math` for text-like ones (1.2, 0.4, no tool). The
tool part is one lump: a second call pays nothing. There, a judge reads the whole text where there is no answer; here a
missing answer is wrong.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from saccade.record.score import Score
from saccade.record.settings import Settings
from saccade.record.trajectory import Trajectory
from saccade.rewards.form import tags_in_order
from saccade.rewards.reading import accuracy, calls, returned_pictures
from saccade.rewards.reward import Reward, RewardGroup, reward_each

_TAGS: Final = ("think", "tool_call", "code", "answer")
RIGHT: Final = 0.5


class DeepEyesReward(Settings):
    """R = 0.8 accuracy + 0.2 format + 1.2 [a picture came back and right]; format is -1 or 0."""

    accuracy_weight: float = 0.8
    format_weight: float = 0.2
    tool_weight: float = 1.2

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy`, `format` and `tool`; observed: `calls`."""
        return reward_each(group, self._reward)

    def _reward(self, number: int, trajectory: Trajectory) -> Reward:
        right = accuracy(trajectory)
        used = None if right is None else float(right > RIGHT and returned_pictures(trajectory) > 0)
        return Reward(
            parts=(
                Score(name="accuracy", value=right, weight=self.accuracy_weight),
                Score(
                    name="format", value=0.0 if tags_in_order(trajectory, _TAGS) else -1.0, weight=self.format_weight
                ),
                Score(name="tool", value=used, weight=self.tool_weight),
                Score(name="calls", value=float(len(calls(trajectory))), weight=0.0),
            )
        )


PRESETS: Final = MappingProxyType(
    {"repo": DeepEyesReward(), "math": DeepEyesReward(accuracy_weight=1.2, format_weight=0.4, tool_weight=0.0)}
)
