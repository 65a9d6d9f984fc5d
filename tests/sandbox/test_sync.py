"""The sync face: delegation, many threads, interruption, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.fake_sandboxes import FakeSandbox

from saccade.errors import SandboxClosedError, SandboxError
from saccade.record.execution import Status
from saccade.sandbox.sync import SyncSandbox

_others: set[int | None] = set()


@pytest.fixture(autouse=True)
def _before() -> None:
    """What earlier tests in this process keep in the background is none of these tests' threads."""
    _others.clear()
    _others.update(thread.ident for thread in threading.enumerate())


def sync_threads() -> int:
    return sum(t.name.startswith("saccade-sync") and t.ident not in _others for t in threading.enumerate())


def test_the_whole_interface() -> None:
    fake = FakeSandbox()
    with SyncSandbox(fake) as box:
        assert box.limits == fake.limits
        assert box.isolation().platform == "fake"
        with box.open({"a": 1}, files={"f": b"x"}) as session:
            session.bind({"b": 2})
            result = session.run("print(names['a'] + names['b'])")
            assert (result.status, result.stdout) == (Status.OK, "3\n")
            one, two = session.branch(2)
            assert one.run("names['a'] = 5").ok
            assert two.run("print(names['a'])").stdout == "1\n"
            one.close()
            one.close()
        assert len(fake.live) == 1
    assert fake.closed
    assert sync_threads() == 0
    two.close()
    with pytest.raises(SandboxClosedError):
        two.run("1")
    with pytest.raises(SandboxClosedError):
        box.open()
    box.close()


def test_errors_pass_through() -> None:
    class Refusing(FakeSandbox):
        async def open(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            raise SandboxError("no room")

    with SyncSandbox(Refusing()) as box:
        with pytest.raises(SandboxError, match="no room"):
            box.open()


def test_many_threads() -> None:
    fake = FakeSandbox()
    with SyncSandbox(fake) as box, ThreadPoolExecutor(16) as pool:

        def work(index: int) -> str:
            with box.open({"i": index}) as session:
                return session.run("print(names['i'])").stdout

        # The fake captures stdout for the whole process, so only the ends are compared.
        assert len(list(pool.map(work, range(64)))) == 64
        assert fake.opened == 64
        assert not fake.live


async def test_inside_a_running_event_loop() -> None:
    with SyncSandbox(FakeSandbox()) as box:
        assert box.open().run("print(1)").stdout == "1\n"


def test_on_its_own_loop_it_says_so() -> None:
    class Recursive(FakeSandbox):
        async def isolation(self) -> object:  # type: ignore[override]
            return box.limits, box.open()

    box = SyncSandbox(Recursive())
    with box, pytest.raises(SandboxError, match="own event loop"):
        box.isolation()


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Also where this process was started in the background, with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupted_call_is_cancelled_before_the_interrupt_is_raised() -> None:
    fake = FakeSandbox()
    with SyncSandbox(fake) as box:
        session = box.open()

        def interrupt() -> None:
            while not fake.runs:
                time.sleep(0.01)
            signal.raise_signal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else (
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            )

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            session.run("sleep")
        thread.join()
        assert [hosted.cancelled for hosted in fake.live] == [1]
        assert session.run("print(1)").ok


def test_closing_from_another_thread_ends_a_waiting_call() -> None:
    fake = FakeSandbox()
    box = SyncSandbox(fake)
    session = box.open()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(session.run, "sleep")
        while not fake.runs:
            time.sleep(0.01)
        box.close()
        with pytest.raises(SandboxClosedError):
            waiting.result(10)


def test_dropped_without_close_it_is_closed() -> None:
    fake = FakeSandbox()
    box = SyncSandbox(fake)
    session = box.open()
    del box
    assert session.run("print(1)").ok
    del session
    gc.collect()
    assert fake.closed
    assert sync_threads() == 0


def test_collected_on_its_own_loop_it_is_closed() -> None:
    fake = FakeSandbox()
    boxes = [SyncSandbox(fake)]
    loop_thread = boxes[0]._loop

    async def drop() -> None:
        boxes.clear()
        gc.collect()

    boxes[0].open()
    loop_thread.wait(drop())
    for _ in range(200):
        if fake.closed and sync_threads() == 0:
            break
        time.sleep(0.01)
    assert fake.closed
    assert sync_threads() == 0


def test_never_used_it_starts_nothing() -> None:
    before = sync_threads()
    box = SyncSandbox(FakeSandbox())
    assert sync_threads() == before
    box.close()
    with pytest.raises(SandboxClosedError):
        box.isolation()
    asyncio.run(asyncio.sleep(0))
