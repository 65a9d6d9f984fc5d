"""A folder of `saccade rl` or `saccade sft` as a report reads it: every number that it logged, by step."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

METRICS: Final = "metrics.jsonl"
SETTINGS: Final = "settings.toml"
VALIDATION: Final = "validation/"
"""Beginning of the names of what held-out tasks gave."""

Points = list[tuple[float, float]]


@dataclass
class TrainingCurves:
    """One folder of a training run."""

    name: str
    path: Path
    points: dict[str, Points] = field(default_factory=dict)
    """Name of a number -> (step, value), in the order of the steps."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Dotted name -> value; empty if they cannot be read."""
    problems: list[str] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """The last step that was logged."""
        return int(max((points[-1][0] for points in self.points.values()), default=0))

    def last(self, name: str) -> float | None:
        """The last value of a number."""
        points = self.points.get(name)
        return points[-1][1] if points else None


def open_training_run(name: str, path: Path) -> TrainingCurves:
    """The run in the folder `path`. A line that is cut short is reported and left out."""
    run = TrainingCurves(name, path)
    with (path / METRICS).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                values = json.loads(line)
                step = float(values.pop("step"))
                numbers = {key: float(value) for key, value in values.items() if isinstance(value, int | float)}
            except (ValueError, KeyError, TypeError, AttributeError):
                run.problems.append(f"Line {number} of {METRICS} of {name} holds no numbers of a step; it is left out.")
                continue
            for key, value in numbers.items():
                run.points.setdefault(key, []).append((step, value))
    for points in run.points.values():
        points.sort()
    try:
        saved = tomllib.loads((path / SETTINGS).read_text(encoding="utf-8"))
        run.settings = dict(flat(saved))
    except (OSError, ValueError):
        run.problems.append(f"The settings of {name} cannot be read ({SETTINGS}).")
    return run


def flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    """The values of nested tables by dotted names, as text."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", json.dumps(value, ensure_ascii=False, default=str)
