"""The local sandbox: isolated, persistent Python interpreters on this machine, one process tree for all of them.

    async with LocalSandbox(limits=Limits(wall_seconds=10)) as box:
        session = await box.open({"image_clue_0": image})
        result = await session.run("print(image_clue_0.size)")

A call that fails, whatever it does, leaves its session exactly as it was, and other sessions and the host alone; the
event loop is never blocked by a guest. Linux only; on other systems use `RemoteSandbox`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

from saccade.core.registry import did_you_mean
from saccade.errors import IsolationError, SandboxClosedError, SandboxError, SandboxLostError, SettingsError
from saccade.guest.wire import FAMILY_SESSIONS, PRELOAD
from saccade.record.execution import Status
from saccade.sandbox.base import Binding, Limits, SessionOptions, StatePolicy, check_call, finished
from saccade.sandbox.bindings import Bound, Memfd, SharedImages, bound, bound_all, messages
from saccade.sandbox.capacity import Gate, check_room
from saccade.sandbox.cgroup import Cgroups, sweep
from saccade.sandbox.channel import GuestFaultError
from saccade.sandbox.isolation import MINIMUM, Isolation, Layer, LayerState
from saccade.sandbox.link import Link
from saccade.sandbox.result import RunResult, Timings
from saccade.sandbox.zygote_client import ZygoteClient

_log = logging.getLogger(__name__)

MOST_BRANCHES = 10_000
"""Most branches of one order; whether the machine has room for so many is another question, which is asked first."""
_PROCESSORS = os.cpu_count() or 1
_MULTIPLIERS = 2 * _PROCESSORS
"""Sessions that make branches at the same time: while one waits for its process or for the zygote, another works."""
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
        """Run one cell; see `Session.run`. Raises `SandboxClosedError`, `SandboxError` for no code or no time."""
        check_call(code, wall_seconds)
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
        cgroup = self._link.cgroup
        async with self._link.gate.place(cgroup.weigh_less if cgroup is not None else lambda _less: None):
            try:
                await self._link.ready(seconds)
            except GuestFaultError as fault:
                if not self._link.was_ready:
                    raise SandboxLostError(f"a fresh interpreter could not be started: {fault}") from fault
                await self._restart()
                why = f"{fault}. The session starts again with its first variables."
                return RunResult(status=Status.KILLED, traceback=why)
            return await self._attempt(code, seconds)

    async def _attempt(self, code: str, seconds: float) -> RunResult:
        """Run the call, and keep what it did or throw it away."""
        link = self._link
        keep_errors = self._options.state is StatePolicy.KEEP
        message = {"op": "run", "call": self._calls + 1, "code": code, "keep": keep_errors}
        pending = tuple(self._pending)
        for item in pending:
            if item.lazy is not None:
                link.lazy[item.lazy.sha256] = item.lazy
        try:
            result = await link.run(message, list(messages(pending, link.images)), seconds)
            if result.status is Status.OK or (result.status is Status.ERROR and keep_errors):
                refusal = await link.commit()
                if refusal is None:
                    self._calls += 1
                    self._committed = True
                    del self._pending[: len(pending)]
                    return result
                link.roll_back()
                why = f"the code was refused: {refusal}"
                return dataclasses.replace(result, status=Status.REFUSED, traceback=why)
        except BaseException:
            # Also when the caller cancels: the call is thrown away and the session can be used again.
            link.give_up()
            raise
        # The kernel may have chosen the keeper: what the code did has then cost the session its state.
        own_doing = link.ended and (bool(link.blame) or result.status is Status.OUT_OF_MEMORY)
        if link.ended and not own_doing:
            raise SandboxLostError(result.traceback or "the session's processes were killed from outside")
        if own_doing or self._options.state is StatePolicy.CLEAR:
            await self._restart()
        else:
            link.roll_back()
        return result

    async def _restart(self) -> None:
        """Start a fresh interpreter with nothing but the first bindings."""
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
                await self._multiply(self._link, n, _MULTIPLIERS, links)
            except BaseException as error:
                for link in links:
                    await self._sandbox.drop(link)
                self._link.give_up()
                if isinstance(error, GuestFaultError):
                    raise SandboxError(f"the session could not be branched: {error}") from error
                raise
            return tuple(self._twin(link) for link in links)

    async def _multiply(self, link: Link, n: int, together: int, links: list[Link]) -> None:
        """Add `n` branches of `link` to `links`. Branches make others, too: up to `together` at the same time."""
        while n:
            await link.ready()
            fresh = self._sandbox.bare_link()
            links.append(fresh)
            if fresh.cgroup is not None and link.cgroup is not None:
                fresh.cgroup.forked_from(link.cgroup)
            await link.branch(fresh)
            link.prepare()
            n -= 1
            if n >= together > 1:
                parts = ((link, n - n // 2, together - together // 2), (fresh, n // 2, together // 2))
                made = (self._multiply(*part, links) for part in parts)
                for failure in await asyncio.gather(*made, return_exceptions=True):
                    if failure is not None:
                        raise failure
                return

    def _twin(self, link: Link) -> LocalSession:
        twin = LocalSession(self._sandbox, link, self._options, self._first)
        twin._pending = list(self._pending)
        twin._calls = self._calls
        twin._kin = self._kin
        twin._kin.add(twin)
        self._sandbox._sessions.add(twin)
        return twin

    async def close(self) -> None:
        """End the session, also during a call; idempotent."""
        if self._closed:
            return
        self.mark_closed()
        self._sandbox._sessions.discard(self)
        await self._sandbox.drop(self._link)

    def mark_closed(self) -> None:
        """Refuse everything from now on."""
        self._closed = True
        self._kin.discard(self)

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxClosedError("this session was closed: open another with `await sandbox.open(...)`")


_DECODED_AHEAD = 25_000_000
"""Pixels of a picture that is decoded when a session is opened, and not when code first looks at it."""


class LocalSandbox:
    """Opens sessions on this machine.

    `require_isolation` names the layers without which it refuses to start; an empty set allows anything, which is for
    code you trust. `python` is the interpreter of the guests, with the packages they may import; `modules` are imported
    once for all sessions. `without` leaves layers out (to test how a lesser machine behaves).
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        require_isolation: Iterable[Layer | str] = MINIMUM,
        python: str | None = None,
        modules: Iterable[str] = (),
        without: Iterable[Layer | str] = (),
    ) -> None:
        self.limits = limits or Limits()
        self._required = frozenset(Layer(layer) for layer in require_isolation)
        self._python = python or sys.executable
        self._modules = tuple(modules)
        self._without = frozenset(Layer(layer) for layer in without)
        self._images = SharedImages()
        self._gate = Gate()
        self._sessions: set[LocalSession] = set()
        """Open sessions, which are closed with the sandbox."""
        self._links: dict[int, Link] = {}
        self._zygote: ZygoteClient | None = None
        self._starting = asyncio.Lock()
        self._isolation: Isolation | None = None
        self._cgroups: Cgroups | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._closed = False

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> LocalSession:
        """See `Sandbox.open`.

        Raises `SandboxError` for what cannot be bound, `IsolationError` if a required layer is missing, and
        `SandboxClosedError` after `close`; a picture of many megapixels is decoded here, so also what that raises.
        """
        options = options or SessionOptions()
        check_options(options)
        bound = bound_all(bindings or {}, files or {}, self.limits)
        await self._started()
        first = [await self._at_hand(item) for item in bound]
        link = self.new_link(options)
        try:
            await link.ready()
        except BaseException as error:
            await self.drop(link)
            if isinstance(error, GuestFaultError):
                raise SandboxError(f"a session could not be started: {error}. See `saccade doctor`.") from error
            raise
        session = LocalSession(self, link, options, first)
        self._sessions.add(session)
        return session

    async def _at_hand(self, item: Bound) -> Bound:
        """Return the item; a picture that takes seconds to decode is decoded now, outside the call's time."""
        if item.lazy is None or item.lazy.width * item.lazy.height < _DECODED_AHEAD:
            return item
        fd = await self._images.get(item.lazy)
        return dataclasses.replace(item, lazy=None, memfd=Memfd(os.dup(fd)))

    async def isolation(self) -> Isolation:
        """See `Sandbox.isolation`; starts the processes if they are not there yet."""
        await self._started()
        assert self._isolation is not None
        return self._isolation

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the isolation layers that are on."""
        return self._isolation.names if self._isolation is not None else ()

    @property
    def most_kin(self) -> int | None:
        """How many sessions of one origin there can be; None for any number."""
        return None if self._cgroups is not None else FAMILY_SESSIONS

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the guests' interpreter and main packages, once started."""
        return dict(self._zygote.hello["versions"]) if self._zygote is not None else {}

    def new_link(self, options: SessionOptions) -> Link:
        """Return a link to a fresh interpreter."""
        link = self.bare_link()
        link.open(options.model_dump(mode="json"))
        return link

    def bare_link(self) -> Link:
        """Return a link that has no process yet."""
        if self._closed:
            raise SandboxClosedError("this sandbox was closed")
        if self._zygote is None or not self._zygote.alive:
            raise SandboxLostError("the sandbox's processes have died; open a new session")
        cgroup = None
        if self._cgroups is not None:
            # The keeper holds the old state while the leaf makes the new one, so twice what one process may have.
            memory = 2 * self.limits.memory_bytes + self.limits.workspace_bytes
            cgroup = self._cgroups.create(memory, self.limits.processes)
        link = Link(self._zygote, self.limits, self._images, self._gate, self._links, cgroup)
        self._links[link.id] = link
        return link

    async def drop(self, link: Link) -> None:
        """End a link's processes and forget it."""
        await link.close()
        self._links.pop(link.id, None)

    async def _started(self) -> None:
        if self._closed:
            raise SandboxClosedError("this sandbox was closed: make another one")
        async with self._starting:
            if self._zygote is not None and self._zygote.alive:
                return
            if self._zygote is not None:
                _log.warning("The sandbox's processes died, with all sessions. They are started again.")
                await self._stop()
            await self._start()

    async def _start(self) -> None:
        if not sys.platform.startswith("linux"):
            raise IsolationError(
                f"the local sandbox needs Linux; this is {sys.platform}. Run `saccade sandbox serve` on a Linux "
                "host or in a Linux virtual machine and use RemoteSandbox(url, token=...) here."
            )
        await asyncio.to_thread(sweep)
        cgroups = await asyncio.to_thread(Cgroups.probe)
        self._cgroups = cgroups if isinstance(cgroups, Cgroups) and Layer.CGROUP not in self._without else None
        if self._cgroups is not None:
            self._cgroups.no_cpu = "left out on purpose"
            if Layer.CPU_SHARES not in self._without:
                await asyncio.to_thread(self._cgroups.share_processors)
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-", ignore_cleanup_errors=True)
        zygote = ZygoteClient(self._event, self._all_lost)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saccade" / "matplotlib"
        try:
            await zygote.start(self._python, self._settings(), cache)
            reason = cgroups if isinstance(cgroups, str) else "left out on purpose"
            isolation = self._judged(zygote.hello, reason)
            isolation.require(self._required)
        except BaseException:
            await finished(zygote.close())
            self._release()
            raise
        self._zygote, self._isolation = zygote, isolation
        _log.info("The sandbox has started. Layers: %s.", ", ".join(isolation.names))

    def _settings(self) -> dict[str, Any]:
        assert self._folder is not None
        return {
            "host_pid": os.getpid(),
            "limits": self.limits.model_dump(mode="json"),
            "modules": self._modules,
            "without": sorted(layer.value for layer in self._without),
            "folder": self._folder.name,
            "leftover_folders": [self._folder.name],
            "zygote_cgroup": self._cgroups.zygote if self._cgroups is not None else "",
            "leftover_cgroups": self._cgroups.folders if self._cgroups is not None else [],
        }

    def _judged(self, hello: Mapping[str, Any], no_cgroup: str) -> Isolation:
        layers = {state["layer"]: LayerState.model_validate(state) for state in hello["layers"]}
        missing = (no_cgroup, no_cgroup) if self._cgroups is None else ("", self._cgroups.no_cpu)
        for layer, why in zip((Layer.ENVIRONMENT, Layer.CGROUP, Layer.CPU_SHARES), ("", *missing), strict=True):
            layers[layer.value] = LayerState(layer=layer, on=not why, detail=why)
        return Isolation(platform=sys.platform, layers=tuple(layers[layer.value] for layer in Layer))

    def _event(self, link_id: int, message: dict[str, Any]) -> None:
        if link_id in self._links:
            self._links[link_id].hear(message)

    def _all_lost(self, why: str) -> None:
        for link in self._links.values():
            link.hear({"op": "ended"})

    async def close(self) -> None:
        """End every session and every process, also where the caller is cancelled meanwhile; idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            await finished(self._stop())
        finally:
            self._images.close()

    async def _stop(self) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            # Killing the zygote ends every session at once.
            await zygote.close()
        for link in list(self._links.values()):
            await self.drop(link)
        if self._closed:
            for session in self._sessions:
                session.mark_closed()
            self._sessions.clear()
        self._release()

    def _release(self) -> None:
        if self._cgroups is not None:
            self._cgroups.close()
            self._cgroups = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def check_options(options: SessionOptions) -> None:
    """Raise `SandboxError` for a repair or a preloaded name that does not exist, naming those that do."""
    known_repairs: Iterable[str] = ()
    if options.repairs:  # most sessions have none, and do without the module
        from saccade.guest.repairs import PASSES

        known_repairs = PASSES
    for what, names, known in (
        ("repair", options.repairs, known_repairs),
        ("name to preload", options.preload, PRELOAD),
    ):
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known) or f"Known: {', '.join(sorted(known))}."
                raise SandboxError(f"there is no {what} {name!r}. {hint}")


def local(rest: str, limits: Limits, wait: float | None) -> LocalSandbox:
    """Return isolated processes of this machine (Linux)."""
    if rest:
        raise SettingsError(f"nothing may follow the sandbox `local`. Leave out {rest!r}.")
    return LocalSandbox(limits=limits)
