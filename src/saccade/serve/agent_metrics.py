"""Counters of a server of agents, in the text format of Prometheus. They hold no text of any request."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import Final

from saccade.record.trajectory import Trajectory

_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper ends of the classes of request times, in seconds."""


class AgentMetrics:
    """Counts what a server does; only the event loop touches it."""

    def __init__(self) -> None:
        self.active = 0
        """Episodes that are being played."""
        self.waiting = 0
        """Requests that wait for their turn."""
        self._ends: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._turns = self._calls = 0
        self._classes = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0

    def note(self, trajectory: Trajectory | None, seconds: float) -> None:
        """An episode ended after `seconds`; None: it was left, or failed."""
        self._ends["left" if trajectory is None or trajectory.stop is None else trajectory.stop.value] += 1
        self._seconds += seconds
        self._classes[bisect_left(_BUCKETS, seconds)] += 1
        if trajectory is not None:
            self._turns += len(trajectory.turns)
            self._calls += sum(len(turn.executions) for turn in trajectory.turns)
            self._tokens["prompt"] += sum(turn.tokens.context or 0 for turn in trajectory.turns)
            self._tokens["completion"] += sum(turn.tokens.sampled or 0 for turn in trajectory.turns)

    def refuse(self, status: int) -> None:
        """A request was answered with an error before its episode began."""
        self._refusals[str(status)] += 1

    def text(self) -> str:
        """All of it."""
        count = sum(self._ends.values())
        lines = [
            *_gauge("saccade_requests_active", "Episodes that are being played.", self.active),
            *_gauge("saccade_requests_waiting", "Requests that wait for their turn.", self.waiting),
            *_counter("saccade_episodes", "Episodes, by how they ended.", "stop", self._ends),
            *_counter("saccade_refusals", "Requests refused before an episode, by status.", "status", self._refusals),
            *_counter("saccade_tokens", "Tokens of the models.", "kind", self._tokens),
            *_head("saccade_turns_total", "Turns of the models.", "counter"),
            f"saccade_turns_total {self._turns}",
            *_head("saccade_calls_total", "Calls of code and tools.", "counter"),
            f"saccade_calls_total {self._calls}",
            *_head("saccade_episode_seconds", "Time of an episode.", "histogram"),
            *(
                f'saccade_episode_seconds_bucket{{le="{end:g}"}} {number}'
                for end, number in zip(_BUCKETS, accumulate(self._classes[:-1]), strict=True)
            ),
            f'saccade_episode_seconds_bucket{{le="+Inf"}} {count}',
            f"saccade_episode_seconds_sum {self._seconds:.6f}",
            f"saccade_episode_seconds_count {count}",
        ]
        return "\n".join(lines) + "\n"


def _head(name: str, words: str, kind: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]


def _gauge(name: str, words: str, value: int) -> list[str]:
    return [*_head(name, words, "gauge"), f"{name} {value}"]


def _counter(name: str, words: str, label: str, counts: Counter[str]) -> list[str]:
    lines = [f'{name}_total{{{label}="{key}"}} {number}' for key, number in sorted(counts.items())]
    return [*_head(f"{name}_total", words, "counter"), *lines]
