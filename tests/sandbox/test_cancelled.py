"""A cancelled call: nothing of it goes on, its session stays as it was, and a loop that ends with it ends clean."""

from __future__ import annotations

import asyncio

import pytest
from tests.sandbox.providers import linux_only

from saccade.plugins.audit.attacks.runner import descendants
from saccade.sandbox.local import LocalSandbox, LocalSession

pytestmark = linux_only


async def begun(box: LocalSandbox) -> tuple[LocalSession, asyncio.Task[object]]:
    session = await box.open({"x": 1})
    assert (await session.run("y = 1")).ok
    call = asyncio.create_task(session.run("x = 2\nwhile True: pass"))
    await asyncio.sleep(0.3)
    return session, call


@pytest.mark.asyncio(loop_scope="session")
async def test_a_cancelled_call_stops_at_once_and_is_undone(box: LocalSandbox) -> None:
    await box.isolation()
    before = descendants()
    session, call = await begun(box)
    call.cancel()
    await asyncio.wait({call})
    for _ in range(200):
        if len(descendants() - before) == 1:
            break
        await asyncio.sleep(0.02)
    assert len(descendants() - before) == 1
    assert (await session.run("x, y")).value == "(1, 1)"
    (twin,) = await session.branch(1)
    assert (await twin.run("x, y")).value == "(1, 1)"


def test_a_loop_that_ends_during_a_call_leaves_no_task_behind() -> None:
    """As `asyncio.run` ends: every task is cancelled once, and one that is begun then would be destroyed unfinished."""
    box = LocalSandbox()
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(begun(box))
        for task in (tasks := asyncio.all_tasks(loop)):
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        assert not asyncio.all_tasks(loop)
    finally:
        loop.run_until_complete(box.close())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
