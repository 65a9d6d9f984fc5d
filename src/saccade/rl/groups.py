"""Groups of rollouts as selection sees them: a reward, whether it was right, and what is wrong with it.

Everything is read from typed stop reasons and statuses. A lost rollout is an outage of ours: no rule keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from saccade.errors import TrainingError
from saccade.record.action import ParseError
from saccade.record.status import Status
from saccade.record.stop_facts import STOPS, Broken
from saccade.record.trajectory import Trajectory
from saccade.rewards.reading import accuracy, returned_pictures
from saccade.rewards.reward import Reward

_STATUS: Final = {
    Status.TIMEOUT: Broken.TIMEOUT,
    Status.KILLED: Broken.RUNTIME_DEATH,
    Status.OUT_OF_MEMORY: Broken.RUNTIME_DEATH,
    Status.ERROR: Broken.EXECUTION_ERROR,
    Status.REFUSED: Broken.EXECUTION_ERROR,
}


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout as selection and advantages see it."""

    id: str
    reward: float | None
    """None where it could not be computed; such a rollout is not trained on."""
    right: bool = False
    broken: frozenset[Broken] = frozenset()
    lost: bool = False
    pictures: int = 0
    """Pictures that its calls gave back."""

    @property
    def usable(self) -> bool:
        """Whether it can enter a loss at all."""
        return not self.lost and self.reward is not None


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """All rollouts of one task that are compared with each other."""

    id: str
    rollouts: tuple[Rollout, ...]

    def __post_init__(self) -> None:
        """Raises ValueError if two rollouts share an id."""
        if len({rollout.id for rollout in self.rollouts}) < len(self.rollouts):
            raise ValueError(f"two rollouts of group {self.id} share an id")

    @property
    def pass_rate(self) -> float | None:
        """Share of right ones among the usable rollouts; None if there are none."""
        usable = [item.right for item in self.rollouts if item.usable]
        return sum(usable) / len(usable) if usable else None


def spread(rollouts: Sequence[Rollout]) -> float:
    """Sample standard deviation of the usable rewards (one degree of freedom); 0 for fewer than two."""
    rewards = [item.reward for item in rollouts if item.usable and item.reward is not None]
    return float(np.std(rewards, ddof=1)) if len(rewards) > 1 else 0.0


def rollout_of(trajectory: Trajectory, reward: Reward, right_from: float = 0.5) -> Rollout:
    """The rollout that a trajectory and its reward make; right from an accuracy of `right_from`."""
    value = accuracy(trajectory)
    return Rollout(
        id=trajectory.id,
        reward=reward.total,
        right=value is not None and value >= right_from,
        broken=broken(trajectory),
        lost=trajectory.lost,
        pictures=returned_pictures(trajectory),
    )


def group_of(trajectories: Sequence[Trajectory], rewards: Sequence[Reward]) -> RolloutGroup:
    """The group of trajectories that share a `group` (or, where none is set, a task).

    Raises:
        TrainingError: they belong to different groups.
    """
    names = {trajectory.group or trajectory.task.id for trajectory in trajectories}
    if len(names) != 1:
        raise TrainingError(f"a group of rollouts has one name, not {sorted(names)}; group the trajectories first")
    rollouts = [rollout_of(trajectory, reward) for trajectory, reward in zip(trajectories, rewards, strict=True)]
    return RolloutGroup(names.pop(), tuple(rollouts))


def broken(trajectory: Trajectory) -> frozenset[Broken]:
    """Everything that broke a trajectory; reaching the limit of turns is no break."""
    kinds = {_STATUS.get(turn.execution.status) for turn in trajectory.turns if turn.execution is not None}
    if trajectory.stop is not None:
        kinds.add(STOPS[trajectory.stop].broken)
    if trajectory.turns and isinstance(trajectory.turns[-1].action, ParseError):
        kinds.add(Broken.NO_ACTION)
    return frozenset(kind for kind in kinds if kind is not None)
