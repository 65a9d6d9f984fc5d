"""Work on many items at once, results as they are done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def as_done(items: Iterable[T], work: Callable[[T], Awaitable[R]], workers: int) -> AsyncIterator[list[R]]:
    """The results in the order in which they come, those that came since the last time together.

    At most `workers` items are worked on at once, and items are drawn only when there is a worker for them. The first
    exception of `work` ends it, after the results that came with it were given; what is under way is then cancelled, as
    it is when the iterator is closed.
    """
    queue = iter(items)
    working: set[asyncio.Future[R]] = {asyncio.ensure_future(work(item)) for item in islice(queue, workers)}
    try:
        while working:
            done, working = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            working |= {asyncio.ensure_future(work(item)) for item in islice(queue, len(done))}
            results = [task.result() for task in done if task.exception() is None]
            if results:
                yield results
            for task in done:
                task.result()
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
