"""`SyncSandbox`: any provider without `await`, by delegation to one event loop in a thread of its own.

    with SyncSandbox(LocalSandbox()) as box, box.open({"image_clue_0": image}) as session:
        result = session.run("print(image_clue_0.size)")

Works from any thread, from many at once, and inside a running event loop (a notebook), which it blocks for as long as
the call takes; a program that has a loop of its own should rather await the provider. A call interrupted by Ctrl-C is
cancelled, and rolled back, before `KeyboardInterrupt` is raised further. A sandbox that is dropped without `close` is
closed when it is collected or when the interpreter ends.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

from saccade.core.sync import CLOSE_SECONDS, LoopThread
from saccade.errors import SandboxClosedError, SandboxError
from saccade.sandbox.base import Binding, Limits, Sandbox, Session, SessionOptions
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.result import RunResult

T = TypeVar("T")


class SyncSandbox:
    """The sync face of `sandbox`, which it owns: it is started by the first use and closed with this."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._loop = LoopThread()
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
        """Return a new session; see `Sandbox.open`."""
        self._start()
        return SyncSession(self, self._wait(self._sandbox.open(bindings, files=files, options=options)))

    def isolation(self) -> Isolation:
        """Return the isolation layers that are on; see `Sandbox.isolation`."""
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
        """Return `n` new sessions with this one's state; see `Session.branch`."""
        return [SyncSession(self._sandbox, session) for session in self._sandbox._wait(self._session.branch(n))]

    def close(self) -> None:
        """End the session; idempotent, and no error if the sandbox is closed already."""
        with suppress(SandboxClosedError):
            self._sandbox._wait(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _shut_down(thread: LoopThread, sandbox: Sandbox) -> None:
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
