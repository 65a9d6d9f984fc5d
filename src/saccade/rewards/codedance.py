"""CodeDance's reward for balanced, adaptive tool calls: on the sequence by difficulty, on each turn by its failure.

    R = accuracy + format + R_seq,   R_seq = (0.5 + [right]) · succeeded / calls · w(mu)
    w(mu) = sigmoid(2 gamma (0.5 - mu)) - beta;   r_t = -0.5 for a failed call, else 0;   G_t = r_t + 0.2 G_{t+1}

Every turn has a return but the answer: a turn without a call has r_t = 0 (section 8.1) and takes its share of the
failures after it. `paper` takes mu as the group's accuracy, `repo` as the group's mean score. The paper's own numbers
are lost; the constants are those of the code. A call that ends well and gives nothing back is no failure; the paper
names such code as its hack, and `silent_fails`, which is ours, counts it as one. Failures are typed statuses here: the
code searches for the word "Error", and counts a printed one as a failure and a hung worker as a success.
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
"""Accuracy from which a rollout is right."""


class CodeDanceReward(Settings):
    """Parameters of both levels; the defaults are `paper`."""

    accuracy_weight: float = 1.0
    format_weight: NonNegativeFloat = 0.2
    base: float = 0.5
    """Of R_seq for a wrong rollout; a right one gets 1 more."""
    gamma: PositiveFloat = 4.0
    """How sharply w falls with mu."""
    beta: float = 0.2
    """How far w falls below zero for easy tasks."""
    mu: Literal["accuracy", "score"] = "accuracy"
    """Group mean of the accuracy, or of accuracy and format with their weights."""
    tool_weight: float = 1.0
    """Of R_seq; 0 with the advantage rule `grpo` is the outcome alone (table 3, the arm without both levels)."""
    silent_fails: bool = False
    """Whether a call that gave nothing back counts as failed; ours."""
    penalty: float = -0.5
    """Of a failed call."""
    discount: NonNegativeFloat = 0.2

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy`, `format`, `tools`; of the turns: `execution` and its discounted return `returns`.

        Observed beside them: `mu`, `success_rate` and `calls`.
        """
        known = [(accuracy(item), self._format(item)) for item in group.trajectories]
        scores = [
            None if right is None else right if self.mu == "accuracy" else self._outcome(right, form)
            for right, form in known
        ]
        mu = mean_of(scores)
        return reward_each(group, lambda number, trajectory: self._reward(trajectory, mu))

    def _outcome(self, right: float, form: float) -> float:
        return self.accuracy_weight * right + self.format_weight * form

    def _format(self, trajectory: Trajectory) -> float:
        return 0.0 if tags_in_order(trajectory, _TAGS) else -1.0

    def _reward(self, trajectory: Trajectory, mu: float | None) -> Reward:
        right = accuracy(trajectory)
        call_turns = calls(trajectory)
        good = [number for number in call_turns if self._good(trajectory.turns[number])]
        rate = len(good) / len(call_turns) if call_turns else 0.0
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

    def _good(self, turn: Turn) -> bool:
        return succeeded(turn) and not (self.silent_fails and silent(turn))

    def _penalty(self, turn: Turn) -> float:
        return self.penalty if failed(turn) or (self.silent_fails and silent(turn)) else 0.0


def adaptive_weight(mu: float, gamma: float, beta: float) -> float:
    """w(mu): from 1 - beta for hard tasks to -beta for easy ones."""
    return 1.0 / (1.0 + math.exp(-2.0 * gamma * (0.5 - mu))) - beta


def discounted(rewards: Sequence[float], discount: float) -> list[float]:
    """G_t = r_t + discount · G_{t+1} for each turn."""
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
