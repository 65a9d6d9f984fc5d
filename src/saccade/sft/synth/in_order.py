"""Work on many items at once, results in the order of the items."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 8
"""How many times as many results as workers may wait for an earlier one that is slow."""


async def in_order(items: Iterable[T], work: Callable[[T], Awaitable[R]], workers: int) -> AsyncIterator[R]:
    """The results, in order; at most `workers` items are worked on at once. What is under way is cancelled at the end.

    The first exception of `work` ends it, at its place in the order.
    """
    gate = asyncio.Semaphore(workers)
    waiting: deque[asyncio.Task[R]] = deque()

    async def guarded(item: T) -> R:
        async with gate:
            return await work(item)

    try:
        for item in items:
            waiting.append(asyncio.create_task(guarded(item)))
            if len(waiting) >= _AHEAD * workers:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
