"""`SyncSandbox`: any provider without `await`, by delegation to one event loop in a thread of its own.

    with SyncSandbox(LocalSandbox()) as box, box.open({"image_clue_0": image}) as session:
        result = session.run("print(image_clue_0.size)")

Works from any thread, from many at once, and inside a running event loop (a notebook), which it blocks for as long as
the call takes; a program that has a loop of its own should rather await the provider. A call interrupted by Ctrl-C is
cancelled, and rolled back, before `KeyboardInterrupt` goes on. A sandbox that is dropped without `close` is closed when
it is collected or when the interpreter ends.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, Self, TypeVar

from saccade.errors import SandboxClosedError, SandboxError
from saccade.sandbox.base import Binding, Sandbox, Session, SessionOptions
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.limits import Limits
from saccade.sandbox.result import RunResult

CLOSE_SECONDS = 60.0
"""How long closing may take before the thread is left behind (it is a daemon)."""
T = TypeVar("T")


class SyncSandbox:
    """The sync face of `sandbox`, which it owns: it is started by the first use and closed with this."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._loop = _LoopThread()
        self._starting = threading.Lock()
        self._started = False
        self._finalizer = weakref.finalize(self, _shut_down, self._loop, sandbox)

    @property
    def limits(self) -> Limits:
        """The provider's limits."""
        return self._sandbox.limits

    def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> SyncSession:
        """A new session; see `Sandbox.open`."""
        self._start()
        return SyncSession(self, self._wait(self._sandbox.open(bindings, files=files, options=options)))

    def isolation(self) -> Isolation:
        """The isolation layers that are on; see `Sandbox.isolation`."""
        self._start()
        return self._wait(self._sandbox.isolation())

    def close(self) -> None:
        """End every session, the provider and the thread; idempotent."""
        self._finalizer()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _start(self) -> None:
        with self._starting:
            if not self._started:
                self._wait(self._sandbox.__aenter__())
                self._started = True

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._finalizer.alive:
            work.close()
            raise SandboxClosedError("this SyncSandbox is closed; make a new one.")
        return self._loop.wait(work)


class SyncSession:
    """The sync face of one session; keeps its sandbox alive."""

    def __init__(self, sandbox: SyncSandbox, session: Session) -> None:
        self._sandbox = sandbox
        self._session = session

    def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        """Run one cell; see `Session.run`."""
        return self._sandbox._wait(self._session.run(code, wall_seconds=wall_seconds))

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        """Bind further names; see `Session.bind`."""

        async def bind() -> None:
            self._session.bind(bindings)

        self._sandbox._wait(bind())

    def branch(self, n: int) -> Sequence[SyncSession]:
        """`n` new sessions with this one's state; see `Session.branch`."""
        return [SyncSession(self._sandbox, session) for session in self._sandbox._wait(self._session.branch(n))]

    def close(self) -> None:
        """End the session; idempotent, and no error if the sandbox is closed already."""
        with suppress(SandboxClosedError):
            self._sandbox._wait(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _LoopThread:
    """An event loop that runs in a daemon thread from the first `wait` to `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and give its result; interrupted, cancel it and wait until it has ended."""
        if self.is_current():
            work.close()
            raise SandboxError("SyncSandbox was used on its own event loop, which would wait for itself; await there.")
        loop = self._running()
        if loop is None:
            work.close()
            raise SandboxClosedError("this SyncSandbox is closed; make a new one.")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except FutureCancelledError:
            raise SandboxClosedError("the sandbox was closed while this call was waiting.") from None
        except BaseException:
            if not future.done():  # Ctrl-C, or whatever else this thread was made to raise
                self._cancel(future)
            raise

    def _cancel(self, future: Future[T]) -> None:
        """Cancel what runs on the loop, and give it time to undo itself."""
        future.cancel()
        loop = self._loop
        if loop is not None:
            settled = asyncio.run_coroutine_threadsafe(_settled(), loop)
            with suppress(FutureTimeoutError, FutureCancelledError):
                settled.result(CLOSE_SECONDS)

    def is_current(self) -> bool:
        """Whether the caller runs on this loop's thread."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the loop and its thread, for good."""
        with self._lock:
            self._stopped = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSE_SECONDS)

    def _running(self) -> asyncio.AbstractEventLoop | None:
        with self._lock:
            if self._stopped:
                return None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="saccade-sync", daemon=True)
                self._thread.start()
            return self._loop


async def _settled() -> None:
    """Return when all tasks that are being cancelled at this moment have ended."""
    await asyncio.sleep(0)  # the cancellation itself is one step behind this in the queue
    own = asyncio.current_task()
    ending = {task for task in asyncio.all_tasks() if task is not own and task.cancelling()}
    if ending:
        await asyncio.wait(ending)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _shut_down(thread: _LoopThread, sandbox: Sandbox) -> None:
    """Close the provider and stop the loop; knows nothing of the `SyncSandbox`, which may be gone."""
    if thread.is_current():  # the garbage collector runs wherever it likes, and nobody can wait for himself
        threading.Thread(target=_shut_down, args=(thread, sandbox), name="saccade-sync-end").start()
        return
    try:
        thread.wait(asyncio.wait_for(sandbox.close(), CLOSE_SECONDS))
    except TimeoutError:
        raise SandboxError(
            f"the sandbox did not close within {CLOSE_SECONDS:.0f} s; its processes may remain."
        ) from None
    finally:
        thread.stop()
