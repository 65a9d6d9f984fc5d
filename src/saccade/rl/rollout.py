"""A rollout on its way through a step, and its group: what was played, its reward, its fate, its advantage.

    played     Rollout(trajectory, tokens)
    scored     replace(rollout, reward=...)         saccade.rl.train.scoring
    dropped    replace(rollout, dropped=...)        saccade.rl.select, where it is not trained on
    compared   rollout.with_advantage(...)          saccade.rl.advantages

Everything else is read from typed stop reasons and statuses. A lost rollout is an outage of ours: no rule keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from saccade.errors import TrainingError
from saccade.record.action import ParseError
from saccade.record.score import Score
from saccade.record.status import Status
from saccade.record.stop_facts import STOPS, Broken
from saccade.record.trajectory import Trajectory
from saccade.rewards.reading import accuracy, returned_pictures
from saccade.rewards.reward import Reward
from saccade.rl.advantages.estimators import Array, per_token
from saccade.tokens.segments import TokenTrajectory

RIGHT_FROM: Final = 0.5
"""Accuracy from which a rollout is right."""
NOT_SCORED: Final = Reward(parts=(Score(name="reward", detail="not scored yet"),))


_STATUS: Final = {
    Status.TIMEOUT: Broken.TIMEOUT,
    Status.KILLED: Broken.RUNTIME_DEATH,
    Status.OUT_OF_MEMORY: Broken.RUNTIME_DEATH,
    Status.ERROR: Broken.EXECUTION_ERROR,
    Status.REFUSED: Broken.EXECUTION_ERROR,
}


class DropReason(StrEnum):
    """Why a selection left a rollout, or its whole group, out of training."""

    UNUSABLE = "unusable"
    """Lost, or without a reward."""
    ALL_BROKEN = "all_broken"
    BROKEN = "broken"
    NO_SPREAD = "no_spread"
    """All rewards are equal: no advantage differs from zero."""
    NO_PICTURES = "no_pictures"
    TOO_FEW = "too_few"
    """Fewer rollouts left than a group needs."""
    TOO_EASY = "too_easy"
    TOO_HARD = "too_hard"
    RANKED_OUT = "ranked_out"
    """There were enough better ones."""


@dataclass(frozen=True, slots=True)
class Advantage:
    """How much better a rollout was than expected."""

    sequence: float
    """Of every sampled token."""
    turns: Array | None = None
    """Added to the tokens of each turn, (turns,), weight included; None without a turn term."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout: made when it was played, replaced by one that knows more at each stage of a step."""

    trajectory: Trajectory
    tokens: TokenTrajectory | None = None
    """None where nothing can be trained on: it was lost, or ended before a turn was written."""
    reward: Reward = NOT_SCORED
    """Its total is None where it could not be computed; such a rollout is not trained on."""
    dropped: DropReason | None = None
    """Why a selection left it out; None for one that is trained on."""
    advantage: Advantage | None = None

    @property
    def id(self) -> str:
        """That of the trajectory."""
        return self.trajectory.id

    @property
    def lost(self) -> bool:
        """Whether an outage of ours ended it."""
        return self.trajectory.lost

    @property
    def right(self) -> bool:
        """Whether its answer is right."""
        value = accuracy(self.trajectory)
        return value is not None and value >= RIGHT_FROM

    @property
    def broken(self) -> frozenset[Broken]:
        """Everything that broke it."""
        return broken(self.trajectory)

    @property
    def pictures(self) -> int:
        """Pictures that its calls gave back."""
        return returned_pictures(self.trajectory)

    @property
    def usable(self) -> bool:
        """Whether it can enter a loss at all."""
        return not self.lost and self.reward.total is not None

    def with_advantage(self, sequence: float, turns: Array | None = None) -> Rollout:
        """The same with its advantage: that of the sequence, and where there are some the terms (turns,)."""
        return replace(self, advantage=Advantage(sequence, turns))

    def trained_tokens(self) -> TokenTrajectory:
        """Its tokens. Raises ValueError where it cannot be trained on."""
        if self.tokens is None:
            raise ValueError(f"rollout {self.id} was selected, and cannot be trained on")
        return self.tokens

    def token_advantages(self) -> NDArray[np.float32]:
        """The advantage of each token, (tokens,): 0 where it was not sampled. Raises as `trained_tokens`."""
        turns = self.trained_tokens().turns()
        if self.advantage is None:
            raise ValueError(f"rollout {self.id} has no advantage; call an advantage rule first")
        return per_token(self.advantage.sequence, turns, self.advantage.turns).astype(np.float32)

    def behaviour_logprobs(self) -> NDArray[np.float32]:
        """Log-probability of each token under the policy that sampled it, (tokens,): 0 where it was not sampled."""
        values: NDArray[np.float32] = np.nan_to_num(self.trained_tokens().logprobs(), nan=0.0)
        return values


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """All rollouts of one task that are compared with each other, those that a selection dropped among them."""

    id: str
    rollouts: tuple[Rollout, ...]

    def __post_init__(self) -> None:
        """Raises ValueError if two rollouts share an id."""
        if len({rollout.id for rollout in self.rollouts}) < len(self.rollouts):
            raise ValueError(f"two rollouts of group {self.id} share an id")

    @property
    def kept(self) -> tuple[Rollout, ...]:
        """Those that no selection has dropped."""
        return tuple(item for item in self.rollouts if item.dropped is None)

    @property
    def usable(self) -> tuple[Rollout, ...]:
        """Those that could enter a loss, dropped or not."""
        return tuple(item for item in self.rollouts if item.usable)

    @property
    def spread(self) -> float:
        """Sample standard deviation of the rewards of those that are kept."""
        return spread(self.kept)

    @property
    def pass_rate(self) -> float | None:
        """Share of right ones among the usable rollouts; None if there are none."""
        right = [item.right for item in self.usable]
        return sum(right) / len(right) if right else None

    def dropping(self, reason: DropReason, unwanted: Callable[[Rollout], bool]) -> RolloutGroup:
        """The group without those of its kept rollouts that are `unwanted`, which are asked about in order."""
        return RolloutGroup(
            self.id,
            tuple(
                replace(item, dropped=reason) if item.dropped is None and unwanted(item) else item
                for item in self.rollouts
            ),
        )


def group_of(rollouts: Sequence[Rollout]) -> RolloutGroup:
    """The group of rollouts whose trajectories share a `group` (or, where none is set, a task).

    Raises:
        TrainingError: they belong to different groups.
    """
    names = {item.trajectory.group or item.trajectory.task.id for item in rollouts}
    if len(names) != 1:
        raise TrainingError(f"a group of rollouts has one name, not {sorted(names)}; group the trajectories first")
    return RolloutGroup(names.pop(), tuple(rollouts))


def spread(rollouts: Sequence[Rollout]) -> float:
    """Sample standard deviation of the usable rewards (one degree of freedom); 0 for fewer than two."""
    rewards = [total for item in rollouts if item.usable and (total := item.reward.total) is not None]
    return float(np.std(rewards, ddof=1)) if len(rewards) > 1 else 0.0


def broken(trajectory: Trajectory) -> frozenset[Broken]:
    """Everything that broke a trajectory; reaching the limit of turns is no break."""
    kinds = {_STATUS.get(turn.execution.status) for turn in trajectory.turns if turn.execution is not None}
    if trajectory.stop is not None:
        kinds.add(STOPS[trajectory.stop].broken)
    if trajectory.turns and isinstance(trajectory.turns[-1].action, ParseError):
        kinds.add(Broken.NO_ACTION)
    return frozenset(kind for kind in kinds if kind is not None)
