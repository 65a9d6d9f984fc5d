"""`SandboxPool`: sessions on one host or several, each a `saccade sandbox serve`, with the interface of the others.

A session is opened where this pool takes the smallest share of what a host may hold, and its branches on the same host.
Where no host has room, whoever wants a session waits in line. A host that cannot be reached gets no new sessions until
it answers again; its sessions are lost. Every host must be there at the start, and all must have the same limits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Self, TypeVar

from saccade.errors import SandboxClosedError, SandboxError, SandboxFullError, SandboxLostError, SettingsError
from saccade.record.execution import Status
from saccade.sandbox.base import Binding, Limits, SessionOptions
from saccade.sandbox.isolation import Isolation, LayerState
from saccade.sandbox.remote import RemoteSandbox, RemoteSession
from saccade.sandbox.result import RunResult

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PoolTimes:
    """How long a pool waits for what, in seconds."""

    wait: float = 1800.0
    """How long a session may be waited for. A server closes one that is not used for as long."""
    look: float = 0.5
    """Between two questions to a host that other clients have filled."""
    again: float = 10.0
    """Between two questions to a host that was lost."""


class PooledHost:
    """What a pool knows of a server."""

    def __init__(self, box: RemoteSandbox) -> None:
        self.box = box
        self.taken = 0
        """Sessions of this pool, those that are being opened included."""
        self.lost = False
        self.filled = False
        """It refused a session although this pool had not taken all: other clients have."""

    @property
    def share(self) -> float:
        """Of the sessions that the server may hold, this pool's."""
        return self.taken / max(1, self.box.max_sessions)

    async def has_room(self, count: int, spare: int = 0) -> bool:
        """Return whether `count` sessions more may be asked for; `spare` must then be left to this pool."""
        if self.taken + count + spare > self.box.max_sessions:
            return False
        if self.filled:
            with suppress(SandboxLostError):  # the request for a session will tell
                return await self.box.room() >= count
        return True


