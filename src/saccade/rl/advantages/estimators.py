"""Advantages as arrays: of rollouts against their group, and CodeDance's term of single turns.

`mean_baseline`, `standardised` and `leave_one_out` take rewards (N,) and group numbers (N,), in any order, and give
advantages (N,). A rollout alone in its group has nothing to be compared with and gets 0 (verl gives it its reward).

The turn term is normalised over the whole batch, and stands on the tokens of its turn:

    A_token = A_sequence + weight · A_turn(turn of the token)

Tokens that were not sampled get 0. Turns without a value (an answer) get the sequence's advantage alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
EPSILON = 1e-6
"""Added to the standard deviation, as verl does; TRL adds 1e-4."""


def mean_baseline(rewards: Array, groups: NDArray[np.int64]) -> Array:
    """A = R - mean of the group: PyVision-RL, TAPO, Dr. GRPO. Sums to 0 in every group."""
    inverse, counts = _numbered(rewards, groups)
    means = np.bincount(inverse, weights=rewards) / counts
    advantages: Array = rewards - means[inverse]
    return advantages


def standardised(rewards: Array, groups: NDArray[np.int64], epsilon: float = EPSILON) -> Array:
    """A = (R - mean) / (std + epsilon), std with one degree of freedom: GRPO. Sums to 0 in every group."""
    centred = mean_baseline(rewards, groups)
    inverse, counts = _numbered(rewards, groups)
    deviation = np.sqrt(np.bincount(inverse, weights=centred**2) / np.maximum(counts - 1, 1))
    advantages: Array = centred / (deviation[inverse] + epsilon)
    return advantages


def leave_one_out(rewards: Array, groups: NDArray[np.int64]) -> Array:
    """A = R - mean of the others in the group: RLOO. Sums to 0 in every group."""
    inverse, counts = _numbered(rewards, groups)
    size = counts[inverse].astype(np.float64)
    advantages: Array = mean_baseline(rewards, groups) * size / np.maximum(size - 1, 1)
    return advantages


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


def _numbered(rewards: Array, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group of each rollout as 0.. (N,), and rollouts of each group (groups,)."""
    if rewards.ndim != 1 or rewards.shape != groups.shape:
        raise ValueError(f"one group for each reward is needed; shapes are {rewards.shape} and {groups.shape}")
    if not np.isfinite(rewards).all():
        raise ValueError("a reward is not finite; leave rollouts without a reward out before")
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return inverse.astype(np.int64), counts.astype(np.int64)
