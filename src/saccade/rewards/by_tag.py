"""One reward with other parameters for tasks of other kinds, told apart by their tags.

CodeDance's released code weighs accuracy and form differently for questions of mathematics and for pictures in one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from saccade.record.task import Task
from saccade.rewards.reward import Reward, RewardGroup, RewardPreset


@dataclass(frozen=True, slots=True)
class ByTag:
    """A reward preset that is another for tasks with one of some tags; their order decides where a task has several."""

    usual: RewardPreset
    tagged: Mapping[str, RewardPreset]

    def of(self, task: Task) -> RewardPreset:
        """The preset for a task."""
        return next((preset for tag, preset in self.tagged.items() if tag in task.tags), self.usual)

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """A reward for each trajectory, in order."""
        return self.of(group.trajectories[0].task)(group) if group.trajectories else ()
