"""The loss of a step from its parts, with what a run logs about it.

    loss = policy + kl_weight · k3(policy, reference) - entropy_weight · entropy

A step cut into forward passes gives the gradient of the uncut one if `Totals` of the whole step are given to each pass
and the losses are added up. Logged numbers are sums over tokens, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from saccade.rl.losses.aggregate import sequence_mean, sequence_sum, token_mean
from saccade.rl.losses.entropy import entropy
from saccade.rl.losses.kl import k3
from saccade.rl.losses.policy import ClipBounds, clipped, clipped_policy_loss
from saccade.rl.losses.settings import RlLossSettings


@dataclass(frozen=True)
class LossInputs:
    """Tensors of a forward pass, (rows, tokens) but for `logits`."""

    logprobs: Tensor
    """Of the sampled ids under the policy; the only tensor but `logits` that gradients flow through."""
    behaviour: Tensor
    """Of the same ids under the policy that sampled them."""
    advantages: Tensor
    mask: Tensor
    """Whether each token was sampled (bool or 0 and 1); the other tensors may hold anything where it was not."""
    reference: Tensor | None = None
    """Of the same ids under the reference policy; needed for a kl_weight above 0."""
    logits: Tensor | None = None
    """(rows, tokens, vocabulary); needed for an entropy_weight other than 0."""


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
    """k3 to the reference."""
    entropy: float
    max_logprob_diff: float
    """Largest absolute difference of log-probability between policy and behaviour; no sum."""


def policy_loss(inputs: LossInputs, settings: RlLossSettings, totals: Totals | None = None) -> tuple[Tensor, LossSums]:
    """The loss, a scalar to go backward from, and its sums.

    Without `totals` the pass is the whole step. Raises ValueError for a missing reference or missing logits.
    """
    clip = ClipBounds(settings.clip_low, settings.clip_high, settings.dual_clip or None)
    mask = inputs.mask.bool()
    # What was not sampled may be NaN or -inf, and 0 · NaN is NaN: in the loss and in its gradient.
    logprobs, behaviour, advantages = (
        tensor.masked_fill(~mask, 0.0) for tensor in (inputs.logprobs, inputs.behaviour, inputs.advantages)
    )
    values = clipped_policy_loss(logprobs, behaviour, advantages, clip)
    distance = spread = torch.zeros_like(values)
    if settings.kl_weight:
        if inputs.reference is None:
            raise ValueError("a kl_weight above 0 needs log-probabilities under a reference policy")
        distance = k3(logprobs, inputs.reference.masked_fill(~mask, 0.0))
        values = values + settings.kl_weight * distance
    if settings.entropy_weight:
        if inputs.logits is None:
            raise ValueError("an entropy_weight other than 0 needs logits")
        spread = entropy(inputs.logits)
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
