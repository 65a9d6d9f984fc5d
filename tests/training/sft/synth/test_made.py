from __future__ import annotations

import asyncio

import pytest

from saccade.training.sft.synth.made import in_order


async def test_results_come_in_order_and_few_at_once() -> None:
    busy = most = 0

    async def work(item: int) -> int:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(7 - item % 7):
            await asyncio.sleep(0)
        busy -= 1
        return item * item

    assert [result async for result in in_order(range(50), work, 3)] == [n * n for n in range(50)]
    assert most == 3


async def test_a_failure_comes_at_its_place_and_ends_the_rest() -> None:
    cancelled: list[int] = []

    async def work(item: int) -> int:
        if item == 1:
            raise ValueError("one")
        try:
            await asyncio.sleep(0 if item == 0 else 60)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise
        return item

    results = []
    stream = in_order(range(4), work, 4)
    results.append(await anext(stream))
    with pytest.raises(ValueError, match="one"):
        await anext(stream)
    assert results == [0]
    assert cancelled == [2, 3]
