"""The bridge from sync to async: one coroutine at a time, with and without a running loop."""

from __future__ import annotations

import asyncio
import threading

from saccade.core.sync import in_background, run


async def thread_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_without_a_loop_it_runs_here() -> None:
    assert run(thread_name()) == threading.current_thread().name


async def test_inside_a_running_loop_it_runs_in_another_thread() -> None:
    assert run(thread_name()) != threading.current_thread().name


def test_what_runs_in_the_background_shares_a_loop() -> None:
    async def loop() -> int:
        return id(asyncio.get_running_loop())

    assert len({in_background(loop()).result(10) for _ in range(3)}) == 1
