"""Places for calls that work: few at once, and nobody keeps one for long."""

import asyncio

import pytest

from saccade.sandbox import gate as gate_module
from saccade.sandbox.gate import Gate


async def test_as_many_as_there_are_places() -> None:
    gate = Gate(2)
    inside = most = 0

    async def call() -> None:
        nonlocal inside, most
        async with gate.place():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    assert gate.idle
    await asyncio.gather(*(call() for _ in range(20)))
    assert (most, inside, gate.idle) == (2, 0, True)


async def test_a_call_that_hangs_gives_its_place_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "MOMENT_SECONDS", 0.01)
    gate = Gate(1)
    hanging = asyncio.Event()

    async def hang() -> None:
        async with gate.place():
            await hanging.wait()

    async def call() -> str:
        async with gate.place():
            return "done"

    hung = [asyncio.create_task(hang()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not gate.idle
    assert await asyncio.wait_for(call(), 100) == "done"
    hanging.set()
    await asyncio.gather(*hung)
    # No place was given back twice: with one place, two calls are never inside together.
    monkeypatch.setattr(gate_module, "MOMENT_SECONDS", 1000)
    async with gate.place():
        assert gate._free.locked()


async def test_a_call_that_takes_long_weighs_less_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "MOMENT_SECONDS", 0.01)
    gate = Gate(1)
    heard: list[bool] = []
    async with gate.place(heard.append):
        assert heard == []
        await asyncio.sleep(0.05)
        assert heard == [True]
    assert heard == [True, False]
    async with gate.place(heard.append):
        pass
    assert heard == [True, False]


async def test_where_many_wait_few_run_however_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that are slow because the machine is full do not let ever more in beside them; what hangs still does."""
    monkeypatch.setattr(gate_module, "MOMENT_SECONDS", 0.05)
    gate = Gate(2)
    inside: list[int] = []
    running = 0

    async def call() -> None:
        nonlocal running
        async with gate.place():
            running += 1
            inside.append(running)
            await asyncio.sleep(0.028 * running)  # all that run share the machine
            running -= 1

    async def hang() -> None:
        async with gate.place():
            await asyncio.sleep(100)

    await asyncio.gather(*(call() for _ in range(48)))
    assert max(inside[:30]) <= 4  # behind them the line is short
    hung = [asyncio.create_task(hang()) for _ in range(4)]
    await asyncio.gather(*(call() for _ in range(40)))
    for task in hung:
        task.cancel()
    await asyncio.gather(*hung, return_exceptions=True)
    assert gate.idle


async def test_a_cancelled_wait_takes_no_place() -> None:
    gate = Gate(1)

    async def call() -> None:
        async with gate.place():
            await asyncio.sleep(10)

    first, second = asyncio.create_task(call()), asyncio.create_task(call())
    await asyncio.sleep(0)
    for task in (second, first):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert gate.idle
    async with gate.place():
        pass
