"""Decisions that are waited for, several at once, given in the order of the trajectories."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import KEEP, FilterOutcome

AHEAD = 8
"""How many times as many trajectories as are asked about at once may wait for an earlier one that is slow."""


async def asked_in_order(
    stream: AsyncIterator[Trajectory], decide: Callable[[Trajectory], Awaitable[FilterOutcome]], at_once: int
) -> AsyncGenerator[tuple[Trajectory, FilterOutcome], None]:
    """Each trajectory with its outcome; `at_once` of them are decided about at a time, whoever is done first.

    The first exception ends it: nothing new is begun, what is under way is waited for (its replies are paid and kept),
    then it is raised.
    """
    gate = asyncio.Semaphore(at_once)
    waiting: deque[tuple[Trajectory, asyncio.Task[FilterOutcome]]] = deque()
    failed: list[Exception] = []

    async def guarded(trajectory: Trajectory) -> FilterOutcome:
        async with gate:
            if failed:
                return KEEP  # nobody reads it
            try:
                return await decide(trajectory)
            except Exception as error:  # raised below, when the others are done
                failed.append(error)
                return KEEP

    try:
        async for trajectory in stream:
            waiting.append((trajectory, asyncio.create_task(guarded(trajectory))))
            while waiting and not failed and (waiting[0][1].done() or len(waiting) >= AHEAD * at_once):
                first, task = waiting.popleft()
                outcome = await task
                if not failed:
                    yield first, outcome
            if failed:
                break
        while waiting:
            first, task = waiting.popleft()
            outcome = await task
            if not failed:
                yield first, outcome
        if failed:
            raise failed[0]
    finally:
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)
