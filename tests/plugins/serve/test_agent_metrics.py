"""The metrics that a server of agents tells."""

from __future__ import annotations

from saccade.plugins.serve.agents import AgentMetrics


def test_the_classes_of_request_times_add_up() -> None:
    metrics = AgentMetrics()
    for seconds in (0.05, 0.1, 0.3, 1000.0):
        metrics.note(None, seconds)
    lines = metrics.text().splitlines()
    for end, count in (("0.1", 2), ("0.25", 2), ("0.5", 3), ("600", 3), ("+Inf", 4)):
        assert f'saccade_episode_seconds_bucket{{le="{end}"}} {count}' in lines
    assert "saccade_episode_seconds_count 4" in lines
