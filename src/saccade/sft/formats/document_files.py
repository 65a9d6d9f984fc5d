"""Formats of one JSON file for each trajectory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from saccade.errors import RecordError
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.base import Refused

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def write_documents(
    trajectories: Iterable[Trajectory], folder: Path, document: Callable[[Trajectory], object], indent: int
) -> list[Refused]:
    """Write what `document` makes of each into a file of its own, and give those for which it raised `RecordError`."""
    refused = []
    for number, trajectory in enumerate(trajectories):
        try:
            made = document(trajectory)
        except RecordError as error:
            refused.append(Refused(row=number, id=trajectory.id, reason=str(error)))
            continue
        name = f"{number:06d}-{_UNSAFE.sub('-', trajectory.id)[:80]}.json"
        text = json.dumps(made, ensure_ascii=False, indent=indent)
        (folder / name).write_text(text + "\n", encoding="utf-8", newline="\n")
    return refused
