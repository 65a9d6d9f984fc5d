"""The forward pass of training: a batch through the model, and the scores of the tokens that count.

Logits exist at those tokens alone (most tokens are shown, not written), a chunk at a time, in float32 and over the ids
that may be sampled: the softmax from which `LocalModel` and the engines draw.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from saccade.errors import TrainingError
from saccade.models.logit_cap import logit_cap
from saccade.tokens.batch import Batch
from saccade.training.token_scores import LogitRules, TokenScores, token_scores


class TokenScorer(torch.nn.Module):  # type: ignore[misc]
    """A transformers model of a supported family, asked for scores in place of logits."""

    def __init__(self, model: Any, forbidden: Tensor, chunk: int) -> None:
        """`forbidden` is bool (vocabulary,), on the model's device; `chunk` positions have their logits at once.

        Raises:
            TrainingError: the model's head has a bias, which no known family has.
        """
        super().__init__()
        self.model = model
        self._forbidden = forbidden
        self._chunk = chunk
        self.always: list[torch.nn.Module] = []
        """Modules whose weights have a gradient of zeros where a pass does not use them."""
        if getattr(model.get_output_embeddings(), "bias", None) is not None:
            raise TrainingError("the head of this model has a bias, which the trainer does not know; take another one")

    def forward(self, batch: Batch, chosen: Tensor, temperature: float | None = None) -> TokenScores:
        """Scores of the tokens that are `chosen`, in the order of rows and places; greedy counts as temperature 1.

        Args:
            batch: on any device.
            chosen: bool (rows, tokens); never the first of a trajectory.
            temperature: by which logits are divided.
        """
        device, model = self._forbidden.device, self.model
        dtype = next(model.parameters()).dtype
        pictures = {
            name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
            for name, value in batch.pictures.items()
        }
        hidden = model.model(
            input_ids=batch.ids.to(device), position_ids=batch.positions.to(device), use_cache=False, **pictures
        ).last_hidden_state
        before = chosen[:, 1:].to(device)  # a token is predicted at the position in front of it
        heat = torch.tensor([temperature or 1.0], device=device)
        rules = LogitRules(self._forbidden, heat, self._chunk, logit_cap(model.config))
        weight = model.get_output_embeddings().weight
        read = hidden[:, :-1][before]
        if not pictures:
            for unused in (weight for module in self.always for weight in module.parameters()):
                read = read + unused.flatten()[:0].sum()
        return token_scores(read, weight, batch.ids[:, 1:].to(device)[before], rules)
