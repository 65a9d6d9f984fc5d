"""One interpreter in the jail, as the host sees it: its socket, its outbox, and the order of kill and keep.

A link serves one call at a time. After every call it is prepared for the next one (`ready`): stale frames thrown away,
the outbox emptied, a leaf forked and registered. A link whose guest broke the rules for good is `broken`; the session
then makes a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from saccade.errors import MediaError, SandboxLostError
from saccade.guest.outbox import layout as outbox_layout
from saccade.record.status import Status
from saccade.sandbox.base import LazyImage
from saccade.sandbox.cgroup import SessionCgroup
from saccade.sandbox.channel import GuestChannel, GuestFaultError
from saccade.sandbox.endpoints import Endpoints
from saccade.sandbox.gate import Gate
from saccade.sandbox.limits import Limits
from saccade.sandbox.report import read_report, read_text
from saccade.sandbox.result import RunResult
from saccade.sandbox.shared_images import SharedImages
from saccade.sandbox.zygote_client import OrderRefusedError, ZygoteClient

DEATH_SECONDS = 0.5
"""How long the news of a death may take from the kernel through the zygote to us."""
_KILLED = "the session's processes were killed from outside; its state is gone"
BREATH_SECONDS = 0.001
REHEARSE_SECONDS = {False: 0.002, True: 0.02}
"""How long after a fork nothing must happen before a rehearsal without or with a figure. A call that comes
in during one has to wait for its end, and drawing takes longer than an empty cell."""
REHEARSING_SESSIONS = 64
"""With more sessions than this memory counts for more: a rehearsal copies pages, and one with a figure many."""
ANSWER_SECONDS = 30.0
"""How long a guest's own runtime may take to fork and say so; generous, for machines under load."""

_ids = itertools.count(1)
_libc = ctypes.CDLL(None, use_errno=True)
_PUNCH_HOLE_KEEP_SIZE = 3


class Death(NamedTuple):
    """How the process of a call ended: its exit code (negative: a signal), and the CPU time it had used."""

    code: int
    cpu_seconds: float


@dataclass(frozen=True)
class House:
    """What all links of a sandbox share."""

    zygote: ZygoteClient
    limits: Limits
    images: SharedImages
    gate: Gate
    links: dict[int, Link]
    """All links there are, by id."""


