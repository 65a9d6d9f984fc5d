"""What a reward preset is: a pure function from a group of trajectories to named parts for each of them.

Nothing here grades: the score `correct` must be on a trajectory before a preset sees it. Presets read typed statuses
and the model's own words, never what a program printed. A part that could not be computed has the value None, and then
the total is None too: such a rollout is left out of training and of every mean over the group, and never counts as
zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pydantic import FiniteFloat

from saccade.record.base import Name, Record
from saccade.record.score import Score, total
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.verdict import JudgeVerdict


class TurnPart(Record):
    """A named part with a value for each turn of a trajectory; None where the part says nothing of the turn."""

    name: Name
    values: tuple[FiniteFloat | None, ...]


class Reward(Record):
    """What one trajectory is worth."""

    parts: tuple[Score, ...]
    """Every part, those of weight 0 included; their weighted sum is the reward of the sequence."""
    turns: tuple[TurnPart, ...] = ()
    """Parts of the turns. They are not in the sum: an advantage rule uses them."""

    @property
    def total(self) -> float | None:
        """Weighted sum of the parts; None while one that counts has no value."""
        return total(self.parts)

    def part(self, name: str) -> Score:
        """The part of that name. Raises KeyError."""
        return {part.name: part for part in self.parts}[name]

    def turn_part(self, name: str) -> tuple[float | None, ...]:
        """The values of a part of the turns. Raises KeyError."""
        return {part.name: part for part in self.turns}[name].values


def with_reward(trajectory: Trajectory, reward: Reward) -> Trajectory:
    """The trajectory with every part as a score named `reward.PART`, beside what graders and judges gave it.

    Scores that it had get weight 0, so that the weighted sum is the reward; parts of turns stay in the `Reward`.
    """
    had = [score.model_copy(update={"weight": 0.0}) for score in trajectory.scores]
    parts = [part.model_copy(update={"name": f"reward.{part.name}"}) for part in reward.parts]
    return trajectory.with_scores([*had, *parts])


@dataclass(frozen=True, slots=True)
class RewardGroup:
    """Rollouts of one task, in the order in which rewards are returned."""

    trajectories: tuple[Trajectory, ...]
    verdicts: tuple[tuple[JudgeVerdict | None, ...], ...] = ()
    """For each trajectory what a judge said of each turn, None where it was not asked; empty if there was no judge."""

    def __post_init__(self) -> None:
        """Raises ValueError for rollouts of different tasks, and for verdicts that do not fit the turns."""
        tasks = {trajectory.task.id for trajectory in self.trajectories}
        if len(tasks) > 1:
            raise ValueError(f"a group holds rollouts of one task, not of {sorted(tasks)}")
        if self.verdicts and [len(row) for row in self.verdicts] != [len(item.turns) for item in self.trajectories]:
            raise ValueError("verdicts need a row for each trajectory with an entry for each of its turns")


class RewardPreset(Protocol):
    """A reward with its parameters."""

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """A reward for each trajectory, in order."""


@runtime_checkable
class NeedsJudge(Protocol):
    """A preset whose groups need a judge's verdicts."""

    def turns_to_judge(self, trajectory: Trajectory) -> Collection[int]:
        """The numbers of the calls whose verdict counts; only about these is the judge asked."""


@runtime_checkable
class NeedsConsistency(Protocol):
    """A preset that pays for thoughts that agree with the answer: the score `consistent`, which a model must give."""

    def needs_consistency(self, trajectory: Trajectory) -> bool:
        """Whether the model must be asked about a graded trajectory."""


@runtime_checkable
class SearchesTasks(Protocol):
    """A preset of which a part pays only for tasks of one kind."""

    @property
    def search_tags(self) -> tuple[str, ...]:
        """Tags of such tasks, for messages."""

    def searches(self, task: Task) -> bool:
        """Whether a task is of that kind."""


def reward_each(group: RewardGroup, reward: Callable[[int, Trajectory], Reward]) -> tuple[Reward, ...]:
    """`reward` of each trajectory and its number; of a lost one the same parts without values."""
    rewards = [reward(number, trajectory) for number, trajectory in enumerate(group.trajectories)]
    return tuple(
        unscored(item, "an outage ended the episode") if trajectory.lost else item
        for item, trajectory in zip(rewards, group.trajectories, strict=True)
    )


def unscored(reward: Reward, detail: str) -> Reward:
    """The same parts without values, for the reason `detail`."""
    return Reward(
        parts=tuple(part.model_copy(update={"value": None, "detail": detail}) for part in reward.parts),
        turns=tuple(TurnPart(name=part.name, values=(None,) * len(part.values)) for part in reward.turns),
    )


def mean_of(values: Sequence[float | None]) -> float | None:
    """Mean of the values that are known; None if there is none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


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
