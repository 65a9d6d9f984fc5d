"""Log-probabilities under the policy that learns, exactly as they were sampled.

They are computed over the ids that may be sampled, at the temperature of the rollout, in float32: before any update
they must be the behaviour's again. Imports torch; import this module late.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from saccade.tokens.batch import Batch, BatchRow
from saccade.training.weights import Trainable


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """A forward pass; tensors (rows, tokens) on the model's device."""

    logprobs: torch.Tensor
    """0 where nothing was sampled."""
    entropy: torch.Tensor
    """Of the distribution from which the token was sampled, in nats; 0 where nothing was."""
    mask: torch.Tensor
    """bool."""


def sampled_logprobs(
    trained: Trainable, batch: Batch, rows: Sequence[BatchRow], temperature: float | None
) -> ForwardOutput:
    """Log-probabilities of the sampled tokens of `batch`, which holds `rows`, padded; greedy counts as 1."""
    mask = batch.lay_out([row.trained for row in rows], False).to(trained.checkpoint.device)
    with trained.autocast():
        scores = trained.scorer(batch, mask, temperature)
    logprobs, entropy = (
        torch.zeros(mask.shape, device=mask.device).masked_scatter(mask, values)
        for values in (scores.logprobs, scores.entropy)
    )
    return ForwardOutput(logprobs, entropy, mask)


def reference_logprobs(
    trained: Trainable, reference: Trainable | None, batch: Batch, rows: Sequence[BatchRow], temperature: float | None
) -> torch.Tensor:
    """The same (rows, tokens) under the policy to stay near: `reference`, or `trained` without its adapter."""
    without: Any = nullcontext() if reference else trained.adapter.disable_adapter()
    with torch.no_grad(), without:
        return sampled_logprobs(reference or trained, batch, rows, temperature).logprobs
