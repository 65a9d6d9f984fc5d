"""Advantage rules with their parameters, over a selection, and estimators of the KL divergence, as a recipe names them.

The baseline is that of the rollouts that are trained on (`kept`), or of all usable ones of their group, dropped ones
included (`group`, as in PyVision-RL's code).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, NonNegativeFloat, SerializeAsAny

from saccade.core.registry import Registry, all_of, is_a, is_subclass
from saccade.core.seam import has_methods
from saccade.training.rl.rollout import (
    Array,
    Rollout,
    Rule,
    as_returns,
    batch_normalised,
    leave_one_out,
    mean_baseline,
    named,
    standardised,
)
from saccade.training.rl.select import Selection

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_LOG_RATIO = 20.0
"""Nats; larger ones would overflow in half precision."""


@dataclass(frozen=True, slots=True)
class KlEstimator:
    """An estimator of the divergence of the policy from a reference: `loss.kl = "k3"` names one.

    A function of `d = reference - logprob` of the sampled ids, in nats (Schulman, "Approximating KL Divergence").
    """

    description: str
    """Description in `saccade list kl-estimators`."""
    of: Callable[[Tensor], Tensor]
    """From d to the distance, both (rows, tokens)."""
    verl: str = ""
    """Its name among verl's `kl_loss_type`; empty where verl has none such."""

    def __call__(self, logprobs: Tensor, reference: Tensor) -> Tensor:
        """Estimate the distance of each token, (rows, tokens). Gradients flow through `logprobs`."""
        return self.of((reference.detach() - logprobs).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))


K1: Final = KlEstimator("-d: unbiased, of large variance, and negative for half of the tokens.", lambda d: -d, "kl")
K2: Final = KlEstimator(
    "d²/2: biased, of small variance, with the gradient of the divergence.", lambda d: d * d / 2, "mse"
)
K3: Final = KlEstimator(
    "exp(d) - d - 1: unbiased, of small variance, and never negative.", lambda d: d.exp() - d - 1.0, "low_var_kl"
)
ABS: Final = KlEstimator("|d|: biased, with a gradient of the same size for each token.", lambda d: d.abs(), "abs")

KL_ESTIMATORS: Final = Registry[KlEstimator](
    "kl-estimators",
    {
        "k1@1": f"{__name__}:K1",
        "k2@1": f"{__name__}:K2",
        "k3@1": f"{__name__}:K3",
        "abs@1": f"{__name__}:ABS",
    },
    is_a(KlEstimator, f"a {__name__}.KlEstimator"),
)
"""Other packages add estimators by the entry point group `saccade.kl-estimators`."""

Estimate: TypeAlias = Callable[[Array, NDArray[np.int64]], Array]
Baseline = Literal["kept", "group"]


class AdvantageRule(Rule):
    """Base of all advantage rules: settings, called with a selection."""

    @abstractmethod
    def __call__(self, selection: Selection) -> list[Rollout]:
        """Return each kept rollout with its advantage (`Rollout.with_advantage`), in the selection's order."""


class Grpo(AdvantageRule):
    """GRPO: the reward minus the group's mean, divided by its standard deviation unless that is turned off."""

    rule: Literal["grpo"] = "grpo"
    divide_by_std: bool = True
    """False: PyVision-RL, Dr. GRPO and TAPO (CodeV)."""
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection) -> list[Rollout]:
        return _with_advantages(selection, standardised if self.divide_by_std else mean_baseline, self.baseline)


class Rloo(AdvantageRule):
    """REINFORCE with the mean of the other rollouts as the baseline."""

    rule: Literal["rloo"] = "rloo"
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection) -> list[Rollout]:
        return _with_advantages(selection, leave_one_out, self.baseline)


class TurnLevel(AdvantageRule):
    """CodeDance: GRPO on the sequence, and a term for each turn that is normalised over the batch."""

    rule: Literal["turn-level"] = "turn-level"
    weight: NonNegativeFloat = 0.2
    part: str = "returns"
    """Name of the reward's part of the turns."""
    divide_by_std: bool = True
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection) -> list[Rollout]:
        """Return each kept rollout with its advantage. Raises KeyError for a missing part."""
        estimate = standardised if self.divide_by_std else mean_baseline
        compared = _compared(selection, estimate, self.baseline)
        terms = batch_normalised([as_returns(item.reward.turn_part(self.part)) for item, _ in compared])
        return [
            item.with_advantage(sequence, self.weight * term)
            for (item, sequence), term in zip(compared, terms, strict=True)
        ]


ADVANTAGES: Final = Registry[type[AdvantageRule]](
    "advantages",
    {
        "grpo@1": f"{__name__}:Grpo",
        "rloo@1": f"{__name__}:Rloo",
        "turn-level@1": f"{__name__}:TurnLevel",
    },
    all_of(is_subclass(AdvantageRule, f"a subclass of {__name__}.AdvantageRule"), has_methods(AdvantageRule)),
)
"""Other packages add rules by the entry point group `saccade.advantages`."""

NamedAdvantage = Annotated[SerializeAsAny[AdvantageRule], BeforeValidator(named(ADVANTAGES, "grpo"))]
"""A rule as a recipe holds it: a table that names it."""


def _with_advantages(selection: Selection, estimate: Estimate, baseline: Baseline) -> list[Rollout]:
    return [item.with_advantage(sequence) for item, sequence in _compared(selection, estimate, baseline)]


def _compared(selection: Selection, estimate: Estimate, baseline: Baseline) -> list[tuple[Rollout, float]]:
    """Return every kept rollout with its estimate against its group."""
    compared: list[tuple[Rollout, float]] = []
    for group in selection.kept:
        members = group.kept if baseline == "kept" else group.usable
        rewards = np.array([item.reward.total for item in members], np.float64)
        values = estimate(rewards, np.zeros(len(members), np.int64))
        pairs = zip(members, values, strict=True)
        compared += [(item, float(value)) for item, value in pairs if item.dropped is None]
    return compared
