"""Checks: sessions run side by side, calls of one session one after the other, and closing is orderly."""

from __future__ import annotations

import asyncio
import time

from saccade.errors import SandboxClosedError
from saccade.record.status import Status
from saccade.sandbox.base import Sandbox, Session
from saccade.sandbox.conformance.check import (
    PATIENCE,
    CheckGroup,
    describe,
    expect,
    expect_equal,
    expect_output,
    opened,
    run,
)
from saccade.sandbox.result import RunResult

GROUP = CheckGroup("concurrency")

SPAN = "import time\nt0 = time.monotonic()\ntime.sleep(0.3)\nprint(t0, time.monotonic())"


@GROUP.check
async def sessions_run_at_the_same_time(sandbox: Sandbox) -> None:
    """Calls of two sessions overlap in time."""
    async with opened(sandbox) as one, opened(sandbox) as two:
        await asyncio.gather(run(one, "1"), run(two, "1"))
        results = await asyncio.gather(run(one, SPAN), run(two, SPAN))
        (a0, a1), (b0, b1) = (map(float, result.stdout.split()) for result in results)
        expect(a0 < b1 and b0 < a1, "the calls of two sessions ran one after the other")


@GROUP.check
async def calls_of_a_session_are_serial(sandbox: Sandbox) -> None:
    """Calls started together on one session run one after the other, in order, each on the state of the last."""
    async with opened(sandbox) as session:
        await run(session, "import time\nseen = []")
        await asyncio.gather(
            *(
                run(session, f"n = len(seen)\ntime.sleep(0.02)\nseen.append({i})\nassert len(seen) == n + 1")
                for i in range(8)
            )
        )
        await expect_output(session, "print(seen)", str(list(range(8))))


@GROUP.check
async def many_sessions(sandbox: Sandbox) -> None:
    """Twelve sessions opened together each keep their own number."""
    sessions = await asyncio.gather(*(sandbox.open({"n": i}) for i in range(12)))
    try:
        results = await asyncio.gather(*(run(session, "print(n)") for session in sessions))
        expect_equal([int(result.stdout) for result in results], list(range(12)), "numbers printed")
    finally:
        await asyncio.gather(*(session.close() for session in sessions))


@GROUP.check
async def a_stuck_neighbour_does_not_matter(sandbox: Sandbox) -> None:
    """While one session is stuck, others are opened, run and closed."""
    async with opened(sandbox) as stuck:
        task = asyncio.create_task(stuck.run("while True: pass", wall_seconds=2.0))
        async with opened(sandbox) as other:
            await expect_output(other, "print(1)", "1")
        expect_equal((await task).status, Status.TIMEOUT, "status of the stuck call")


@GROUP.check
async def cancelled_run(sandbox: Sandbox) -> None:
    """Cancelling the task of a call ends the call, rolls it back, and leaves the session usable."""
    async with opened(sandbox) as session:
        await run(session, "x = 'before'")
        task = asyncio.create_task(session.run("x = 'after'\nimport time\ntime.sleep(600)"))
        await asyncio.sleep(0.3)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        else:
            expect(False, "a cancelled task did not end as cancelled")
        await expect_output(session, "print(x)", "before")


@GROUP.check
async def cancelled_while_waiting(sandbox: Sandbox) -> None:
    """Cancelling a call that still waits for its turn means that it never runs; the one before it continues."""
    async with opened(sandbox) as session:
        first = asyncio.create_task(session.run("import time\nx = 1\ntime.sleep(0.5)"))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(session.run("x = 2"))
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        result = await first
        expect(result.ok, f"the first call was harmed: {describe(result)}")
        await expect_output(session, "print(x)", "1")


async def _ends(call: asyncio.Task[RunResult]) -> None:
    """A call whose session was closed ends soon: with a result that is not `ok`, or with SandboxClosedError."""
    try:
        result = await asyncio.wait_for(call, PATIENCE)
    except SandboxClosedError:
        return
    except TimeoutError:
        expect(False, "a call did not end when its session was closed")
        return
    expect(not result.ok, f"a call that was closed away ended well: {describe(result)}")


async def _is_closed(session: Session) -> None:
    try:
        await session.run("1")
    except SandboxClosedError:
        return
    expect(False, "a call on a closed session did not raise SandboxClosedError")


@GROUP.check
async def closing_a_session_during_a_call(sandbox: Sandbox) -> None:
    """Closing a session ends its running call soon, is idempotent, and later calls raise SandboxClosedError."""
    session = await sandbox.open()
    task = asyncio.create_task(session.run("import time\ntime.sleep(600)"))
    await asyncio.sleep(0.2)
    started = time.monotonic()
    await asyncio.wait_for(session.close(), PATIENCE)
    await _ends(task)
    expect(time.monotonic() - started < PATIENCE, "closing took too long")
    await session.close()
    await _is_closed(session)


@GROUP.closing_check
async def closing_the_sandbox(sandbox: Sandbox) -> None:
    """Closing the sandbox closes its sessions, is idempotent, and a later `open` raises SandboxClosedError."""
    session = await sandbox.open()
    await run(session, "x = 1")
    branch = (await session.branch(1))[0]
    await sandbox.close()
    await sandbox.close()
    await _is_closed(session)
    await _is_closed(branch)
    await session.close()
    try:
        await sandbox.open()
    except SandboxClosedError:
        return
    expect(False, "`open` on a closed sandbox did not raise SandboxClosedError")


@GROUP.closing_check
async def closing_the_sandbox_during_a_call(sandbox: Sandbox) -> None:
    """Closing the sandbox ends calls that are running."""
    sessions = [await sandbox.open() for _ in range(2)]
    tasks = [asyncio.create_task(session.run("import time\ntime.sleep(600)")) for session in sessions]
    await asyncio.sleep(0.2)
    await asyncio.wait_for(sandbox.close(), PATIENCE)
    for task in tasks:
        await _ends(task)
