"""The loss: sum of the negative log-likelihood over learned tokens, each with the weight that the caller gives it.

Logits are computed at learned positions alone (a vocabulary is wide, and most tokens are shown, not written), in
float32, and over the tokens that may be sampled: the same softmax from which `LocalModel` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.tokens.batch import Batch, BatchRow

Weights: TypeAlias = NDArray[np.float32]
"""Of the tokens of a trajectory."""


@dataclass(frozen=True, slots=True)
class TokenLoss:
    """What a forward pass gave."""

    total: torch.Tensor
    """Scalar, natural units times weights, with gradient."""
    right: int
    """Learned tokens to which no other was preferred."""
    tokens: int


def token_loss(
    model: Any, batch: Batch, trained: torch.Tensor, forbidden: torch.Tensor, weights: torch.Tensor | None = None
) -> TokenLoss:
    """The summed loss of `batch`.

    Args:
        model: a transformers model of a supported family.
        batch: on any device.
        trained: bool (rows, tokens), the learned tokens; never the first of a trajectory.
        forbidden: bool (vocabulary,), on the model's device.
        weights: float (rows, tokens), used where `trained`; None for 1 everywhere.
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
    targets = batch.ids[:, 1:].to(device)[before]
    logits = model.get_output_embeddings()(hidden[:, :-1][before]).float()
    logits = logits.masked_fill(forbidden, -torch.inf)
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    total = losses.sum() if weights is None else (losses * weights[:, 1:].to(device)[before]).sum()
    with torch.no_grad():
        right = int((logits.argmax(-1) == targets).sum())
    return TokenLoss(total, right, len(targets))


def token_weights(rows: Sequence[BatchRow], average: Literal["tokens", "trajectories"]) -> list[Weights]:
    """What each learned token of a step counts in its loss; 0 for the others, 1 in sum."""
    learned = [int(row.trained.sum()) for row in rows]
    shares = [sum(learned)] * len(rows) if average == "tokens" else [own * len(rows) for own in learned]
    return [(row.trained / max(1, share)).astype(np.float32) for row, share in zip(rows, shares, strict=True)]
