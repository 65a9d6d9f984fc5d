"""What the zygote has seen of a process counts for as long as that stands still, and no longer."""

from __future__ import annotations

import asyncio

import pytest
from tests.sandbox.providers import linux_only

from saccade import LocalSandbox
from saccade.plugins.audit.attacks.rollback import GUEST
from saccade.record.execution import Status
from saccade.sandbox.isolation import Layer
from saccade.sandbox.link import REHEARSE_SECONDS, Link

pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="session")]

PATCH = (
    "import os, signal, sys\n"
    + GUEST
    + """
session, descriptors = guest("session"), guest("descriptors")
real, seen = session.rehearse, []
def rehearse(*args, **options):
    real(*args, **options)
    seen.append(1)
    os.kill(0, signal.SIGSTOP)  # it holds nothing now, and is looked at
session.rehearse = rehearse
stop = session._kill
session._kill = lambda *args: stop(*args) if sys._getframe(1).f_code.co_name == "lead" else None
descriptors.close_what_cannot_be_kept = lambda fds: []
"""
)
NATIVE_THREAD = """
import ctypes
libc = ctypes.CDLL(None)
libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.usleep, ctypes.c_void_p(microseconds))
"""


async def test_a_process_that_has_run_since_is_looked_at_again(box: LocalSandbox) -> None:
    if not (await box.isolation()).is_on(Layer.INSPECTION):
        pytest.skip("without inspection, undone and separate are weaker here")
    session = await box.open()
    assert (await session.run(PATCH)).committed
    for _ in range(50):
        await asyncio.sleep(20 * REHEARSE_SECONDS)
        result = await session.run("print(seen)\nends = os.pipe()")
        if result.stdout == "[1]\n":
            break
    assert result.stdout == "[1]\n"
    assert (result.status, result.committed) == (Status.REFUSED, False)
    assert "a pipe is still open" in (result.traceback or "")


async def test_a_process_that_runs_on_is_not_kept(box: LocalSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Link.prepare

    def awake(link: Link, **how: bool) -> None:
        if how.get("keep"):
            link._leaf.wake()
        prepare(link, **how)

    session = await box.open({"x": 1})
    assert (await session.run("x = 2")).committed
    with monkeypatch.context() as patched:
        patched.setattr(Link, "prepare", awake)
        await session.run("x = 3")
        ended = await session.run("x = 4")
    assert ended.status is Status.KILLED
    assert "it worked on after its call had ended" in (ended.traceback or "")
    assert (await session.run("x")).value == "1"


@pytest.mark.parametrize(("seconds", "status"), [(0.3, Status.OK), (30, Status.REFUSED)])
async def test_a_thread_that_python_does_not_know_may_end_soon(
    box: LocalSandbox, seconds: float, status: Status
) -> None:
    """As one does that was joined, and then got no processor for a while."""
    session = await box.open({"microseconds": int(seconds * 1e6)})
    result = await session.run(NATIVE_THREAD)
    assert result.status is status, result.traceback
    if status is Status.REFUSED:
        assert "a thread is still running" in result.traceback
    await session.close()
