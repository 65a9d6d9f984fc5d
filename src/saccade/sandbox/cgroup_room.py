"""What the control groups around this process leave: of memory and of processes, counted at every level above it.

A limit may stand on any group between this process and the root, and each counts all that is beneath it. Files that
are absent (another version, a controller that is not handed on) limit nothing. Does not promise that what is left now
is left later.
"""

from __future__ import annotations

from typing import NamedTuple

from saccade.sandbox.cgroup_places import around, read

_UNLIMITED = 1 << 60
"""Version 1 writes a number near 2**63 for no limit."""
_MEMORY = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}
_RECLAIMABLE = {1: "total_inactive_file", 2: "inactive_file"}


class Room(NamedTuple):
    """What is left beneath one limit, and the file that holds the limit."""

    left: int
    file: str


def memory_room() -> Room | None:
    """Bytes left beneath the tightest memory limit around this process; None where there is none.

    Cached files that the kernel can drop at once do not count as used.
    """
    rooms = []
    for version, folder in around("memory"):
        limit, used = (_number(f"{folder}/{name}") for name in _MEMORY[version])
        if limit is not None and used is not None:
            cached = _statistic(f"{folder}/memory.stat", _RECLAIMABLE[version])
            rooms.append(Room(limit - max(0, used - cached), f"{folder}/{_MEMORY[version][0]}"))
    return min(rooms, default=None)


def process_room() -> Room | None:
    """Processes and threads left beneath the tightest limit around this process; None where there is none."""
    rooms = []
    for _version, folder in around("pids"):
        limit, used = (_number(f"{folder}/{name}") for name in ("pids.max", "pids.current"))
        if limit is not None and used is not None:
            rooms.append(Room(limit - used, f"{folder}/pids.max"))
    return min(rooms, default=None)


def _number(path: str) -> int | None:
    """The number in a control file; None if there is no such file, or no limit."""
    try:
        value = int(read(path))
    except (OSError, ValueError):
        return None  # ValueError: "max"
    return None if value >= _UNLIMITED else value


def _statistic(path: str, name: str) -> int:
    try:
        for line in read(path).splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
