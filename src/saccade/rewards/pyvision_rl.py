"""PyVision-RL's accumulative tool reward: accuracy, and a little for every call of a right rollout (paper, equation 1).

`paper` pays for all calls of a right rollout, repeated and silent ones too: so does the formula. `repo` adds the gate
of the released code: an answer of any other form than the strict one is wrong. Not taken over from there: a bonus
for right rollouts whose answer is too long to count, and a number read from the first digits of the whole text.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pydantic import Field

from saccade.record.score import Score
from saccade.record.settings import Settings
from saccade.record.trajectory import Trajectory
from saccade.rewards.form import boxed_answer
from saccade.rewards.reading import accuracy, calls, failed
from saccade.rewards.reward import Reward, RewardGroup, reward_each


class PyVisionRlReward(Settings):
    """R = accuracy + 0.1 · calls · [right]."""

    tool_weight: float = 0.1
    right_from: float = Field(default=1.0, gt=0, le=1)
    """Accuracy from which a rollout is right: 1 as the paper writes it, 0.5 in the code."""
    count_failed: bool = True
    """Whether calls that failed count; in the published runtime none can precede a right answer."""
    strict_form: bool = False
    """Whether an answer must stand in a box on a line of its own between answer tags."""

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy` and `tool_calls`; observed beside them: `calls`."""
        return reward_each(group, self._reward)

    def _reward(self, number: int, trajectory: Trajectory) -> Reward:
        value = accuracy(trajectory)
        gated = value is not None and self.strict_form and not boxed_answer(trajectory)
        value = 0.0 if gated else value
        counted = [turn for turn in calls(trajectory) if self.count_failed or not failed(trajectory.turns[turn])]
        paid = None if value is None else float(len(counted) if value >= self.right_from else 0)
        return Reward(
            parts=(
                Score(name="accuracy", value=value, detail="the answer has not the strict form" if gated else ""),
                Score(name="tool_calls", value=paid, weight=self.tool_weight),
                Score(name="calls", value=float(len(counted)), weight=0.0),
            )
        )


PRESETS: Final = MappingProxyType(
    {"paper": PyVisionRlReward(), "repo": PyVisionRlReward(right_from=0.5, strict_form=True)}
)