class SandboxPool:
    """Sessions of several servers, as an async context. Raises `SettingsError` if none is named, or one twice."""

    def __init__(self, boxes: Sequence[RemoteSandbox], times: PoolTimes | None = None) -> None:
        urls = [box.url for box in boxes]
        if not urls or len(set(urls)) < len(urls):
            raise SettingsError(
                f"a pool of sandboxes needs one address or more, each once, and was given: {', '.join(urls) or 'none'}."
            )
        self._hosts = tuple(PooledHost(box) for box in boxes)
        self._times = times or PoolTimes()
        self._line = asyncio.Lock()
        self._freed = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()
        self._warned = False
        self._closed = False

    def __repr__(self) -> str:
        """Return the addresses."""
        return f"SandboxPool({', '.join(host.box.url for host in self._hosts)})"

    @property
    def limits(self) -> Limits:
        """Those of every server; known once the pool was entered."""
        return self._hosts[0].box.limits

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> PooledSession:
        """Return a new session where there is most room.

        Raises:
            SandboxLostError: no server can be reached.
            SandboxFullError: all are full, and stayed so for as long as may be waited.
            SandboxError, SettingsError, MediaError: as `RemoteSandbox.open` raises them.
        """

        async def open_on(host: PooledHost) -> PooledSession:
            return PooledSession(self, host, await host.box.open(bindings, files=files, options=options))

        # First come, first served. The last place is for a branch: sessions that wait for theirs must not fill a host.
        return await self.placed(self._hosts, open_on, line=self._line, spare=1)

    async def placed(
        self,
        hosts: Sequence[PooledHost],
        ask: Callable[[PooledHost], Awaitable[T]],
        count: int = 1,
        *,
        line: AbstractAsyncContextManager[object] | None = None,
        spare: int = 0,
    ) -> T:
        """Return what `ask` gives of the host that has room for `count` sessions; wait for one, in `line`.

        `spare` more places must be left there. Raises `SandboxFullError` where it takes longer than may be waited,
        `SandboxLostError` where no host can be reached.
        """
        unreachable: set[PooledHost] = set()
        try:
            async with asyncio.timeout(self._times.wait):
                while True:
                    async with line or nullcontext():
                        host = await self._with_room([one for one in hosts if one not in unreachable], count, spare)
                    try:
                        result = await ask(host)
                    except SandboxFullError:
                        self.free(host, count)
                        host.filled = True
                        await self._pause()
                    except SandboxLostError:
                        self.free(host, count)
                        await self.look_after(host)
                        unreachable.add(host)
                        if len(unreachable) == len(hosts):
                            raise
                    except BaseException:
                        self.free(host, count)
                        raise
                    else:
                        host.filled = False
                        return result
        except TimeoutError as error:
            raise SandboxFullError(
                f"no sandbox host had room within {self._times.wait:g} s ({self._state()}). Start more hosts, or let "
                "them hold more (--max-sessions); or play fewer episodes at a time."
            ) from error

    async def isolation(self) -> Isolation:
        """Return the layers that are on at every server."""
        reports = await asyncio.gather(*(host.box.isolation() for host in self._hosts))
        states = [state for report in reports for state in report.layers]
        missing = {state.layer: state for state in states if not state.on}
        found = {state.layer: missing.get(state.layer, LayerState(layer=state.layer, on=True)) for state in states}
        platforms = dict.fromkeys(report.platform for report in reports)
        return Isolation(platform=", ".join(platforms), layers=tuple(found.values()))

    async def close(self) -> None:
        """End every session that this pool opened; idempotent. A server that is gone is no error."""
        self._closed = True
        self._freed.set()
        asking = list(self._asking)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await asyncio.gather(*(host.box.close() for host in self._hosts))

    async def __aenter__(self) -> Self:
        try:
            for host in self._hosts:
                await host.box.__aenter__()
            self._check_limits()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def free(self, host: PooledHost, count: int = 1) -> None:
        """Note that `count` sessions of `host` are over."""
        host.taken -= count
        self._freed.set()

    async def look_after(self, host: PooledHost) -> None:
        """Check whether `host`, of which a session was lost, is lost too: it gets none then until it answers again."""
        if host.lost or self._closed:
            return
        try:
            await host.box.room()
        except SandboxLostError as error:
            if not (host.lost or self._closed):
                host.lost = True
                left = sum(not each.lost for each in self._hosts)
                _log.warning("%s New sessions go to the other hosts of the pool, of which %d are there.", error, left)
                task = asyncio.create_task(self._reconnect(host))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
        except SandboxError as error:
            _log.warning("%s is there, and does not say how full it is: %s", host.box.url, error)

    async def _with_room(self, hosts: Sequence[PooledHost], count: int, spare: int) -> PooledHost:
        """Return the host on which `count` sessions may be asked for, which count as taken."""
        while True:
            # Where none is known to answer, those that were lost are tried.
            for host in sorted([host for host in hosts if not host.lost] or hosts, key=lambda host: host.share):
                if await host.has_room(count, spare=min(spare, host.box.max_sessions - 1)):
                    host.taken += count
                    return host
            await self._pause()

    async def _pause(self) -> None:
        """Wait until a session of this pool is over, or it is time to look at what others closed."""
        if self._closed:
            raise SandboxClosedError("this SandboxPool is closed; make a new one.")
        if not self._warned:
            self._warned = True
            _log.warning("No sandbox host has room (%s): who needs a session waits.", self._state())
        self._freed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), self._times.look)

    async def _reconnect(self, host: PooledHost) -> None:
        """Ask a host that was lost until it answers."""
        while host.lost:
            await asyncio.sleep(self._times.again)
            with suppress(SandboxError):
                await host.box.room()
                host.lost = False
        _log.warning("The sandbox server at %s answers again and gets sessions.", host.box.url)
        self._freed.set()

    def _check_limits(self) -> None:
        first = self._hosts[0].box
        for host in self._hosts[1:]:
            ours, theirs = first.limits.model_dump(), host.box.limits.model_dump()
            for name in (name for name in ours if ours[name] != theirs[name]):
                raise SettingsError(
                    f"{name} is {ours[name]} at {first.url} and {theirs[name]} at {host.box.url}: what a program may "
                    "do would depend on where it runs. Start all sandbox servers with the same limits (--settings)."
                )

    def _state(self) -> str:
        return ", ".join(f"{host.box.url}: {host.taken} of {host.box.max_sessions} are ours" for host in self._hosts)


class PooledSession:
    """One interpreter on one of the hosts."""

    def __init__(self, pool: SandboxPool, host: PooledHost, session: RemoteSession) -> None:
        self._pool = pool
        self._host = host
        self._session = session
        self._closed = False

    @property
    def url(self) -> str:
        """Of its host."""
        return self._host.box.url

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        """Run code like `RemoteSession.run`; after an outage the pool checks whether the host is there."""
        result = await self._session.run(code, wall_seconds=wall_seconds)
        if result.status is Status.LOST:
            await self._pool.look_after(self._host)
        return result

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        """Bind further names; they are there in the next call, which sends them."""
        self._session.bind(bindings)

    async def branch(self, n: int) -> Sequence[PooledSession]:
        """Return `n` sessions on the same host, once it has room for them.

        Raises:
            SandboxFullError: it had none for too long, or never can.
            SandboxError: as `RemoteSession.branch` raises it.
        """
        pool, host = self._pool, self._host
        if n >= host.box.max_sessions:
            raise SandboxFullError(
                f"{n} branches and their origin do not fit {self.url}, which holds {host.box.max_sessions} sessions."
            )
        branches = await pool.placed([host], lambda _host: self._session.branch(n), n)
        return [PooledSession(pool, host, branch) for branch in branches]

    async def close(self) -> None:
        """End the session; idempotent, and quiet if the host is gone."""
        if not self._closed:
            self._closed = True
            try:
                await self._session.close()
            finally:
                self._pool.free(self._host)


def remote(rest: str, limits: Limits, wait: float | None) -> SandboxPool:
    """Return sessions of one `saccade sandbox serve` or several, by address: `http://host:8765,http://other:8765`."""
    boxes = [RemoteSandbox(address.strip()) for address in rest.split(",")]
    return SandboxPool(boxes, None if wait is None else PoolTimes(wait=wait))
