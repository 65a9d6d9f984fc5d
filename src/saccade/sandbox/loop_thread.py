"""An event loop in a thread of its own, for code that cannot await.

Works from any thread, from many at once, and inside a running event loop, which it blocks meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, TypeVar

from saccade.errors import SandboxClosedError, SandboxError

CLOSE_SECONDS = 60.0
"""How long closing may take before the thread is left behind (it is a daemon)."""
T = TypeVar("T")


class LoopThread:
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
            raise SandboxError("this was called on its own event loop, which would wait for itself; await there.")
        loop = self._running()
        if loop is None:
            work.close()
            raise SandboxClosedError("this is closed; make a new one.")
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
            finished = asyncio.run_coroutine_threadsafe(_all_cancelled(), loop)
            with suppress(FutureTimeoutError, FutureCancelledError):
                finished.result(CLOSE_SECONDS)

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


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, run on a loop and thread of its own, so inside a running event loop too (a notebook).

    Interrupted, it is cancelled, and its end is waited for.
    """
    loop = LoopThread()
    try:
        return loop.wait(work)
    finally:
        loop.stop()


async def _all_cancelled() -> None:
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
