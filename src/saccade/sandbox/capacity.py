"""Check that this machine has room for more sessions before anything is half made, and share places out among calls.

Other programs may take the room before the sessions are made.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from saccade.errors import SandboxError, SandboxFullError
from saccade.sandbox.cgroup import around, read

_UNLIMITED = 1 << 60
"""Version 1 writes a number near 2**63 for no limit."""
_MEMORY = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}
_RECLAIMABLE = {1: "total_inactive_file", 2: "inactive_file"}


class Room(NamedTuple):
    """What is left beneath one limit, and the file that holds the limit."""

    left: int
    file: str


def memory_room() -> Room | None:
    """Return bytes left beneath the tightest memory limit, with files that the kernel can drop; None for no limit."""
    rooms = []
    for version, folder in around("memory"):
        cached = _statistic(f"{folder}/memory.stat", _RECLAIMABLE[version]) or 0
        rooms += _room(folder, *_MEMORY[version], cached)
    return min(rooms, default=None)


def process_room() -> Room | None:
    """Return processes and threads left beneath the tightest limit around this process; None where there is none."""
    rooms = [room for _version, folder in around("pids") for room in _room(folder, "pids.max", "pids.current")]
    return min(rooms, default=None)


def _room(folder: str, most: str, now: str, spare: int = 0) -> list[Room]:
    limit, used = _number(f"{folder}/{most}"), _number(f"{folder}/{now}")
    return [] if limit is None or used is None else [Room(limit - max(0, used - spare), f"{folder}/{most}")]


def _number(path: str) -> int | None:
    """Return the number in a control file; None if there is no such file, or no limit."""
    try:
        value = int(read(path))
    except (OSError, ValueError):
        return None  # ValueError: "max"
    return None if value >= _UNLIMITED else value


def _statistic(path: str, name: str) -> int | None:
    try:
        return next((int(line.split()[1]) for line in read(path).splitlines() if line.split()[0] == name), None)
    except (OSError, ValueError, IndexError):
        return None


FILES_EACH = 3
"""Descriptors that this process holds for a session: its socket, its outbox, its leaf."""
PROCESSES_EACH = 2
MEMORY_EACH = 5 << 20
"""Bytes that a session takes of its own once it has answered a call, page tables and its control groups included."""
_SPARE_FILES, _SPARE_PROCESSES = 64, 256


def check_room(count: int, *, kin: int, most_kin: int | None) -> None:
    """Raise `SandboxFullError`, with the limit, unless `count` sessions more fit; `kin` are of one origin."""
    for have, need, what, remedy in _limits(count):
        if have is not None and need > have:
            raise SandboxFullError(
                f"{count:,} more sessions need {need:,} {what}, and there is room for {max(0, have):,}. {remedy}"
            )
    if most_kin is not None and kin + count > most_kin:
        raise SandboxError(
            f"{count:,} branches more make {kin + count:,} sessions of one origin, and at most {most_kin:,} can be "
            "without control groups: the kernel counts their processes together. Run as root, or delegate a cgroup to "
            "your user (see `saccade doctor`)."
        )


def _limits(count: int) -> Iterator[tuple[int | None, int, str, str]]:
    """(room left, needed, of what, what to do) for each limit; room is None where it cannot be told."""
    yield _files_left(), count * FILES_EACH, "open files of this process", "Raise the limit first (`ulimit -n`)."
    remedy = "Raise kernel.pid_max and kernel.threads-max."
    yield _processes_left(), count * PROCESSES_EACH, "processes of this machine", remedy
    yield from _group_limit(process_room(), count * PROCESSES_EACH, "processes of the control group", _SPARE_PROCESSES)
    yield _mounts_left(), count, "mounts", "Raise fs.mount-max, or close other sessions."
    remedy = "Close other sessions, or use a machine with more memory."
    yield _memory_left(), count * MEMORY_EACH, "bytes of memory", remedy
    yield from _group_limit(memory_room(), count * MEMORY_EACH, "bytes of memory of the control group", 0)


def _group_limit(room: Room | None, need: int, what: str, spare: int) -> Iterator[tuple[int | None, int, str, str]]:
    if room is not None:
        yield room.left - spare, need, what, f"Raise {room.file}, or close other sessions."


def _files_left() -> int | None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    return limit - len(os.listdir("/proc/self/fd")) - _SPARE_FILES


def _processes_left() -> int | None:
    limits = [_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max")]
    known = [limit for limit in limits if limit is not None]
    try:
        # "0.00 0.01 0.05 1/234 5678": 234 processes and threads.
        now = int(read("/proc/loadavg").split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None
    return min(known) - now - _SPARE_PROCESSES if known else None


def _mounts_left() -> int | None:
    most = _number("/proc/sys/fs/mount-max")
    return None if most is None else most - _SPARE_PROCESSES


def _memory_left() -> int | None:
    available = _statistic("/proc/meminfo", "MemAvailable:")
    return None if available is None else available * 1024


PLACES_PER_PROCESSOR = 2
MOMENT_SECONDS = 0.5
"""How long a call may keep its place."""
LONG_LINE = 8
"""Calls that wait for a place, for each place: with more of them a moment lasts longer."""


class Gate:
    """Places for calls that work: many that draw at once spend more time on taking turns than on drawing.

    A call that takes long gives its place up and runs on with less weight. Where hundreds wait, a call keeps its place
    longer the more calls run: more of them would starve them all.
    """

    def __init__(self, places: int | None = None) -> None:
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._places = places or PLACES_PER_PROCESSOR * processors
        self._free = asyncio.Semaphore(self._places)
        self._waiting = 0
        self._running = 0
        self._later: deque[asyncio.Future[None]] = deque()
        """Turns of those who wait until no call does."""

    @property
    def idle(self) -> bool:
        """Whether no call runs or waits."""
        return self._waiting + self._running == 0

    @property
    def moment(self) -> float:
        """Seconds for which a call may keep its place as things are."""
        crowded = self._waiting > LONG_LINE * self._places
        return MOMENT_SECONDS * (self._running if crowded else 1)

    @asynccontextmanager
    async def place(self, weigh_less: Callable[[bool], None] = lambda _less: None) -> AsyncIterator[None]:
        """Wait for a place, and keep it for the length of the block or for a moment, whichever is shorter.

        `weigh_less(True)` is called when the moment is over, and then `weigh_less(False)` at the end of the block.
        """
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        self._running += 1
        loop = asyncio.get_running_loop()
        since, is_held = loop.time(), True
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer, is_held
            left = since + self.moment - loop.time()
            if left > 0:
                timer = loop.call_later(min(left, MOMENT_SECONDS), look)  # the line may be short by then
                return
            is_held = False
            self._free.release()
            weigh_less(True)

        timer = loop.call_later(MOMENT_SECONDS, look)
        try:
            yield
        finally:
            self._running -= 1
            timer.cancel()
            if is_held:
                self._free.release()
            else:
                weigh_less(False)
            self._next_turn()

    @asynccontextmanager
    async def spare_time(self, wanted: asyncio.Future[None]) -> AsyncIterator[None]:
        """Wait until no call waits for a place, or until `wanted` is done, with what only a later call needs.

        Of those that have waited, as many begin as there are places, and each of the others when one has ended.
        """
        turn = asyncio.get_running_loop().create_future()
        if self._waiting or self._later:
            self._later.append(turn)
        else:
            turn.set_result(None)
        try:
            await asyncio.wait((turn, wanted), return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            if turn.done():
                self._next_turn()
            turn.cancel()

    def _next_turn(self) -> None:
        while self._later and not self._waiting:
            turn = self._later.popleft()
            if not turn.done():
                turn.set_result(None)
                return
