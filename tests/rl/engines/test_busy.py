"""The clock of an engine, with a clock of the test's own."""

from __future__ import annotations

from contextlib import suppress

import pytest

from saccade.rl.engines import busy
from saccade.rl.engines.busy import BusyClock


def test_what_overlaps_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(busy.time, "perf_counter", lambda: now)
    clock = BusyClock()
    assert clock.seconds == 0.0
    with clock.running():
        now = 103.0
        assert clock.seconds == 3.0
        with clock.running():
            now = 104.0
        now = 106.0
    now = 200.0
    assert clock.seconds == 6.0
    clock_of_a_failure = BusyClock()
    with suppress(ValueError), clock_of_a_failure.running():
        now = 201.0
        raise ValueError("of a turn")
    now = 300.0
    assert clock_of_a_failure.seconds == 1.0
