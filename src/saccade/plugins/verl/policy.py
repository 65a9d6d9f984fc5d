"""A policy whose weights are verl's: its tokens are made here. Imports torch; import this module late."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from saccade.models.local_tokens import CheckpointTokens, load_tokens
from saccade.tokens.encoder import Encoder


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """Parts needed to ask for turns and to read them."""

    checkpoint: CheckpointTokens
    encoder: Encoder

    @property
    def forbidden(self) -> list[int]:
        """Ids that must not be sampled."""
        return [int(token) for token in torch.nonzero(self.checkpoint.forbidden)[:, 0]]


def load_policy(source: str) -> TokenPolicy:
    """Return the tokens of the checkpoint in the folder `source`, or of that name on the hub.

    Raises:
        ModelRefusedError: they cannot be loaded.
        TrainingError: its chat template does not write its family's frame.
    """
    tokens = load_tokens(source)
    encoder = Encoder.of(tokens)
    return TokenPolicy(tokens, encoder)
