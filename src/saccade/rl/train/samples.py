"""Selected rollouts with their advantages as the samples of an update."""

from __future__ import annotations

import numpy as np

from saccade.rl.train.harvest import Harvest
from saccade.rl.train.update import Sample
from saccade.tokens.batch import row_of


def samples_of(harvest: Harvest, temperature: float | None) -> list[Sample]:
    """A sample for each advantage, in their order. Raises ValueError for one of a rollout that has no tokens."""
    made = []
    for advantage in harvest.advantages:
        tokens = harvest.scored[advantage.id].played.tokens
        if tokens is None:
            raise ValueError(f"rollout {advantage.id} was selected, and cannot be trained on")
        values = advantage.tokens(tokens.turns()).astype(np.float32)
        behaviour = np.nan_to_num(tokens.logprobs(), nan=0.0)
        made.append(Sample(row_of(tokens), behaviour, values, 1.0 if temperature is None else temperature))
    return made
