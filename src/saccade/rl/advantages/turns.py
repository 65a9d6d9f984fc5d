"""CodeDance's turn term: returns of single turns, normalised over the whole batch, on the tokens of their turn.

    A_token = A_sequence + weight · A_turn(turn of the token)

Tokens that were not sampled get 0. Turns without a value (an answer) get the sequence's advantage alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from saccade.rl.advantages.group_relative import EPSILON, Array


def batch_normalised(returns: Sequence[Array], epsilon: float = EPSILON) -> list[Array]:
    """(G - mean) / (std + epsilon) over all turns of the batch that have a value; 0 where there is none (NaN).

    `returns` holds for each rollout an array (turns,). The deviation is that of the population.
    """
    known = np.concatenate([row[~np.isnan(row)] for row in returns]) if returns else np.array([])
    if known.size == 0:
        return [np.zeros_like(row) for row in returns]
    mean, deviation = known.mean(), known.std()
    return [np.nan_to_num((row - mean) / (deviation + epsilon), nan=0.0) for row in returns]


def as_returns(values: Sequence[float | None]) -> Array:
    """A part of a reward's turns as an array (turns,), NaN for None."""
    return np.array([np.nan if value is None else value for value in values], np.float64)


def per_token(sequence: float, turn_of_token: NDArray[np.int64], turns: Array | None = None) -> Array:
    """Advantages (tokens,) of one rollout: `sequence` and the term of the token's turn; 0 where the turn is -1.

    `turn_of_token` (tokens,) is `TokenTrajectory.turns()`. Raises ValueError if a token's turn has no term.
    """
    sampled = turn_of_token >= 0
    advantages: Array = np.where(sampled, sequence, 0.0)
    if turns is None:
        return advantages
    if sampled.any() and int(turn_of_token.max()) >= len(turns):
        raise ValueError(f"tokens of turn {int(turn_of_token.max())} have no term; there are {len(turns)} turns")
    padded = np.append(turns, 0.0)  # the last one is what -1 finds
    advantages += padded[turn_of_token]
    return advantages
