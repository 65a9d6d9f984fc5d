"""A rollout on its way through a step, and its group: trajectory, reward, reason to drop it, advantage.

    played     Rollout(trajectory, tokens)
    scored     replace(rollout, reward=...)         saccade.training.rl.scoring
    dropped    replace(rollout, dropped=...)        saccade.training.rl, where it is not trained on
    compared   rollout.with_advantage(...)          saccade.training.rl

A lost rollout, which an outage ended, is kept by no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from saccade.core.registry import Registry
from saccade.core.settings import Settings, is_saved
from saccade.errors import RegistryError, TrainingError
from saccade.record.content import ParseError
from saccade.record.execution import Status
from saccade.record.trajectory import STOPS, Broken, Score, Trajectory
from saccade.rewards.reward import Reward, accuracy, returned_pictures
from saccade.tokens.segments import TokenTrajectory

# `mean_baseline`, `standardised` and `leave_one_out` take rewards (N,) and group numbers (N,), in any order, and return
# advantages (N,). A group of one rollout gets 0 (verl: its reward).

Array: TypeAlias = NDArray[np.float64]
EPSILON = 1e-6
"""Added to the standard deviation, as in verl; TRL adds 1e-4."""


def mean_baseline(rewards: Array, groups: NDArray[np.int64]) -> Array:
    """Return A = R - mean of the group: PyVision-RL, TAPO, Dr. GRPO. Sums to 0 in every group."""
    inverse, counts = _numbered(rewards, groups)
    means = np.bincount(inverse, weights=rewards) / counts
    advantages: Array = rewards - means[inverse]
    return advantages


def standardised(rewards: Array, groups: NDArray[np.int64], epsilon: float = EPSILON) -> Array:
    """Return A = (R - mean) / (std + epsilon), std with one degree of freedom: GRPO. Sums to 0 in every group."""
    centred = mean_baseline(rewards, groups)
    inverse, counts = _numbered(rewards, groups)
    deviation = np.sqrt(np.bincount(inverse, weights=centred**2) / np.maximum(counts - 1, 1))
    advantages: Array = centred / (deviation[inverse] + epsilon)
    return advantages


def leave_one_out(rewards: Array, groups: NDArray[np.int64]) -> Array:
    """Return A = R - mean of the others in the group: RLOO. Sums to 0 in every group."""
    inverse, counts = _numbered(rewards, groups)
    size = counts[inverse].astype(np.float64)
    advantages: Array = mean_baseline(rewards, groups) * size / np.maximum(size - 1, 1)
    return advantages


def batch_normalised(returns: Sequence[Array], epsilon: float = EPSILON) -> list[Array]:
    """Normalise turns over the batch, (G - mean) / (std + epsilon); 0 for a turn without a value (NaN).

    `returns` holds for each rollout an array (turns,). The deviation is that of the population.
    """
    known = np.concatenate([row[~np.isnan(row)] for row in returns]) if returns else np.array([])
    if known.size == 0:
        return [np.zeros_like(row) for row in returns]
    mean, deviation = known.mean(), known.std()
    return [np.nan_to_num((row - mean) / (deviation + epsilon), nan=0.0) for row in returns]


def as_returns(values: Sequence[float | None]) -> Array:
    """Convert a part of a reward's turns to an array (turns,), NaN for None."""
    return np.array([np.nan if value is None else value for value in values], np.float64)


def per_token(sequence: float, turn_of_token: NDArray[np.int64], turns: Array | None = None) -> Array:
    """Return advantages (tokens,) of one rollout: `sequence` plus the term of the token's turn; 0 where it is -1.

    `turn_of_token` (tokens,) is `TokenTrajectory.turns()`. Raises ValueError if a token's turn has no term.
    """
    sampled = turn_of_token >= 0
    advantages: Array = np.where(sampled, sequence, 0.0)
    if turns is None:
        return advantages
    if sampled.any() and int(turn_of_token.max()) >= len(turns):
        raise ValueError(f"tokens of turn {int(turn_of_token.max())} have no term; there are {len(turns)} turns")
    padded = np.append(turns, 0.0)  # index -1 finds the last one
    advantages += padded[turn_of_token]
    return advantages


