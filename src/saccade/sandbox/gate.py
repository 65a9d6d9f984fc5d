"""How many calls of a sandbox may work at the same moment.

Thirty sessions that all draw at once on two processors spend more time on taking turns than on drawing. So a few calls
run and the others wait. A call that takes long (it waits, or hangs) soon gives its place up and runs on beside the
others: nobody can hold up the rest for longer than a moment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
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
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and keep it for the length of the block or for a moment, whichever is shorter."""
        self._inside += 1
        try:
            await self._free.acquire()
            given_up = asyncio.get_running_loop().call_later(MOMENT_SECONDS, self._free.release)
            try:
                yield
            finally:
                if given_up.when() > asyncio.get_running_loop().time():
                    given_up.cancel()
                    self._free.release()
        finally:
            self._inside -= 1


def _processors() -> int:
    """Processors that this process may use; all there are where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
