"""Which rows a step takes: a pure function of the seed and the step.

A run that resumes after a kill computes the same steps again; nothing about the order is stored.
"""

from __future__ import annotations

import math

import numpy as np


def total_steps(rows: int, per_step: int, epochs: float, steps: int) -> int:
    """Steps of a run: `steps`, or as many as see every row `epochs` times; at least one."""
    return steps or max(1, math.ceil(epochs * rows / per_step))


def step_rows(step: int, rows: int, per_step: int, seed: int) -> list[int]:
    """The numbers of the rows of step `step` (from 0).

    Every epoch is a permutation of its own; epochs follow each other without a gap, so a step can hold the end of one
    and the beginning of the next.
    """
    positions = range(step * per_step, (step + 1) * per_step)
    epochs = {number // rows for number in positions}
    orders = {epoch: np.random.default_rng((seed, epoch)).permutation(rows) for epoch in epochs}
    return [int(orders[number // rows][number % rows]) for number in positions]