def _numbered(rewards: Array, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each rollout as 0.. (N,), and the sizes of groups (groups,)."""
    if rewards.ndim != 1 or rewards.shape != groups.shape:
        raise ValueError(f"one group for each reward is needed; shapes are {rewards.shape} and {groups.shape}")
    if not np.isfinite(rewards).all():
        raise ValueError("a reward is not finite; leave rollouts without a reward out before")
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return inverse.astype(np.int64), counts.astype(np.int64)


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
    """One rollout, replaced by one that knows more at each stage of a step."""

    trajectory: Trajectory
    tokens: TokenTrajectory | None = None
    """None where there is nothing to train on: it was lost, or ended before a turn was written."""
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
        """Whether an outage ended it."""
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
        """Pictures that its calls returned."""
        return returned_pictures(self.trajectory)

    @property
    def usable(self) -> bool:
        """Whether it can enter a loss at all."""
        return not self.lost and self.reward.total is not None

    def with_advantage(self, sequence: float, turns: Array | None = None) -> Rollout:
        """Return a copy with its advantage: of the sequence, and the terms (turns,) if there are any."""
        return replace(self, advantage=Advantage(sequence, turns))

    def trained_tokens(self) -> TokenTrajectory:
        """Return its tokens. Raises ValueError where it cannot be trained on."""
        if self.tokens is None:
            raise ValueError(f"rollout {self.id} was selected, and cannot be trained on")
        return self.tokens

    def token_advantages(self) -> NDArray[np.float32]:
        """Return the advantage of each token, (tokens,), 0 where it was not sampled. Raises as `trained_tokens`."""
        turns = self.trained_tokens().turns()
        if self.advantage is None:
            raise ValueError(f"rollout {self.id} has no advantage; call an advantage rule first")
        return per_token(self.advantage.sequence, turns, self.advantage.turns).astype(np.float32)

    def behaviour_logprobs(self) -> NDArray[np.float32]:
        """Return the log-probability of each token as it was sampled, (tokens,), 0 where it was not."""
        values: NDArray[np.float32] = np.nan_to_num(self.trained_tokens().logprobs(), nan=0.0)
        return values


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """All rollouts of one task that are compared with each other, dropped ones included."""

    id: str
    rollouts: tuple[Rollout, ...]

    def __post_init__(self) -> None:
        """Raise ValueError if two rollouts share an id."""
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
        """Drop the kept rollouts that are `unwanted`, which is called in their order."""
        return RolloutGroup(
            self.id,
            tuple(
                replace(item, dropped=reason) if item.dropped is None and unwanted(item) else item
                for item in self.rollouts
            ),
        )


def group_of(rollouts: Sequence[Rollout]) -> RolloutGroup:
    """Group rollouts whose trajectories share a `group` (or, where none is set, a task).

    Raises `TrainingError`: they belong to different groups.
    """
    names = {item.trajectory.group or item.trajectory.task.id for item in rollouts}
    if len(names) != 1:
        raise TrainingError(f"a group of rollouts has one name, not {sorted(names)}; group the trajectories first")
    return RolloutGroup(names.pop(), tuple(rollouts))


def spread(rollouts: Sequence[Rollout]) -> float:
    """Return the sample standard deviation of the usable rewards; 0 for fewer than two."""
    rewards = [total for item in rollouts if item.usable and (total := item.reward.total) is not None]
    return float(np.std(rewards, ddof=1)) if len(rewards) > 1 else 0.0


def broken(trajectory: Trajectory) -> frozenset[Broken]:
    """Return everything that broke a trajectory; reaching the limit of turns is no break."""
    kinds = {_STATUS.get(turn.execution.status) for turn in trajectory.turns if turn.execution is not None}
    if trajectory.stop is not None:
        kinds.add(STOPS[trajectory.stop].broken)
    if trajectory.turns and isinstance(trajectory.turns[-1].action, ParseError):
        kinds.add(Broken.NO_ACTION)
    return frozenset(kind for kind in kinds if kind is not None)


class Rule(Settings):
    """Base of selections and advantages: settings that can be called, whose first sentence `saccade list` shows.

    A recipe names a rule and its parameters in one table:

        [advantage]
        rule = "my_rules.py:Centred"        # or `grpo`, module:NAME, or what an installed package registers
        scale = 0.5
    """

    rule: str = ""
    """As the recipe names it."""


R = TypeVar("R", bound=Settings)


def named(rules: Registry[type[R]], default: str, key: str = "rule") -> Callable[[object, ValidationInfo], object]:
    """Make a pydantic validator of a table that names its class under `key`; without it, the class is `default`.

    In settings that were saved (`saccade.core.settings.load_saved`) it runs no code that this process did not load.
    """

    def make(given: object, info: ValidationInfo) -> object:
        if not isinstance(given, Mapping):
            return given
        name = str(given.get(key, default))
        try:
            kind = rules.load_recorded(name) if is_saved(info) else rules.load(name)
        except RegistryError as error:
            raise PydanticCustomError("unknown_rule", "{said}", {"said": str(error)}) from error
        shown = name.partition("@")[0] if rules.code(name) is None else name
        return kind.model_validate({**given, key: shown})

    return make
