"""Advantage rules with their parameters, over a selection: what a recipe names.

Which rollouts a baseline is taken from is a parameter: those that are trained on (`kept`), or all usable ones of their
group, what a filter left out included (`group`, as PyVision-RL's code does).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, NonNegativeFloat, SerializeAsAny

from saccade.record.registry import Registry, is_subclass
from saccade.rewards.reward import Reward
from saccade.rl.advantages.group_relative import Array, leave_one_out, mean_baseline, standardised
from saccade.rl.advantages.turns import as_returns, batch_normalised, per_token
from saccade.rl.groups import Rollout
from saccade.rl.rules import Rule, named
from saccade.rl.select.selection import KeptRollout, Selection

Estimate: TypeAlias = Callable[[Array, NDArray[np.int64]], Array]
Baseline = Literal["kept", "group"]


@dataclass(frozen=True, slots=True)
class Advantage:
    """The advantage of one rollout."""

    group: str
    id: str
    sequence: float
    turns: Array | None = None
    """Terms of the turns, (turns,), weight included; None without a turn term."""

    def tokens(self, turn_of_token: NDArray[np.int64]) -> Array:
        """The advantage of each token, (tokens,); see `per_token`."""
        return per_token(self.sequence, turn_of_token, self.turns)


class AdvantageRule(Rule):
    """Base of all advantage rules: settings, called with a selection and the rewards of its rollouts by their ids."""

    @abstractmethod
    def __call__(self, selection: Selection, rewards: Mapping[str, Reward]) -> list[Advantage]:
        """For each rollout that is trained on, in the selection's order."""


class Grpo(AdvantageRule):
    """GRPO: the reward minus the group's mean, divided by its standard deviation unless that is turned off."""

    rule: Literal["grpo"] = "grpo"
    divide_by_std: bool = True
    """False: PyVision-RL and Dr. GRPO."""
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection, rewards: Mapping[str, Reward]) -> list[Advantage]:
        """For each rollout that is trained on, in the selection's order."""
        return _sequences(selection, standardised if self.divide_by_std else mean_baseline, self.baseline)


class Rloo(AdvantageRule):
    """REINFORCE with the mean of the other rollouts as the baseline."""

    rule: Literal["rloo"] = "rloo"
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection, rewards: Mapping[str, Reward]) -> list[Advantage]:
        """For each rollout that is trained on, in the selection's order."""
        return _sequences(selection, leave_one_out, self.baseline)


class Tapo(AdvantageRule):
    """CodeV: the reward minus the group's mean."""

    rule: Literal["tapo"] = "tapo"
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection, rewards: Mapping[str, Reward]) -> list[Advantage]:
        """For each rollout that is trained on, in the selection's order."""
        return _sequences(selection, mean_baseline, self.baseline)


class TurnLevel(AdvantageRule):
    """CodeDance: GRPO on the sequence, and a term for each turn that is normalised over the batch."""

    rule: Literal["turn-level"] = "turn-level"
    weight: NonNegativeFloat = 0.2
    part: str = "returns"
    """Name of the reward's part of the turns."""
    divide_by_std: bool = True
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection, rewards: Mapping[str, Reward]) -> list[Advantage]:
        """For each rollout that is trained on; `rewards` are found by its id. Raises KeyError for a missing part."""
        plain = _sequences(selection, standardised if self.divide_by_std else mean_baseline, self.baseline)
        terms = batch_normalised([as_returns(rewards[item.id].turn_part(self.part)) for item in plain])
        return [
            Advantage(item.group, item.id, item.sequence, self.weight * term)
            for item, term in zip(plain, terms, strict=True)
        ]


_HERE = "saccade.rl.advantages.rules"

ADVANTAGES: Final = Registry[type[AdvantageRule]](
    "advantages",
    {
        "grpo@1": f"{_HERE}:Grpo",
        "rloo@1": f"{_HERE}:Rloo",
        "tapo@1": f"{_HERE}:Tapo",
        "turn-level@1": f"{_HERE}:TurnLevel",
    },
    is_subclass(AdvantageRule, f"a subclass of {_HERE}.AdvantageRule"),
)
"""Other packages add rules by the entry point group `saccade.advantages`."""

NamedAdvantage = Annotated[SerializeAsAny[AdvantageRule], BeforeValidator(named(ADVANTAGES, "grpo"))]
"""What a recipe holds: a table that names a rule."""


def _sequences(selection: Selection, estimate: Estimate, baseline: Baseline) -> list[Advantage]:
    advantages: list[Advantage] = []
    for kept in selection.kept:
        members = kept.rollouts if baseline == "kept" else _usable(kept)
        rewards = np.array([item.reward for item in members], np.float64)
        values = estimate(rewards, np.zeros(len(members), np.int64))
        advantages += [
            Advantage(kept.group.id, item.id, float(value))
            for item, value in zip(members, values, strict=True)
            if item.id in kept.ids
        ]
    return advantages


def _usable(kept: KeptRollout) -> tuple[Rollout, ...]:
    return tuple(item for item in kept.group.rollouts if item.usable)
