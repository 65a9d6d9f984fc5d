"""Pixel-Reasoner's curiosity as verl-tool computes it: tools pay while the group uses them too little.

    R = accuracy + 0.5 max(0, 0.3 - rate) · [a call was made] + 0.05 min(1 - valid calls, 0)

The rate is the share of the group's rollouts that made a valid call. verl-tool's asynchronous path computes it over a
single rollout, so that the bonus is never paid; here it is the group's.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from saccade.record.score import Score
from saccade.record.settings import Settings
from saccade.record.trajectory import Trajectory
from saccade.rewards.reading import accuracy, calls, succeeded
from saccade.rewards.reward import Reward, RewardGroup, mean_of, reward_each


class PixelReasonerReward(Settings):
    """Accuracy, curiosity and a price for each call after the first."""

    curiosity_weight: float = 0.5
    target: float = 0.3
    """Share of rollouts with a call below which curiosity is paid."""
    redundancy_weight: float = 0.05

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy`, `curiosity` and `redundancy`; observed: `rate`."""
        used = [None if item.lost else float(_valid(item) > 0) for item in group.trajectories]
        rate = mean_of(used)
        return reward_each(group, lambda number, trajectory: self._reward(trajectory, rate))

    def _reward(self, trajectory: Trajectory, rate: float | None) -> Reward:
        valid = _valid(trajectory)
        curious = None if rate is None else max(0.0, self.target - rate) * float(valid > 0)
        return Reward(
            parts=(
                Score(name="accuracy", value=accuracy(trajectory)),
                Score(name="curiosity", value=curious, weight=self.curiosity_weight),
                Score(name="redundancy", value=float(min(1 - valid, 0)), weight=self.redundancy_weight),
                Score(name="rate", value=rate, weight=0.0),
            )
        )


def _valid(trajectory: Trajectory) -> int:
    return sum(succeeded(trajectory.turns[number]) for number in calls(trajectory))


PRESETS: Final = MappingProxyType({"verl-tool": PixelReasonerReward()})
