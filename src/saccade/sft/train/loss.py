"""The loss: sum of the negative log-likelihood over learned tokens, each with the weight that the caller gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.tokens.batch import Batch, BatchRow
from saccade.training.scorer import TokenScorer

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
    scorer: TokenScorer, batch: Batch, trained: torch.Tensor, weights: torch.Tensor | None = None
) -> TokenLoss:
    """The summed loss of `batch`.

    Args:
        scorer: of the model that learns.
        batch: on any device.
        trained: bool (rows, tokens), the learned tokens; never the first of a trajectory.
        weights: float (rows, tokens), used where `trained`; None for 1 everywhere.
    """
    scores = scorer(batch, trained)
    losses = -scores.logprobs
    if weights is not None:
        losses = losses * weights[trained].to(losses.device)
    return TokenLoss(losses.sum(), int(scores.preferred.sum()), len(losses))


def token_weights(rows: Sequence[BatchRow], average: Literal["tokens", "trajectories"]) -> list[Weights]:
    """What each learned token of a step counts in its loss; 0 for the others, 1 in sum."""
    learned = [int(row.trained.sum()) for row in rows]
    shares = [sum(learned)] * len(rows) if average == "tokens" else [own * len(rows) for own in learned]
    return [(row.trained / max(1, share)).astype(np.float32) for row, share in zip(rows, shares, strict=True)]
