"""Limits of time that leave out what this process itself is late for."""

import asyncio
import time

import pytest

from saccade.sandbox import patience as patience_module
from saccade.sandbox.patience import patience


async def test_what_never_comes_ends() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with patience(0.05):
            await asyncio.sleep(1000)
    assert time.monotonic() - began >= 0.05


async def test_a_loop_that_is_late_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer takes ten turns of the loop, and each turn is as long as half of the limit."""
    monkeypatch.setattr(patience_module, "TICK_SECONDS", 0.01)
    busy = True

    async def hold_up() -> None:
        while busy:
            time.sleep(0.1)
            await asyncio.sleep(0)

    task = asyncio.create_task(hold_up())
    async with patience(0.2):
        for _ in range(8):
            await asyncio.sleep(0)
    busy = False
    await task


async def test_a_sign_of_life_renews_it() -> None:
    async with patience(0.3) as left:
        for _ in range(5):
            await asyncio.sleep(0.1)
            left.renew()


async def test_another_timeout_inside_is_its_own() -> None:
    async with patience(1000):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(1000)
