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
        own = await box.open()
        first = await told(own, "os.stat('.').st_dev")
        others = [await box.open() for _ in range(16)]
        (twin,) = await own.branch(1)
        # Not next to it: other programs of the machine take and leave numbers, too.
        assert abs(await told(twin, "os.stat('.').st_dev") - first) < 12
        seen = [await told(other, "os.stat('.').st_dev") for other in others]
        assert seen != sorted(seen) or seen[-1] - seen[0] > 15, (
            "they are numbered in the order in which they were opened"
        )


async def test_the_memory_of_the_machine_is_told_and_never_made_up(box: LocalSandbox) -> None:
    own = await box.open()
    for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES"):
        assert await told(own, f"os.sysconf({name!r})") == os.sysconf("SC_PHYS_PAGES")
    assert await told(own, "os.sysconf('SC_PAGE_SIZE')") == os.sysconf("SC_PAGE_SIZE")
