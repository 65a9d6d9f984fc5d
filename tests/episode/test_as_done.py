"""Work side by side: bounded, given as it comes, ended by the first exception without losing what came before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from saccade.episode.as_done import as_done


async def test_results_come_as_they_are_done_and_few_at_once() -> None:
    working = 0
    most = 0
    drawn = 0

    def items() -> Iterator[int]:
        nonlocal drawn
        for number in range(20):
            drawn += 1
            yield number

    async def work(number: int) -> int:
        nonlocal working, most
        working += 1
        most = max(most, working)
        assert drawn <= number + 4
        await asyncio.sleep(0.02 if number == 0 else 0)
        working -= 1
        return number

    came = [number async for numbers in as_done(items(), work, 3) for number in numbers]
    assert sorted(came) == list(range(20))
    assert came[0] != 0
    assert most == 3


async def test_an_exception_ends_it_after_what_came_with_it() -> None:
    cancelled: list[int] = []

    async def work(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        try:
            await asyncio.sleep(60 if number > 2 else 0)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    came: list[int] = []

    async def collect() -> None:
        async for numbers in as_done(range(9), work, 4):
            came.extend(numbers)

    with pytest.raises(ValueError, match="two"):
        await collect()
    assert set(came) <= {0, 1}
    assert cancelled
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_nothing_to_do() -> None:
    async def work(number: int) -> int:
        raise AssertionError

    assert [numbers async for numbers in as_done([], work, 3)] == []
