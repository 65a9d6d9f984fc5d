"""The order of the data, the forward passes of a step, and the learning rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.tokens.batch import forward_passes
from saccade.training.optimizer import rate_fraction
from saccade.training.settings import OptimizerSettings
from saccade.training.sft.run import step_rows, total_steps


def test_every_epoch_sees_every_row_once() -> None:
    seen = [row for step in range(7) for row in step_rows(step, 10, 3, seed=1)]
    assert sorted(seen[:10]) == sorted(seen[10:20]) == list(range(10))
    assert seen[:10] != seen[10:20]
    assert step_rows(4, 10, 3, seed=1) == seen[12:15]
    assert step_rows(0, 10, 10, seed=2) != seen[:10]


def test_a_step_may_be_larger_than_the_data() -> None:
    assert sorted(step_rows(0, 2, 5, seed=0))[:2] == [0, 0]


def test_steps_follow_from_epochs_or_are_given() -> None:
    assert total_steps(10, 4, epochs=1.0, steps=0) == 3
    assert total_steps(10, 4, epochs=2.0, steps=0) == 5
    assert total_steps(10, 4, epochs=2.0, steps=7) == 7
    assert total_steps(1, 4, epochs=0.01, steps=0) == 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 120), st.booleans())
def test_forward_passes_hold_every_row_within_the_limit(lengths: list[int], most: int, packed: bool) -> None:
    groups = forward_passes(lengths, most, packed=packed)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        sizes = [lengths[index] for index in group]
        laid = sum(sizes) if packed else max(sizes) * len(sizes)
        assert laid <= most or len(group) == 1


def test_the_learning_rate_rises_and_falls() -> None:
    settings = OptimizerSettings(warmup=0.2, final_fraction=0.1)
    rates = [rate_fraction(step, 100, settings) for step in range(100)]
    assert rates[0] == pytest.approx(1 / 20)
    assert rates[19] == rates[20] == 1.0
    assert all(np.diff(rates[20:]) < 0)
    assert 0.1 < rates[-1] < 0.11
    assert rate_fraction(0, 1, OptimizerSettings(warmup=0.0)) == 1.0
