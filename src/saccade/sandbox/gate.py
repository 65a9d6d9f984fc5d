"""Limit how many calls of a sandbox work at the same time.

Thirty sessions that all draw at once on two processors spend more time on taking turns than on drawing. So a few calls
run and the others wait. A call that takes long soon gives its place up and runs on with less weight than the others, so
that it cannot hold them up. Where hundreds wait, a long call is starved, not stuck, and more calls would starve them
all: there a call keeps its place longer the more calls run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

PLACES_PER_PROCESSOR = 2
MOMENT_SECONDS = 0.5
"""How long a call may keep its place."""
LONG_LINE = 8
"""Calls that wait for a place, for each place: with more of them a moment lasts longer."""


class Gate:
    """Places for calls that work."""

    def __init__(self, places: int | None = None) -> None:
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._places = places or PLACES_PER_PROCESSOR * processors
        self._free = asyncio.Semaphore(self._places)
        self._waiting = 0
        self._running = 0

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
        held = _Held(self, weigh_less)
        try:
            yield
        finally:
            self._running -= 1
            held.end()

    def free_one(self) -> None:
        """Let the next call in."""
        self._free.release()


class _Held:
    """A call's place, until it is given up."""

    def __init__(self, gate: Gate, weigh_less: Callable[[bool], None]) -> None:
        self._gate = gate
        self._weigh_less = weigh_less
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._given_up = False
        self._timer = self._loop.call_later(MOMENT_SECONDS, self._look)

    def _look(self) -> None:
        left = self._since + self._gate.moment - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(min(left, MOMENT_SECONDS), self._look)  # the line may be short by then
            return
        self._given_up = True
        self._gate.free_one()
        self._weigh_less(True)

    def end(self) -> None:
        """The call is over."""
        self._timer.cancel()
        if self._given_up:
            self._weigh_less(False)
        else:
            self._gate.free_one()
