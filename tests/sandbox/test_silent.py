"""Numbers that the kernel gives out say nothing of other sessions."""

from __future__ import annotations

import os

import pytest
from tests.sandbox.providers import linux_only

from saccade.sandbox.base import Session
from saccade.sandbox.isolation import Layer
from saccade.sandbox.local import LocalSandbox

pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="session")]


async def told(session: Session, expression: str) -> int:
    result = await session.run(f"import os, threading\n{expression}")
    assert result.ok, result.traceback
    return int(result.value or "")


async def test_the_number_of_a_process_does_not_count_those_of_others(box: LocalSandbox) -> None:
    if not (await box.isolation()).is_on(Layer.PID_NAMESPACE):
        pytest.skip("no process namespace here: numbers are those of the machine")
    own, other = await box.open(), await box.open()
    first = await told(own, "os.getpid()")
    for _ in range(12):
        await other.run("import os\nfor _ in range(5): os.wait() if (pid := os.fork()) else os._exit(0)")
    assert abs(await told(own, "os.getpid()") - first) < 12
    assert abs(await told(own, "threading.get_native_id()") - first) < 12


async def test_the_device_of_a_branch_does_not_count_sessions() -> None:
    async with LocalSandbox() as box:  # a fresh one: the numbers of devices are given out again
        if not (await box.isolation()).is_on(Layer.WORKSPACE):
            pytest.skip("no file system of the session's own here")
        sessions = [await box.open() for _ in range(12)]
        numbers = [await told(session, "os.stat('.').st_dev") for session in sessions]
        assert numbers != sorted(numbers), "they are numbered in the order in which they were opened"
        gaps = []
        for session, number in zip(sessions[:5], numbers, strict=False):
            (twin,) = await session.branch(1)
            gaps.append(abs(await told(twin, "os.stat('.').st_dev") - number))
        # Counted, all would be further apart. Other programs of the machine take numbers too, which can part some.
        assert min(gaps) <= 2, gaps


async def test_the_memory_of_the_machine_is_told_and_never_made_up(box: LocalSandbox) -> None:
    own = await box.open()
    for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES"):
        assert await told(own, f"os.sysconf({name!r})") == os.sysconf("SC_PHYS_PAGES")
    assert await told(own, "os.sysconf('SC_PAGE_SIZE')") == os.sysconf("SC_PAGE_SIZE")
