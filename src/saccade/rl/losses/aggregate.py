"""From a loss for each token to one number. `mask` (rows, tokens) says which tokens were sampled.

The whole step's totals are arguments, so that a step cut into forward passes gives the same gradient as an uncut one:
add up the results of the passes.
"""

from __future__ import annotations

from torch import Tensor


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
