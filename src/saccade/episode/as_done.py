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
    working: set[asyncio.Future[R]] = set()
    ended: list[asyncio.Future[R]] = []
    woken = asyncio.Event()

    # Each task tells its own end: asyncio.wait would go through all that are under way whenever one of them ends.
    def end(task: asyncio.Future[R]) -> None:
        working.discard(task)
        ended.append(task)
        woken.set()

    def start(count: int) -> None:
        for item in islice(queue, count):
            task = asyncio.ensure_future(work(item))
            working.add(task)
            task.add_done_callback(end)

    try:
        start(workers)
        while working or ended:
            await woken.wait()
            woken.clear()
            done = ended.copy()
            ended.clear()
            start(len(done))
            results = [task.result() for task in done if task.exception() is None]
            if results:
                yield results
            for task in done:
                task.result()
    finally:
        left = [*working, *ended]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
