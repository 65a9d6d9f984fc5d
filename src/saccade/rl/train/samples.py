"""Selected rollouts with their advantages as the samples of an update."""

from __future__ import annotations

import numpy as np

from saccade.rl.train.collector import RolloutBatch
from saccade.rl.train.update import TrainingSample
from saccade.tokens.batch import token_row


def training_samples(batch: RolloutBatch, temperature: float | None) -> list[TrainingSample]:
    """A sample for each advantage, in their order. Raises ValueError for one of a rollout that has no tokens."""
    samples = []
    for advantage in batch.advantages:
        tokens = batch.scored[advantage.id].played.tokens
        if tokens is None:
            raise ValueError(f"rollout {advantage.id} was selected, and cannot be trained on")
        values = advantage.tokens(tokens.turns()).astype(np.float32)
        behaviour = np.nan_to_num(tokens.logprobs(), nan=0.0)
        samples.append(
            TrainingSample(token_row(tokens), behaviour, values, 1.0 if temperature is None else temperature)
        )
    return samples
