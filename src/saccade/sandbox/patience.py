"""A limit of time for another's answer that does not count what this process itself is late for.

A process that plays a thousand episodes comes to each of them only every few seconds, and a request takes a dozen such
turns. A limit by the clock would then take servers for lost that have answered long ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

TICK_SECONDS = 1.0
"""Most that counts from one look at the clock to the next, however much later that comes."""


class Patience:
    """What is left of a limit; made by `patience`."""

    def __init__(self, seconds: float, bound: asyncio.Timeout) -> None:
        self._seconds = seconds
        self._left = seconds
        self._bound = bound
        self._loop = asyncio.get_running_loop()
        self._wait()

    def renew(self) -> None:
        """Begin anew: there was a sign of life."""
        self._timer.cancel()
        self._left = self._seconds
        self._wait()

    def end(self) -> None:
        """Count no more."""
        self._timer.cancel()

    def _wait(self) -> None:
        step = min(TICK_SECONDS, self._left)
        self._timer = self._loop.call_later(step, self._count, step)

    def _count(self, step: float) -> None:
        self._left -= step
        if self._left > 0:
            self._wait()
        else:
            self._bound.reschedule(self._loop.time())


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[Patience]:
    """Let the block take `seconds` in which this process was not late itself.

    Raises:
        TimeoutError: it takes longer.
    """
    async with asyncio.timeout(None) as bound:
        left = Patience(seconds, bound)
        try:
            yield left
        finally:
            left.end()
