"""A sandbox that starts or closes while its caller is cancelled leaves no process and no folder."""

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from saccade.errors import ProtocolError, SandboxClosedError, SandboxError, SettingsError
from saccade.sandbox import remote_wire, zygote_client
from saccade.sandbox.base import Limits, SessionOptions, check_call, finished
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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Limits(wal_seconds=1), "wal_seconds: no such setting. Did you mean 'wall_seconds'"),
        (lambda: Limits(wall_seconds=-1), "wall_seconds: input should be greater than 0, got -1"),
        (lambda: Limits(pictures="many"), "pictures: input should be a valid integer"),
        (lambda: SessionOptions(sate="keep"), "sate: no such setting. Did you mean 'state'"),
        (lambda: SessionOptions(state="undo"), "state: input should be"),
    ],
)
def test_a_mistake_in_python_is_an_error_of_ours_with_a_suggestion(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        make()


def test_settings_that_are_read_keep_the_place_of_a_mistake() -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate({"wal_seconds": 1})
    assert Limits(wall_seconds=3, pictures=2) == Limits.model_validate({"wall_seconds": 3, "pictures": 2})
    assert Limits(wall_seconds=3).model_copy(update={"pictures": 2}).pictures == 2


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "5", True, b"1", 1j])
def test_what_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(SandboxError, match="wall_seconds is a number above 0"):
        check_call("1", seconds)


def test_what_is_no_code_is_refused_and_any_time_is_shortened_to_the_limit() -> None:
    for code in (None, b"1", 5, ["1"]):
        with pytest.raises(SandboxError, match="code is text"):
            check_call(code, None)
    for seconds in (None, 1e-9, 5, 10**400, float("inf")):
        check_call("1", seconds)
    for number in (10**400, -(10**400), float("inf"), float("nan"), -1):
        with pytest.raises(ProtocolError, match="must be finite and not negative"):
            remote_wire.number({"wall_seconds": number}, "wall_seconds")
