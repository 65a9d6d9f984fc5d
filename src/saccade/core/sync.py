"""The bridge from code that cannot await to code that does.

    answer = run(model.complete(request, media))        # one coroutine, also inside a running loop (a notebook)
    future = in_background(client.call())               # on one loop for the whole process
    loop = LoopThread(); loop.wait(session.run("1"))    # for an object whose calls share a loop

All of it works from any thread, from many at once. `anyio`'s portal was measured instead: a call takes 2.7 times as
long, and Ctrl-C leaves the work running.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, Generic, TypeVar

from saccade.errors import SandboxClosedError, SandboxError

CLOSE_SECONDS = 60.0
"""How long closing may take before the thread is left behind (it is a daemon)."""
T = TypeVar("T")


class _Job(Generic[T]):
    """A coroutine that another thread waits for: quicker than by a `concurrent.futures.Future`, which can do more."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._outcome: list[T] = []
        self._ended = threading.Lock()
        self._ended.acquire()

    def begin(self) -> None:
        """Let it run; on the loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._fail)

    async def _run(self) -> None:
        self._outcome.append(await self._work)
        # At once, and not when the loop comes to the callbacks of this task.
        self._ended.release()

    def _fail(self, _task: object) -> None:
        if not self._outcome:
            self._ended.release()

    def cancel(self) -> None:
        """Cancel it; on the loop, where it has begun by then."""
        assert self._task is not None
        self._task.cancel()

    def result(self) -> T:
        """Wait for its end, and give its result or raise what it has raised."""
        self._ended.acquire()
        if not self._outcome:
            assert self._task is not None
            self._task.result()  # raises
        return self._outcome[0]

    @property
    def done(self) -> bool:
        return bool(self._outcome) or (self._task is not None and self._task.done())


class LoopThread:
    """An event loop that runs in a daemon thread from the first `wait` to `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `work` on the loop; cancelling the future cancels it."""
        loop = self._running()
        if loop is None:
            work.close()
            raise SandboxClosedError("this is closed; make a new one.")
        return asyncio.run_coroutine_threadsafe(work, loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and give its result; interrupted, cancel it and wait until it has ended."""
        if self.is_current():
            work.close()
            raise SandboxError("this was called on its own event loop, which would wait for itself; await there.")
        loop = self._running()
        if loop is None:
            work.close()
            raise SandboxClosedError("this is closed; make a new one.")
        job = _Job(work)
        loop.call_soon_threadsafe(job.begin)
        try:
            return job.result()
        except asyncio.CancelledError:
            raise SandboxClosedError("the sandbox was closed while this call was waiting.") from None
        except BaseException:
            if not job.done:  # Ctrl-C, or whatever else this thread was made to raise
                self._cancel(job)
            raise

    def _cancel(self, job: _Job[Any]) -> None:
        """Cancel what runs on the loop, and give it time to undo itself."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(job.cancel)
            finished = asyncio.run_coroutine_threadsafe(_all_cancelled(), loop)
            with suppress(FutureTimeoutError, FutureCancelledError):
                finished.result(CLOSE_SECONDS)

    def is_current(self) -> bool:
        """Return whether the caller runs on this loop's thread."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the loop and its thread, for good; idempotent."""
        with self._lock:
            self._stopped = True
            loop, self._loop, thread = self._loop, None, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSE_SECONDS)

    def _running(self) -> asyncio.AbstractEventLoop | None:
        with self._lock:
            if self._stopped:
                return None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="saccade-sync", daemon=True)
                self._thread.start()
            return self._loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` and return its result: in this thread, or in another one if a loop runs here (a notebook).

    Interrupted, it is cancelled, and its end is waited for.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    loop = LoopThread()
    try:
        return loop.wait(work)
    finally:
        loop.stop()


_background: dict[int, LoopThread] = {}
_lock = threading.Lock()


def in_background(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run `work` on the background loop of this process; cancelling the future cancels it.

    Connections belong to the loop that opened them and outlive those of episodes, so tools open theirs here.
    """
    with _lock:  # by process: after a fork the thread is the parent's
        loop = _background.setdefault(os.getpid(), LoopThread())
    return loop.submit(work)


async def _all_cancelled() -> None:
    """Return when all tasks that are being cancelled at this moment have ended."""
    await asyncio.sleep(0)  # the cancellation itself is one step behind this in the queue
    own = asyncio.current_task()
    ending = {task for task in asyncio.all_tasks() if task is not own and task.cancelling()}
    if ending:
        await asyncio.wait(ending)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
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
