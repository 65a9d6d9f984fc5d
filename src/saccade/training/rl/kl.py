"""Estimators of the Kullback-Leibler divergence of the policy from a reference, token by token.

Each is a function of `d = reference - logprob` of the sampled ids (Schulman, "Approximating KL Divergence"), of shape
(rows, tokens), in nats. A recipe names one: `loss.kl = "k3"`. Needs no torch to be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from saccade.core.registry import Registry, is_a

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_LOG_RATIO = 20.0
"""Nats; larger ones would overflow in half precision."""


@dataclass(frozen=True, slots=True)
class KlEstimator:
    """An estimator of the distance, by name and by its name in verl."""

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
