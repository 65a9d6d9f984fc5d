"""A sandbox that starts or closes while its caller is cancelled leaves no process and no folder."""

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.errors import SandboxClosedError
from saccade.sandbox import zygote_client
from saccade.sandbox.base import finished
from saccade.sandbox.local import LocalSandbox


async def test_work_ends_before_its_callers_cancellation_is_raised() -> None:
    let, ended = asyncio.Event(), []

    async def work() -> int:
        await let.wait()
        ended.append(True)
        return 3

    caller = asyncio.create_task(finished(work()))
    for _ in range(3):  # some libraries cancel again at each turn of the loop
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    let.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == [True]
    assert await finished(work()) == 3


async def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        await finished(work())


def slowly(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[threading.Event, list[Any]]:
    """Make a function of the client slow: an event for its begin, and what it was asked and gave."""
    begun, seen, work = threading.Event(), [], getattr(zygote_client, name)

    def slow(*asked: Any) -> Any:
        begun.set()
        time.sleep(0.2)
        seen.append((asked, work(*asked)))
        return seen[-1][1]

    monkeypatch.setattr(zygote_client, name, slow)
    return begun, seen


async def cancelled(begun: threading.Event, work: Callable[[], Any]) -> None:
    task = asyncio.create_task(work())
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_start_that_is_cancelled_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, seen = slowly(monkeypatch, "_spawn")
    async with LocalSandbox() as sandbox:
        await cancelled(begun, sandbox.open)
        [(_, process)] = seen
        assert process.poll() is not None


async def test_a_close_that_is_cancelled_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, seen = slowly(monkeypatch, "_ended")
    sandbox = LocalSandbox()
    session = await sandbox.open()
    assert sandbox._folder is not None
    folder = Path(sandbox._folder.name)
    assert folder.is_dir()
    await cancelled(begun, sandbox.close)
    [((process,), _)] = seen
    assert isinstance(process, subprocess.Popen)
    assert process.poll() is not None
    assert not folder.exists()
    with pytest.raises(SandboxClosedError):
        await session.run("1")
