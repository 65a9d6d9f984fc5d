"""Counters of a server of tools, in the text format of Prometheus. They hold nothing of any call's content."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the classes of times, in seconds."""


class ToolServerMetrics:
    """Counts calls; only the event loop touches it."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        """By tool and how they ended: a status, or the code of a refusal."""
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._count: Counter[str] = Counter()
        self._classes: Counter[tuple[str, float]] = Counter()

    def note(self, tool: str, end: str, seconds: float) -> None:
        """A call ended."""
        self.calls[tool, end] += 1
        self._count[tool] += 1
        self._seconds[tool] += seconds
        for bound in _BUCKETS:
            self._classes[tool, bound] += seconds <= bound

    def text(self, gauges: Mapping[str, Mapping[str, float]]) -> str:
        """All of it, with numbers of the backend by group."""
        lines = ["# HELP saccade_tool_calls_total Calls by tool and end.", "# TYPE saccade_tool_calls_total counter"]
        lines += [
            f'saccade_tool_calls_total{{tool="{tool}",end="{end}"}} {number}'
            for (tool, end), number in sorted(self.calls.items())
        ]
        lines += ["# HELP saccade_tool_call_seconds Time of a call.", "# TYPE saccade_tool_call_seconds histogram"]
        for tool, count in sorted(self._count.items()):
            name = "saccade_tool_call_seconds"
            lines += [f'{name}_bucket{{tool="{tool}",le="{b:g}"}} {self._classes[tool, b]}' for b in _BUCKETS]
            lines += [f'{name}_bucket{{tool="{tool}",le="+Inf"}} {count}']
            lines += [f'{name}_sum{{tool="{tool}"}} {self._seconds[tool]:.6f}']
            lines += [f'{name}_count{{tool="{tool}"}} {count}']
        for name, values in gauges.items():
            lines.append(f"# TYPE saccade_tool_{name} {'counter' if name.endswith('_total') else 'gauge'}")
            lines += [f'saccade_tool_{name}{{group="{group}"}} {value:g}' for group, value in sorted(values.items())]
        return "\n".join(lines) + "\n"