class Link:
    """See the module. Made by `opened` or `branched`."""

    def __init__(self, house: House, cgroup: SessionCgroup | None = None) -> None:
        self.id = next(_ids)
        self.zygote = house.zygote
        self.limits = limits = house.limits
        self.images = house.images
        self.gate = house.gate
        self._all = house.links
        self.cgroup = cgroup
        self.layout = outbox_layout(limits.output_bytes, limits.total_pixels)
        self.lazy: dict[str, LazyImage] = {}
        self._over = asyncio.Event()
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when `_over` is set: what waits for a frame stops waiting then."""
        self._oom_kills = 0
        self._calling = False
        self._leaf = 0
        self._rehearsal: dict[str, Any] | None = None
        self.was_ready = False
        """Whether it has ever been ready for a call: if not, a fault is ours and not the guest's."""
        self._died: asyncio.Future[Death] = asyncio.get_running_loop().create_future()
        self._ends = Endpoints(self.layout, cgroup)
        self._channel = GuestChannel(self._ends.ours)
        self._outbox = self._ends.outbox
        self._prepared: asyncio.Task[None] | None = None

    def open(self, config: Mapping[str, Any]) -> None:
        """Have the zygote fork the session; `ready` tells when it can be used."""
        self.zygote.tell("open", self.id, self._ends.guest_fds(), config=config)
        self._ends.sent()
        self._prepared = asyncio.create_task(self._await_leaf())

    def hear(self, message: Mapping[str, Any]) -> None:
        """The zygote says that a process of this session has ended."""
        if message["op"] == "ended":
            self._over.set()
            if not self._gone.done():
                self._gone.set_result(None)
        if not self._died.done():
            self._died.set_result(Death(int(message.get("code", 0)), float(message.get("cpu", 0.0))))

    @property
    def ended(self) -> bool:
        """Whether the session's keeper is dead, and its state with it."""
        return self._over.is_set()

    async def ready(self) -> None:
        """Wait until a call can be made.

        Raises `GuestFaultError` if the guest is beyond repair, and `SandboxLostError` if its keeper was killed.
        """
        if self._prepared is None:
            return
        try:
            await asyncio.shield(self._prepared)
            if self._died.done() and not self.ended:
                # The leaf was killed while it waited, for want of memory perhaps: the keeper makes another.
                self.prepare(rollback=True)
                await asyncio.shield(self._prepared)
        except asyncio.CancelledError:
            if not self._prepared.cancelled():
                raise
            # Not the caller was cancelled, but this link was closed while he waited.
            raise SandboxLostError("the session was closed, or its sandbox started again") from None
        except (GuestFaultError, OrderRefusedError) as error:
            if await self._was_killed():
                raise SandboxLostError(_KILLED) from error
            raise GuestFaultError(str(error)) from error

    async def _was_killed(self) -> bool:
        """Whether a fault is the end of the session: a killed process closes its socket before others hear of it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), DEATH_SECONDS)
        return self.ended

    async def run(
        self, message: Mapping[str, Any], binds: Sequence[tuple[dict[str, Any], list[int]]], seconds: float
    ) -> RunResult:
        """Send bindings and code, and wait for what comes of it; neither kept nor rolled back yet."""
        self._calling = True
        try:
            async with asyncio.timeout(seconds):
                for bind, fds in binds:
                    self._tell(bind, fds)
                self._tell(message)
                frame = await self._report_or_death()
        except TimeoutError:
            return self._cut_short(
                Status.TIMEOUT, f"TimeoutError: the code ran longer than {seconds:g} s and was stopped"
            )
        except GuestFaultError as fault:
            if await self._was_killed():
                return self._cut_short(Status.LOST, _KILLED)
            return self._cut_short(Status.REFUSED, f"the sandbox stopped the code: {fault}")
        if isinstance(frame, Death):
            return self._cut_short(*self._how_it_died(frame))
        try:
            if frame.get("call") != message["call"]:
                raise GuestFaultError("a report of another call")
            return read_report(self._outbox, frame.get("length"), self.layout, self.limits)
        except GuestFaultError as fault:
            return self._cut_short(Status.REFUSED, f"the sandbox stopped the code: {fault}")

    async def _report_or_death(self) -> dict[str, Any] | Death:
        """The frame that reports the call, or how its process ended. Lazy pictures are served meanwhile."""
        served: set[str] = set()
        while True:
            frame = await self._channel.receive_unless(self._died)
            if frame is None:
                return self._died.result()
            if frame.get("op") == "result":
                return frame
            key = frame.get("key")
            if frame.get("op") != "need" or not isinstance(key, str) or key not in self.lazy or key in served:
                raise GuestFaultError("an unexpected frame")
            served.add(key)
            await self._serve_image(key)

    async def _serve_image(self, key: str) -> None:
        try:
            fd = await self.images.get(self.lazy[key])
        except MediaError as error:
            self._tell({"op": "image", "error": str(error)})
        else:
            self._tell({"op": "image"}, [fd])

    def _how_it_died(self, death: Death) -> tuple[Status, str]:
        code = death.code
        before, self._oom_kills = self._oom_kills, self.cgroup.oom_kills() if self.cgroup is not None else 0
        if self._oom_kills > before:
            return Status.OUT_OF_MEMORY, "MemoryError: the code used more memory than allowed and was killed"
        if self.ended:
            return Status.LOST, _KILLED
        # A program that ignores SIGXCPU is killed a second later.
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and death.cpu_seconds >= self.limits.cpu_seconds):
            return Status.TIMEOUT, f"TimeoutError: the code used more than {self.limits.cpu_seconds} s of CPU time"
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return Status.KILLED, f"the Python process of the code ended {how}"

    def _cut_short(self, status: Status, why: str) -> RunResult:
        """The result of a call that did not report: what it had printed until then, and why it ended."""
        if self._outbox < 0:
            return RunResult(status=Status.KILLED, traceback="the session was closed while the code ran")
        most = self.limits.output_bytes
        return RunResult(
            status=status,
            stdout=read_text(self._outbox, self.layout.stdout, most, None),
            stderr=read_text(self._outbox, self.layout.stderr, most, None),
            traceback=why,
        )

    async def commit(self, *, figure: bool) -> str | None:
        """Make the state after the call the session's state; None, or why it may not be.

        `figure` says whether the call has drawn one, as the next call then probably will.
        """
        try:
            await self.zygote.order("commit", self.id)
        except OrderRefusedError as error:
            return str(error)
        self._rehearsal = {"op": "rehearse", "figure": figure}
        self.prepare(rollback=False)
        return None

    def prepare(self, *, rollback: bool) -> None:
        """Begin to get ready for the next call; with `rollback`, first throw the last one away."""
        self._calling = False
        self._prepared = asyncio.create_task(self._prepare(rollback))
        self._prepared.add_done_callback(_retrieve)

    async def _prepare(self, rollback: bool) -> None:
        if rollback:
            await self.zygote.order("rollback", self.id)
        else:
            # Whoever waits for the result comes first: what follows keeps two processors busy for some milliseconds.
            await asyncio.sleep(BREATH_SECONDS)
        self._channel.drain()
        _libc.fallocate(self._outbox, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(self.layout.size))
        self.zygote.tell("respawn", self.id)
        await self._await_leaf()

    async def _await_leaf(self) -> None:
        self._leaf = (await self._expect("ready"))["pid"]
        self._died = asyncio.get_running_loop().create_future()
        try:
            await self.zygote.order("leaf", self.id, pid=self._leaf)
        except OrderRefusedError as error:
            raise GuestFaultError(f"the session's new process is not there: {error}") from error
        self.was_ready = True
        if self._rehearsal is not None:
            asyncio.get_running_loop().call_later(REHEARSE_SECONDS[self._rehearsal["figure"]], self._rehearse)

    def _tell(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send to the present leaf; what a dead one has not read, the next one passes over."""
        self._channel.send({**message, "to": self._leaf}, fds)

    def _rehearse(self) -> None:
        """Let the new leaf warm up, if nobody waits for anything."""
        prepared = self._prepared is not None and self._prepared.done() and not self._calling and not self.ended
        if self._rehearsal is not None and prepared and self.gate.idle and len(self._all) <= REHEARSING_SESSIONS:
            with contextlib.suppress(GuestFaultError):
                self._tell(self._rehearsal)

    async def _expect(self, op: str) -> dict[str, Any]:
        """A frame of kind `op` that carries a process id, unless the session ends first."""
        if self.ended:
            raise GuestFaultError("the session's process has ended")
        frame = await self._channel.expect(op, ANSWER_SECONDS, self._gone)
        pid = frame.get("pid", 1)
        if not isinstance(pid, int) or not 0 < pid < 1 << 31:
            raise GuestFaultError("an impossible process id")
        return frame

    async def branch(self, links: Sequence[Link]) -> None:
        """Fork this idle session into `links`, which are new. Raises `GuestFaultError` if the guest cannot."""
        paths: list[str] = []
        fds: list[int] = []
        workspaces: list[int] = []
        try:
            for answer, received in await asyncio.gather(*(self.zygote.order("workspace", self.id) for _ in links)):
                paths.append(answer["path"])
                workspaces.extend(received)
            for link, workspace in zip(links, workspaces, strict=True):
                fds.extend(link._ends.guest_fds(workspace))
            self._tell({"op": "branch", "count": len(links)}, fds)
        finally:
            for fd in workspaces:
                os.close(fd)
            for link in links:
                link._ends.sent()
        await asyncio.gather(*(link.adopted(self, path) for link, path in zip(links, paths, strict=True)))
        await self._expect("branched")

    async def adopted(self, parent: Link, path: str) -> None:
        """Wait for the new process of a branch and have the zygote take it in; `path` is its workspace."""
        self.lazy = dict(parent.lazy)
        frame = await self._expect("adopt")
        try:
            await self.zygote.order("adopt", self.id, parent=parent.id, pid=frame["pid"], path=path)
        except OrderRefusedError as error:
            raise GuestFaultError(f"the branch's process is not there: {error}") from error
        self._prepared = asyncio.create_task(self._await_leaf())
        self._prepared.add_done_callback(_retrieve)

    async def close(self) -> None:
        """End the session's processes and give everything back; idempotent."""
        if self._outbox < 0:
            return
        outbox, self._outbox = self._outbox, -1
        if self._prepared is not None:
            self._prepared.cancel()
        try:
            if not self.ended:
                await self.zygote.order("close", self.id)
        except (OrderRefusedError, SandboxLostError):
            pass
        finally:
            self._channel.close()
            os.close(outbox)
            if self.cgroup is not None:
                self.cgroup.remove()


def _retrieve(task: asyncio.Task[None]) -> None:
    # A failure is found by the next `ready`; a session that is never used again must not complain at exit.
    if not task.cancelled():
        task.exception()
