"""A session of the local sandbox: one call at a time, kept or rolled back by the session's policy."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from saccade.errors import SandboxClosedError, SandboxError, SandboxLostError
from saccade.record.status import Status
from saccade.sandbox.base import Binding, SessionOptions, StatePolicy
from saccade.sandbox.bindings import Bound, bound, messages
from saccade.sandbox.capacity import check_room
from saccade.sandbox.channel import GuestFaultError
from saccade.sandbox.link import Link
from saccade.sandbox.result import RunResult, Timings

if TYPE_CHECKING:
    from saccade.sandbox.local import LocalSandbox

_log = logging.getLogger(__name__)

MOST_BRANCHES = 10_000
"""Most branches of one order; whether the machine has room for so many is another question, which is asked first."""
_PROCESSORS = os.cpu_count() or 1
_LIMITS = frozenset({Status.TIMEOUT, Status.OUT_OF_MEMORY})


class LocalSession:
    """A `Session` over one link; a link that broke is replaced by a fresh one with the first bindings."""

    def __init__(self, sandbox: LocalSandbox, link: Link, options: SessionOptions, first: Sequence[Bound]) -> None:
        self._sandbox = sandbox
        self._link = link
        self._options = options
        self._first = tuple(first)
        self._pending: list[Bound] = list(first)
        self._lock = asyncio.Lock()
        self._calls = 0
        self._closed = False
        self._lost = False
        self._committed = False
        """Whether what the present call did is kept."""
        self._kin: WeakSet[LocalSession] = WeakSet((self,))
        """The sessions of one origin."""

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        """Bind further names, from the next call on. Raises `SandboxError` for what cannot be bound."""
        self._check_open()
        self._pending.extend([bound(name, value) for name, value in bindings.items()])

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        """Run one cell; see `Session.run`. Raises `SandboxClosedError` after `close`, and nothing else."""
        self._check_open()
        async with self._lock:
            self._check_open()
            started = time.perf_counter()
            self._committed = False
            try:
                result = await self._run(code, wall_seconds)
            except SandboxLostError as error:
                self._lost = True
                _log.warning("A session is lost: %s.", error)
                result = RunResult(status=Status.LOST, traceback=str(error))
            wall = time.perf_counter() - started
            if result.status in _LIMITS:
                _log.info("A call reached a limit: %s after %.1f s.", result.status.value, wall)
            # The guest's own clock is a claim: nothing of a call takes longer than the call.
            claimed = result.timings
            timings = Timings(
                wall=wall,
                run=min(claimed.run, wall),
                cpu=min(claimed.cpu, wall * _PROCESSORS),
                capture=min(claimed.capture, wall),
            )
            return dataclasses.replace(result, committed=self._committed, timings=timings, layers=self._sandbox.layers)

    async def _run(self, code: str, wall_seconds: float | None) -> RunResult:
        if self._lost or not self._link.zygote.alive:
            raise SandboxLostError("the sandbox's processes have died; the state of this session is gone")
        limit = self._sandbox.limits.wall_seconds
        seconds = limit if wall_seconds is None else min(limit, wall_seconds)
        async with self._link.gate.place(self._weigh_less):
            try:
                await self._link.ready(seconds)
            except GuestFaultError as fault:
                if not self._link.was_ready:
                    raise SandboxLostError(f"a fresh interpreter could not be started: {fault}") from fault
                await self._restart()
                why = f"{fault}. The session starts again with its first variables."
                return RunResult(status=Status.KILLED, traceback=why)
            return await self._attempt(code, seconds)

    def _weigh_less(self, less: bool) -> None:
        """Give the session a smaller share of the processors, or its whole one again."""
        if self._link.cgroup is not None:
            self._link.cgroup.weigh_less(less)

    async def _attempt(self, code: str, seconds: float) -> RunResult:
        """Run the call, and keep what it did or throw it away."""
        link = self._link
        keep_errors = self._options.state is StatePolicy.KEEP
        message = {"op": "run", "call": self._calls + 1, "code": code, "keep": keep_errors}
        pending = tuple(self._pending)
        for item in pending:
            if item.lazy is not None:
                link.lazy[item.lazy.sha256] = item.lazy
        resolved = False
        try:
            result = await link.run(message, list(messages(pending, link.images)), seconds)
            if result.status is Status.OK or (result.status is Status.ERROR and keep_errors):
                refusal = await link.commit(figure=any(picture.source == "figure" for picture in result.pictures))
                resolved = refusal is None
                if refusal is not None:
                    why = f"the code was refused: {refusal}"
                    return dataclasses.replace(result, status=Status.REFUSED, traceback=why)
                self._calls += 1
                self._committed = True
                del self._pending[: len(pending)]
                return result
            # The kernel may have chosen the keeper: what the code did has then cost the session its state.
            own_doing = link.ended and (bool(link.blame) or result.status is Status.OUT_OF_MEMORY)
            if link.ended and not own_doing:
                raise SandboxLostError(result.traceback or "the session's processes were killed from outside")
            if own_doing or self._options.state is StatePolicy.CLEAR:
                resolved = True
                await self._restart()
            return result
        finally:
            # Also when the caller cancels: the call is thrown away and the session can be used again.
            if not resolved and link.zygote.alive and not link.ended:
                link.prepare(rollback=True)

    async def _restart(self) -> None:
        """A fresh interpreter with nothing but the first bindings."""
        _log.info("A session starts again after %d calls.", self._calls)
        old, self._link = self._link, self._sandbox.new_link(self._options)
        self._pending = list(self._first)
        self._calls = 0
        await old.close()

    async def branch(self, n: int) -> tuple[LocalSession, ...]:
        """See `Session.branch`. Raises `SandboxError` if the session cannot be forked."""
        if not 1 <= n <= MOST_BRANCHES:
            raise SandboxError(f"{n} branches were asked for; 1 to {MOST_BRANCHES:,} are possible at once")
        self._check_open()
        check_room(n, kin=len(self._kin), most_kin=self._sandbox.most_kin)
        async with self._lock:
            links: list[Link] = []
            try:
                for _ in range(n):
                    await self._link.ready()
                    fresh = self._sandbox.bare_link()
                    links.append(fresh)
                    if fresh.cgroup is not None and self._link.cgroup is not None:
                        fresh.cgroup.forked_from(self._link.cgroup)
                    await self._link.branch(fresh)
                    self._link.prepare()
            except BaseException as error:
                for link in links:
                    await self._sandbox.drop(link)
                self._link.prepare(rollback=True)
                if isinstance(error, GuestFaultError):
                    raise SandboxError(f"the session could not be branched: {error}") from error
                raise
            return tuple(self._twin(link) for link in links)

    def _twin(self, link: Link) -> LocalSession:
        twin = LocalSession(self._sandbox, link, self._options, self._first)
        twin._pending = list(self._pending)
        twin._calls = self._calls
        twin._kin = self._kin
        twin._kin.add(twin)
        self._sandbox.register(twin)
        return twin

    async def close(self) -> None:
        """End the session, also during a call; idempotent."""
        if self._closed:
            return
        self.mark_closed()
        self._sandbox.forget(self)
        await self._sandbox.drop(self._link)

    def mark_closed(self) -> None:
        """Refuse everything from now on; for the sandbox, when it closes as a whole."""
        self._closed = True
        self._kin.discard(self)

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxClosedError("this session was closed: open another with `await sandbox.open(...)`")
