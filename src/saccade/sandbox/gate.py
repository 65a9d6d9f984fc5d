"""How many calls of a sandbox may work at the same moment.

Thirty sessions that all draw at once on two processors spend more time on taking turns than on drawing. So a few calls
run and the others wait. A call that takes long (it waits, or hangs, or computes) soon gives its place up and runs on
beside the others, with less weight than they have: nobody can hold up the rest for longer than a moment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

PLACES_PER_PROCESSOR = 2
MOMENT_SECONDS = 0.5
"""How long a call may keep its place."""


class Gate:
    """Places for calls that work."""

    def __init__(self, places: int | None = None) -> None:
        self._free = asyncio.Semaphore(places or PLACES_PER_PROCESSOR * _processors())
        self._inside = 0

    @property
    def idle(self) -> bool:
        """Whether no call runs or waits."""
        return self._inside == 0

    @asynccontextmanager
    async def place(self, weigh_less: Callable[[bool], None] = lambda _less: None) -> AsyncIterator[None]:
        """Wait for a place, and keep it for the length of the block or for a moment, whichever is shorter.

        `weigh_less(True)` is called when the moment is over, and then `weigh_less(False)` at the end of the block.
        """
        loop = asyncio.get_running_loop()
        given_up = False

        def give_up() -> None:
            nonlocal given_up
            given_up = True
            self._free.release()
            weigh_less(True)

        self._inside += 1
        try:
            await self._free.acquire()
            timer = loop.call_later(MOMENT_SECONDS, give_up)
            try:
                yield
            finally:
                timer.cancel()
                if given_up:
                    weigh_less(False)
                else:
                    self._free.release()
        finally:
            self._inside -= 1


def _processors() -> int:
    """Processors that this process may use; all there are where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
