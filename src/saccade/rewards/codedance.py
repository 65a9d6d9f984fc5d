"""Compute CodeDance's reward for balanced, adaptive tool calls: a sequence part by difficulty, a turn part by failure.

    R = accuracy + format + R_seq,   R_seq = (0.5 + [right]) · succeeded / calls · w(mu)
    w(mu) = sigmoid(2 gamma (0.5 - mu)) - beta;   r_t = -0.5 for a failed call, else 0;   G_t = r_t + 0.2 G_{t+1}

Every turn but the answer has a return; a turn without a call has r_t = 0 (section 8.1) and inherits later failures.
In `paper`, mu is the group's accuracy, in `repo` its mean score. The constants come from the code; the paper does not
state them. A call that succeeds silently is no failure unless `silent_fails` (ours) is set; the paper calls such code a
hack. Failures are typed statuses, whereas the published code searches the output for "Error".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, Literal

from pydantic import NonNegativeFloat, PositiveFloat

from saccade.core.settings import Settings
from saccade.record.content import Answer
from saccade.record.trajectory import Score, Trajectory, Turn
from saccade.rewards.reward import (
    Reward,
    RewardGroup,
    TurnPart,
    accuracy,
    calls,
    failed,
    mean_of,
    reward_each,
    silent,
    succeeded,
    tags_in_order,
)

_TAGS: Final = ("think", "code", "answer")
RIGHT: Final = 0.5
"""Lowest accuracy that counts as right."""


class CodeDanceReward(Settings):
    """Parameters of both levels; the defaults are `paper`."""

    accuracy_weight: float = 1.0
    format_weight: NonNegativeFloat = 0.2
    base: float = 0.5
    """R_seq of a wrong rollout; a right one gets 1 more."""
    gamma: PositiveFloat = 4.0
    """How sharply w falls with mu."""
    beta: float = 0.2
    """How far w falls below zero for easy tasks."""
    mu: Literal["accuracy", "score"] = "accuracy"
    """Group mean of the accuracy, or of accuracy and format with their weights."""
    tool_weight: float = 1.0
    """Weight of R_seq; 0 with the advantage rule `grpo` leaves only the outcome (table 3, the arm without both)."""
    silent_fails: bool = False
    """Whether a call that gave nothing back counts as failed; ours."""
    penalty: float = -0.5
    """r_t of a failed call."""
    discount: NonNegativeFloat = 0.2

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Return parts `accuracy`, `format`, `tools`; turn parts `execution` and `returns`, its discounted return.

        With weight 0: `mu`, `success_rate` and `calls`.
        """
        mu = mean_of([self._score(item) for item in group.trajectories])
        return reward_each(group, lambda number, trajectory: self._reward(trajectory, mu))

    def _score(self, trajectory: Trajectory) -> float | None:
        right = accuracy(trajectory)
        if right is None or self.mu == "accuracy":
            return right
        return self.accuracy_weight * right + self.format_weight * self._format(trajectory)

    def _format(self, trajectory: Trajectory) -> float:
        return 0.0 if tags_in_order(trajectory, _TAGS) else -1.0

    def _reward(self, trajectory: Trajectory, mu: float | None) -> Reward:
        right = accuracy(trajectory)
        call_turns = calls(trajectory)
        good = sum(
            succeeded(turn) and not (self.silent_fails and silent(turn))
            for turn in (trajectory.turns[number] for number in call_turns)
        )
        rate = good / len(call_turns) if call_turns else 0.0
        tools = None
        if right is not None and mu is not None:
            tools = (self.base + float(right >= RIGHT)) * rate * adaptive_weight(mu, self.gamma, self.beta)
        penalties = [self._penalty(turn) for turn in trajectory.turns]
        acted = [number for number, turn in enumerate(trajectory.turns) if not isinstance(turn.action, Answer)]
        returns = discounted(penalties, self.discount)
        return Reward(
            parts=(
                Score(name="accuracy", value=right, weight=self.accuracy_weight),
                Score(name="format", value=self._format(trajectory), weight=self.format_weight),
                Score(name="tools", value=tools, weight=self.tool_weight),
                Score(name="mu", value=mu, weight=0.0),
                Score(name="success_rate", value=rate, weight=0.0),
                Score(name="calls", value=float(len(call_turns)), weight=0.0),
            ),
            turns=(
                TurnPart(name="execution", values=_only(penalties, acted)),
                TurnPart(name="returns", values=_only(returns, acted)),
            ),
        )

    def _penalty(self, turn: Turn) -> float:
        return self.penalty if failed(turn) or (self.silent_fails and silent(turn)) else 0.0


def adaptive_weight(mu: float, gamma: float, beta: float) -> float:
    """Compute w(mu), which falls from 1 - beta for hard tasks to -beta for easy ones."""
    return 1.0 / (1.0 + math.exp(-2.0 * gamma * (0.5 - mu))) - beta


def discounted(rewards: Sequence[float], discount: float) -> list[float]:
    """Compute G_t = r_t + discount · G_{t+1} for each turn."""
    returns: list[float] = []
    later = 0.0
    for reward in reversed(rewards):
        later = reward + discount * later
        returns.insert(0, later)
    return returns


def _only(values: Sequence[float], turns: Sequence[int]) -> tuple[float | None, ...]:
    return tuple(value if number in turns else None for number, value in enumerate(values))


_MATH: Final[dict[str, float]] = {"accuracy_weight": 1.2, "format_weight": 0.4, "base": 1.0}
PRESETS: Final = MappingProxyType(
    {
        "paper": CodeDanceReward(),
        "paper-math": CodeDanceReward.model_validate(_MATH),
        "repo": CodeDanceReward(mu="score"),
        "repo-math": CodeDanceReward.model_validate({**_MATH, "mu": "score"}),
    }
)
