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
    """A forward pass: log-probabilities (rows, tokens), 0 where nothing was sampled, and what they came from."""

    logprobs: torch.Tensor
    logits: torch.Tensor
    """(sampled tokens, vocabulary), divided by the temperature, -inf where forbidden."""
    mask: torch.Tensor
    """bool (rows, tokens), on the model's device."""

    def dense_logits(self) -> torch.Tensor:
        """The logits (rows, tokens, vocabulary); 0 where nothing was sampled."""
        dense = self.logits.new_zeros((*self.mask.shape, self.logits.shape[-1]))
        dense[self.mask] = self.logits
        return dense


def sampled_logprobs(
    trained: Trainable, batch: Batch, rows: Sequence[BatchRow], temperature: float | None
) -> ForwardOutput:
    """Log-probabilities of the sampled tokens of `batch`, which holds `rows`, padded; greedy counts as 1."""
    model, forbidden = trained.model, trained.checkpoint.forbidden
    device, dtype = forbidden.device, next(model.parameters()).dtype
    pictures = {
        name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for name, value in batch.pictures.items()
    }
    mask = batch.lay_out([row.trained for row in rows], False).to(device)
    # A tensor on the device, since torch divides by a plain number in another way there.
    heat = torch.tensor([temperature or 1.0], device=device)
    with trained.autocast():
        hidden = model.model(
            input_ids=batch.ids.to(device), position_ids=batch.positions.to(device), use_cache=False, **pictures
        ).last_hidden_state
        before = mask[:, 1:]  # a token is predicted at the position in front of it
        logits = model.get_output_embeddings()(hidden[:, :-1][before]).float()
    logits = logits.masked_fill(forbidden, -torch.inf) / heat
    targets = batch.ids[:, 1:].to(device)[before]
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, targets[:, None])[:, 0]
    logprobs = torch.zeros(mask.shape, device=device)
    logprobs[mask] = chosen
    return ForwardOutput(logprobs, logits, mask)


def reference_logprobs(
    trained: Trainable, reference: Trainable | None, batch: Batch, rows: Sequence[BatchRow], temperature: float | None
) -> torch.Tensor:
    """The same (rows, tokens) under the policy to stay near: `reference`, or `trained` without its adapter."""
    without: Any = nullcontext() if reference else trained.adapter.disable_adapter()
    with torch.no_grad(), without:
        return sampled_logprobs(reference or trained, batch, rows, temperature).logprobs
