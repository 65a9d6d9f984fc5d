"""One local sandbox for all tests of a process that are not about its start, which costs a second of work.

While `lending` is on, `LocalSandbox(limits=...)` gives a `LentSandbox`, whose sessions belong to a process tree that
others use too: one for each set of limits (but for time), in an event loop of its own, since every test has another
loop. A test that is about the sandbox itself has the marker `own_sandbox`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from saccade.errors import SandboxClosedError
from saccade.sandbox.base import Binding, Limits, SessionOptions
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.local import LocalSandbox, check_options
from saccade.sandbox.result import RunResult

T = TypeVar("T")
LONGEST = {"wall_seconds": 60.0, "cpu_seconds": 60}
"""Of the calls of a shared sandbox; a lent one ends its own calls sooner, so sandboxes that differ in this are one."""


class SandboxLoop:
    """The event loop in which the shared sandboxes live, and they themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._boxes: dict[Limits, LocalSandbox] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="shared-sandboxes", daemon=True)
        self._thread.start()

    async def here(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` over there and wait for it here; cancelled here, it is cancelled there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def box(self, limits: Limits) -> LocalSandbox:
        if limits not in self._boxes:
            self._boxes[limits] = own_sandbox(limits=limits)
        return self._boxes[limits]

    def end(self) -> None:
        """Close the sandboxes, the loop and its thread."""

        async def close() -> None:
            await asyncio.gather(*(box.close() for box in self._boxes.values()))
            await asyncio.sleep(0)  # what was cancelled ends
            await self._loop.shutdown_default_executor()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


class LentSession:
    """A session of a shared sandbox."""

    def __init__(self, box: LentSandbox, session: Any) -> None:
        self._box = box
        self._session = session

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        most = self._box.limits.wall_seconds
        seconds = most if wall_seconds is None else min(most, wall_seconds)
        return await self._box.there(self._session.run(code, wall_seconds=seconds))

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        self._session.bind(bindings)

    async def branch(self, n: int) -> tuple[LentSession, ...]:
        return tuple(self._box.keep(twin) for twin in await self._box.there(self._session.branch(n)))

    async def close(self) -> None:
        self._box.forget(self)
        await self._box.there(self._session.close())


class LentSandbox:
    """Looks like a local sandbox of its own; closing it ends the sessions that it opened."""

    def __init__(self, limits: Limits | None) -> None:
        self.limits = limits or Limits()
        self._sessions: set[LentSession] = set()
        self._closed = False

    @property
    def _box(self) -> LocalSandbox:
        return _shared().box(self.limits.model_copy(update=LONGEST))

    async def there(self, work: Coroutine[Any, Any, T]) -> T:
        return await _shared().here(work)

    def keep(self, session: Any) -> LentSession:
        lent = LentSession(self, session)
        self._sessions.add(lent)
        return lent

    def forget(self, session: LentSession) -> None:
        self._sessions.discard(session)

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> LentSession:
        if self._closed:
            raise SandboxClosedError("this sandbox was closed: make another one")
        check_options(options or SessionOptions())
        return self.keep(await self.there(self._box.open(bindings, files=files, options=options)))

    async def isolation(self) -> Isolation:
        return await self.there(self._box.isolation())

    @property
    def layers(self) -> tuple[str, ...]:
        return self._box.layers

    @property
    def versions(self) -> dict[str, str]:
        return self._box.versions

    async def close(self) -> None:
        self._closed = True
        for session in set(self._sessions):
            await session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


_lending = False
_process = os.getpid()  # one that was forked from it has no thread in which the loop runs
_running: list[SandboxLoop] = []


def _shared() -> SandboxLoop:
    if not _running:
        _running.append(SandboxLoop())
    return _running[0]


def end() -> None:
    """Close what was shared."""
    while _running:
        _running.pop().end()


def own_sandbox(**settings: Any) -> LocalSandbox:
    """A local sandbox that nobody else uses."""
    with lending(False):
        return LocalSandbox(**settings)


def _new(cls: type, **settings: Any) -> object:
    if _lending and os.getpid() == _process and settings.keys() <= {"limits"}:
        return LentSandbox(settings.get("limits"))
    return object.__new__(cls)


# Set once and never taken away: a class that once had a `__new__` takes no arguments without it.
LocalSandbox.__new__ = _new  # type: ignore[method-assign,assignment]


@contextmanager
def lending(on: bool) -> Iterator[None]:
    """Whether a new local sandbox without settings of its own is a lent one, meanwhile."""
    global _lending
    before, _lending = _lending, on
    try:
        yield
    finally:
        _lending = before
