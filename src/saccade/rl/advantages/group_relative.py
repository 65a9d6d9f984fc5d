"""Advantages of rollouts against their group: GRPO with and without the standard deviation, and leave-one-out.

All take rewards (N,) and group numbers (N,), in any order, and give advantages (N,). A rollout alone in its group has
nothing to be compared with and gets 0 (verl gives it its reward).
"""

from __future__ import annotations

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


def _numbered(rewards: Array, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group of each rollout as 0.. (N,), and rollouts of each group (groups,)."""
    if rewards.ndim != 1 or rewards.shape != groups.shape:
        raise ValueError(f"one group for each reward is needed; shapes are {rewards.shape} and {groups.shape}")
    if not np.isfinite(rewards).all():
        raise ValueError("a reward is not finite; leave rollouts without a reward out before")
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return inverse.astype(np.int64), counts.astype(np.int64)
