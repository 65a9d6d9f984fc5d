"""A call beside hostile sessions that compute with all they may: at most twice its time, or four times beside four."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from saccade.bench.forks import four_hostile, one_hostile
from saccade.bench.measure import FULL, Measurement
from saccade.bench.ours import Saccade
from saccade.bench.work import Setup
from saccade.sandbox.isolation import Layer

TRIES = 4
"""What else the machine does meanwhile counts, too: one quiet moment is enough."""


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("measure", "most"), [(one_hostile, 2.0), (four_hostile, 4.0)], ids=["one", "four"])
def test_a_neighbour_is_not_held_up(measure: object, most: float, tmp_path: Path) -> None:
    with Saccade() as ours:
        if not ours.isolation().is_on(Layer.CPU_SHARES):
            pytest.skip("processors cannot be shared out here")
        ratios = []
        for _ in range(TRIES):
            result = measure(ours, Setup(tmp_path, FULL, 2))  # type: ignore[operator]
            assert isinstance(result, Measurement)
            ratios.append(result.median)
            if result.median <= most:
                return
    pytest.fail(f"times as long as alone: {ratios}")
