"""The loss: sum of the negative log-likelihood over learned tokens; the caller divides by the step's number of them.

Logits are computed at learned positions alone (a vocabulary is wide, and most tokens are shown, not written), in
float32, and over the tokens that may be sampled: the same softmax from which `LocalModel` draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from saccade.tokens.batch import Batch


@dataclass(frozen=True, slots=True)
class TokenLoss:
    """What a forward pass gave."""

    total: torch.Tensor
    """Scalar, natural units, with gradient."""
    right: int
    """Learned tokens to which no other was preferred."""
    tokens: int


def token_loss(model: Any, batch: Batch, trained: torch.Tensor, forbidden: torch.Tensor) -> TokenLoss:
    """The summed loss of `batch`.

    Args:
        model: a transformers model of a supported family.
        batch: on any device.
        trained: bool (rows, tokens), the learned tokens; never the first of a trajectory.
        forbidden: bool (vocabulary,), on the model's device.
    """
    device = forbidden.device
    dtype = next(model.parameters()).dtype
    pictures = {
        name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for name, value in batch.pictures.items()
    }
    hidden = model.model(
        input_ids=batch.ids.to(device), position_ids=batch.positions.to(device), use_cache=False, **pictures
    ).last_hidden_state
    before = trained[:, 1:].to(device)  # a token is predicted at the position in front of it
    wanted = batch.ids[:, 1:].to(device)[before]
    logits = model.get_output_embeddings()(hidden[:, :-1][before]).float()
    logits = logits.masked_fill(forbidden, -torch.inf)
    total = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
    with torch.no_grad():
        right = int((logits.argmax(-1) == wanted).sum())
    return TokenLoss(total, right, len(wanted))
