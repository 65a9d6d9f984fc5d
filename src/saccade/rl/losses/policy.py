"""The loss of a step: a clipped policy gradient, the distance to a reference, entropy; token by token, then averaged.

    loss = policy + kl_weight · kl(policy, reference) - entropy_weight · entropy
    policy = -min(r A, clip(r, 1 - low, 1 + high) A),  r = exp(logprob - behaviour)

With a dual clip c, tokens with A < 0 lose at most -c A: a far off-policy token cannot pull without bound. Sources: PPO
(clip), DAPO (separate bounds), dual-clip PPO; for the distance see `saccade.rl.losses.kl`. Tensors are (rows, tokens).

A step cut into forward passes gives the gradient of the uncut one if `Totals` of the whole step are given to each pass
and the losses are added up. Logged numbers are sums over tokens, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from saccade.rl.losses.kl import KL_ESTIMATORS, LARGEST_LOG_RATIO
from saccade.rl.losses.settings import RlLossSettings


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


@dataclass(frozen=True)
class LossInputs:
    """Tensors of a forward pass, (rows, tokens)."""

    logprobs: Tensor
    """Of the sampled ids under the policy; the only tensor but `entropy` that gradients flow through."""
    behaviour: Tensor
    """Of the same ids under the policy that sampled them."""
    advantages: Tensor
    mask: Tensor
    """Whether each token was sampled (bool or 0 and 1); the other tensors may hold anything where it was not."""
    reference: Tensor | None = None
    """Of the same ids under the reference policy; needed for a kl_weight above 0."""
    entropy: Tensor | None = None
    """Of the policy where each id was sampled, in nats; needed for an entropy_weight other than 0, else only logged."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Of the whole step."""

    tokens: float
    """Sampled tokens."""
    sequences: float
    """Rollouts with at least one of them."""


@dataclass(frozen=True, slots=True)
class LossSums:
    """For the log: sums over sampled tokens."""

    tokens: float
    clipped: float
    """Tokens whose gradient a bound took away."""
    kl: float
    """Distance to the reference, as `RlLossSettings.kl` estimates it."""
    entropy: float
    max_logprob_diff: float
    """Largest absolute difference of log-probability between policy and behaviour; no sum."""


def policy_loss(inputs: LossInputs, settings: RlLossSettings, totals: Totals | None = None) -> tuple[Tensor, LossSums]:
    """The loss, a scalar to go backward from, and its sums.

    Without `totals` the pass is the whole step. Raises ValueError for a missing reference or a missing entropy.
    """
    clip = ClipBounds(settings.clip_low, settings.clip_high, settings.dual_clip or None)
    mask = inputs.mask.bool()
    # What was not sampled may be NaN or -inf, and 0 · NaN is NaN: in the loss and in its gradient.
    logprobs, behaviour, advantages = (
        tensor.masked_fill(~mask, 0.0) for tensor in (inputs.logprobs, inputs.behaviour, inputs.advantages)
    )
    values = clipped_policy_loss(logprobs, behaviour, advantages, clip)
    distance = torch.zeros_like(values)
    spread = distance if inputs.entropy is None else inputs.entropy.masked_fill(~mask, 0.0)
    if settings.kl_weight:
        if inputs.reference is None:
            raise ValueError("a kl_weight above 0 needs log-probabilities under a reference policy")
        distance = KL_ESTIMATORS.load(settings.kl)(logprobs, inputs.reference.masked_fill(~mask, 0.0))
        values = values + settings.kl_weight * distance
    if settings.entropy_weight:
        if inputs.entropy is None:
            raise ValueError("an entropy_weight other than 0 needs the policy's entropy")
        values = values - settings.entropy_weight * spread
    loss = _aggregate(values, mask, settings, totals)
    with torch.no_grad():
        held = clipped(logprobs, behaviour, advantages, clip)
        sums = LossSums(
            tokens=float(mask.sum()),
            clipped=float((held & mask).sum()),
            kl=float((distance * mask).sum()),
            entropy=float((spread * mask).sum()),
            max_logprob_diff=float((logprobs - behaviour).abs().max()) if mask.numel() else 0.0,
        )
    return loss, sums


def _aggregate(values: Tensor, mask: Tensor, settings: RlLossSettings, totals: Totals | None) -> Tensor:
    if settings.aggregate == "token-mean":
        return token_mean(values, mask, None if totals is None else totals.tokens)
    sequences = None if totals is None else totals.sequences
    if settings.aggregate == "sequence-mean":
        return sequence_mean(values, mask, sequences)
    return sequence_sum(values, mask, settings.scale, sequences)


def token_mean(values: Tensor, mask: Tensor, tokens: float | None = None) -> Tensor:
    """Sum over sampled tokens / `tokens`: every token of the step weighs the same. None: those of `mask`."""
    count = mask.sum().clamp(min=1) if tokens is None else tokens
    return (values * mask).sum() / count


def sequence_mean(values: Tensor, mask: Tensor, sequences: float | None = None) -> Tensor:
    """Mean over rollouts of their mean over tokens: every rollout weighs the same. None: rows with a sampled token."""
    lengths = mask.sum(dim=-1)
    means = (values * mask).sum(dim=-1) / lengths.clamp(min=1)
    count = (lengths > 0).sum().clamp(min=1) if sequences is None else sequences
    return means.sum() / count


def sequence_sum(values: Tensor, mask: Tensor, scale: float, sequences: float | None = None) -> Tensor:
    """Mean over rollouts of their sum over tokens, divided by a constant `scale` (Dr. GRPO)."""
    count = (mask.sum(dim=-1) > 0).sum().clamp(min=1) if sequences is None else sequences
    return (values * mask).sum() / count / scale
