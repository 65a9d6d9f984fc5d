"""The clipped policy gradient, token by token.

    loss = -min(r A, clip(r, 1 - low, 1 + high) A),  r = exp(logprob - behaviour)

With a dual clip c, tokens with A < 0 lose at most -c A: a far off-policy token cannot pull without bound. Sources: PPO
(clip), DAPO (separate bounds), dual-clip PPO. All tensors are (rows, tokens); masking is left to the aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LARGEST_LOG_RATIO = 20.0
"""Natural units; larger ones would overflow in half precision."""


@dataclass(frozen=True, slots=True)
class ClipBounds:
    """Bounds of the ratio."""

    low: float = 0.2
    """The ratio counts down to 1 - low."""
    high: float = 0.2
    """The ratio counts up to 1 + high."""
    dual: float | None = None
    """Largest ratio for negative advantages, above 1; None for no such bound."""

    def __post_init__(self) -> None:
        """Raises ValueError for bounds that bound nothing."""
        if not 0 <= self.low <= 1 or self.high < 0 or (self.dual is not None and self.dual <= 1):
            raise ValueError(f"clip needs 0 <= low <= 1, high >= 0 and dual > 1 or none; got {self}")


def log_ratio(logprobs: Tensor, behaviour: Tensor) -> Tensor:
    """Log of policy over behaviour policy, bounded."""
    return torch.clamp(logprobs - behaviour, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)


def clipped_policy_loss(logprobs: Tensor, behaviour: Tensor, advantages: Tensor, clip: ClipBounds) -> Tensor:
    """Loss of each token; gradients flow through `logprobs` alone."""
    ratio = torch.exp(log_ratio(logprobs, behaviour.detach()))
    fixed = advantages.detach()
    bounded = torch.clamp(ratio, 1.0 - clip.low, 1.0 + clip.high)
    loss = torch.maximum(-fixed * ratio, -fixed * bounded)
    if clip.dual is None:
        return loss
    return torch.where(fixed < 0, torch.minimum(loss, -fixed * clip.dual), loss)


def clipped(logprobs: Tensor, behaviour: Tensor, advantages: Tensor, clip: ClipBounds) -> Tensor:
    """Whether a bound took the gradient of a token away (bool)."""
    ratio = torch.exp(log_ratio(logprobs, behaviour)).detach()
    above = (advantages > 0) & (ratio > 1.0 + clip.high)
    below = (advantages < 0) & (ratio < 1.0 - clip.low)
    far = (advantages < 0) & (ratio > clip.dual) if clip.dual is not None else torch.zeros_like(below)
    return above | below | far
