"""One interpreter in the jail, as the host sees it: its socket, its outbox, and the order of kill and keep.

A link serves one call at a time. After every call it is prepared for the next one (`ready`): stale frames thrown away,
the outbox emptied, a leaf forked and registered. All its processes then stand still until the call comes. A session
that does not get there in time, or whose keeper ends by its own doing, has been spoilt by its program (`blame`); the
session then makes a new link.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence, Sized
from typing import Any, NamedTuple

from saccade.errors import MediaError, SandboxLostError
from saccade.guest.syscalls import punch_hole
from saccade.guest.wire import Layout
from saccade.guest.wire import layout as outbox_layout
from saccade.record.execution import Status
from saccade.sandbox.base import LazyImage, Limits
from saccade.sandbox.bindings import SharedImages
from saccade.sandbox.capacity import Gate
from saccade.sandbox.cgroup import SessionCgroup
from saccade.sandbox.channel import GuestChannel, GuestFaultError
from saccade.sandbox.report import check_report, cut_short
from saccade.sandbox.result import RunResult
from saccade.sandbox.zygote_client import OrderRefusedError, ZygoteAnswer, ZygoteClient


class Leaf:
    """The stopped process that runs the next call, known by a `pidfd` (owned from here on)."""

    def __init__(self, pid: int = 0, pidfd: int = -1) -> None:
        self.pid = pid
        self._pidfd = pidfd

    def wake(self) -> None:
        """Let it run."""
        self._send(signal.SIGCONT)

    def rest(self) -> None:
        """Let it stand still."""
        self._send(signal.SIGSTOP)

    def forget(self) -> None:
        """Give the descriptor back; idempotent."""
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)

    def _send(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)


STREAM_BYTES = 64 * 1024
"""Most bytes that C code of the guest may write to file descriptor 1 or 2 in one call."""


class Endpoints:
    """The descriptors that a new link needs on both sides; those of the guest are closed once they are sent."""

    def __init__(self, layout: Layout, cgroup: SessionCgroup | None) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.outbox = fixed_memfd("saccade-outbox", layout.size)
        self._size = layout.size
        # The flags and the position of an open file are one for all who have it: the guest gets it opened again.
        self._shared = [reopened(self.outbox, os.O_RDWR)]
        self._shared += [fixed_memfd(f"saccade-{name}", STREAM_BYTES) for name in ("stdout", "stderr")]
        self.cgroup = cgroup

    def guest_fds(self, *workspace: int) -> tuple[int, ...]:
        """Return socket, outbox, the workspace if it is sent from here, stdout, stderr."""
        outbox, *streams = self._shared
        return (self.theirs.fileno(), outbox, *workspace, *streams)

    @property
    def joins(self) -> tuple[int, ...]:
        """The cgroup files, for the zygote only."""
        return self.cgroup.join_fds if self.cgroup is not None else ()

    def inodes(self) -> dict[str, Any]:
        """Return what the guest's descriptors are known by, for the zygote that looks at what a branch holds."""
        return {
            "socket": os.fstat(self.theirs.fileno()).st_ino,
            "memory": [os.fstat(fd).st_ino for fd in self._shared],
        }

    def empty_outbox(self) -> None:
        """Empty it, and free its memory."""
        punch_hole(self.outbox, 0, self._size)

    def sent(self) -> None:
        """Close what only the guest and the zygote need; idempotent."""
        self.theirs.close()
        while self._shared:
            os.close(self._shared.pop())
        if self.cgroup is not None:
            self.cgroup.close_fds()


def reopened(fd: int, flags: int) -> int:
    """Return a memfd opened once more: a descriptor whose position, flags and locks are its own; the caller owns it."""
    return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)


def fixed_memfd(name: str, size: int) -> int:
    """Return a sparse memfd whose size can never change."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


# Code in the jail cannot send a signal, but it can end itself, run against a limit, and patch what runs between calls.
# Only a keeper that was killed by a signal which its session cannot have brought about is an outage of ours.
KILLED_OUTSIDE = "the session's processes were killed from outside; its state is gone"


class Death(NamedTuple):
    """Exit code of the process of a call (negative: a signal), and the CPU time it had used."""

    code: int
    cpu_seconds: float


class Memory:
    """Tells whether the kernel has killed processes of a session for want of memory."""

    def __init__(self, cgroup: SessionCgroup | None) -> None:
        self._cgroup = cgroup
        self._known = 0

    def ran_out(self) -> bool:
        """Tell whether it has since the last call; never without a control group."""
        before, self._known = self._known, self._cgroup.oom_kills() if self._cgroup is not None else 0
        return self._known > before


def whose_doing(message: Mapping[str, Any], limits: Limits, memory: Memory) -> str:
    """Say why the end of a keeper, as the zygote told it, is its program's own doing; empty if it is not."""
    if message.get("fault"):
        return f"the session was ended: {message['fault']}"
    code = message.get("code")
    if code is None:
        return ""
    if code == -signal.SIGKILL and float(message["cpu"]) < limits.cpu_seconds:
        return "the session's processes used more memory than allowed" if memory.ran_out() else ""
    return f"the process that kept the session's state ended {_how(code)}"


def how_it_died(death: Death, limits: Limits, memory: Memory) -> tuple[Status, str]:
    """Return the outcome of a call whose process died while the session lives on."""
    if memory.ran_out():
        return Status.OUT_OF_MEMORY, "MemoryError: the code used more memory than allowed and was killed"
    code = death.code
    # A program that ignores SIGXCPU is killed a second later.
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and death.cpu_seconds >= limits.cpu_seconds):
        return Status.TIMEOUT, f"TimeoutError: the code used more than {limits.cpu_seconds} s of CPU time"
    return Status.KILLED, f"the Python process of the code ended {_how(code)}"


def _how(code: int) -> str:
    return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


REHEARSE_SECONDS = 0.002
"""How long after a fork nothing must happen before its rehearsal, for whose end a call that comes in must wait."""
REST_SECONDS = 0.05
"""How long a rehearsal may take."""
REHEARSING_SESSIONS = 64
"""With more sessions than this memory counts for more: a rehearsal copies pages."""
DEATH_SECONDS = 0.5
"""How long the news of a death may take from the kernel through the zygote to us."""
ANSWER_SECONDS = 30.0
"""How long a session may take to become ready; generous, for machines under load. The zygote sees to it that it does
not work for so long."""
ASLEEP_SECONDS = 0.1
"""For how long a session that should get ready must be seen to sleep: it may wait for a processor, but not so."""
MOST_REQUESTS = 1000
"""How often a call may ask for pictures that it was sent already, which only a hostile program does at all."""
LEAST_SECONDS = 1.0
"""How long a call waits for that at least, however short its own limit is."""

_ids = itertools.count(1)


class Link:
    """A session's processes; one call at a time."""

    def __init__(
        self,
        zygote: ZygoteClient,
        limits: Limits,
        images: SharedImages,
        gate: Gate,
        links: Sized,
        cgroup: SessionCgroup | None = None,
    ) -> None:
        """`links` are all that the sandbox has."""
        self.id = next(_ids)
        self.zygote = zygote
        self.limits = limits
        self.images = images
        self.gate = gate
        self.cgroup = cgroup
        self.layout = outbox_layout(limits.output_bytes, limits.total_pixels)
        self.lazy: dict[str, LazyImage] = {}
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the session has ended: what waits for a frame stops waiting then."""
        self._memory = Memory(cgroup)
        self._calling = False
        self._call: ZygoteAnswer | None = None  # whether the present call can be kept
        self._leaf = Leaf()
        self._links = links
        self._has_run = False
        self.was_ready = False
        """Whether it can have run code of a guest: if not, a fault is ours and not the guest's."""
        self.blame = ""
        """Why the session's end is its program's own doing; empty if it has not ended, or was ended from outside."""
        self._died: asyncio.Future[Death] = asyncio.get_running_loop().create_future()
        self._ends = Endpoints(self.layout, cgroup)
        self._channel = GuestChannel(self._ends.ours)
        self._outbox = self._ends.outbox
        self._prepared: asyncio.Task[None] | None = None
        self._wanted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when somebody waits until a call can be made."""
        self._undoing: ZygoteAnswer | None = None
        """Done when a call that was given up is dead; the rest of its rollback waits for the next call."""

    def open(self, config: Mapping[str, Any]) -> None:
        """Have the zygote fork the session; `ready` tells when it can be used."""
        leaf = self.zygote.coming("leaf", self.id)
        self.zygote.tell("open", self.id, (*self._ends.guest_fds(), *self._ends.joins), config=config)
        self._ends.sent()
        self._get_ready(lambda: self._await_leaf(leaf))

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take the zygote's message that a process of this session has ended."""
        if message["op"] == "ended":
            if self.was_ready:
                self.blame = self.blame or whose_doing(message, self.limits, self._memory)
            if not self._gone.done():
                self._gone.set_result(None)
        if not self._died.done():
            self._died.set_result(Death(int(message.get("code", 0)), float(message.get("cpu", 0.0))))

    @property
    def ended(self) -> bool:
        """Whether the session's keeper is dead, and its state with it."""
        return self._gone.done()

    def end(self) -> tuple[Status, str]:
        """Return how a call ends whose session has ended."""
        return (Status.KILLED, self.blame) if self.blame else (Status.LOST, KILLED_OUTSIDE)

    async def ready(self, seconds: float = ANSWER_SECONDS) -> None:
        """Wait for `seconds` until a call can be made. Raises `GuestFaultError`, or `SandboxLostError` if killed."""
        if self._undoing is not None:
            self.prepare(rollback=True)
        if not self._wanted.done():
            self._wanted.set_result(None)
        try:
            await self._prepared_within(max(seconds, LEAST_SECONDS))
            if self._died.done() and not self.ended:
                # The leaf was killed while it waited, for want of memory perhaps: the keeper makes another.
                self.prepare(rollback=True)
                await self._prepared_within(max(seconds, LEAST_SECONDS))
        except asyncio.CancelledError:
            if self._prepared is None or not self._prepared.cancelled():
                raise
            # Not the caller was cancelled, but this link was closed while he waited.
            raise SandboxLostError("the session was closed, or its sandbox started again") from None
        except (GuestFaultError, OrderRefusedError) as error:
            if not self.blame and await self._was_killed() and not self.blame:
                raise SandboxLostError(KILLED_OUTSIDE) from error
            raise GuestFaultError(self.blame or str(error)) from error

    async def _prepared_within(self, seconds: float) -> None:
        """Wait for the preparation, for longer than `seconds` only while it waits for a processor itself."""
        assert self._prepared is not None
        while not (self._prepared.done() or (await asyncio.wait((self._prepared,), timeout=seconds))[0]):
            if await self._is_asleep():
                self._end_it(f"the session did not get ready for the call within {seconds:g} s")
                raise GuestFaultError(self.blame)
        await asyncio.shield(self._prepared)

    async def _is_asleep(self) -> bool:
        for _ in range(3):
            answer, _fds = await self.zygote.ask("asleep", self.id)
            if not answer["asleep"]:
                return False
            await asyncio.sleep(ASLEEP_SECONDS / 2)
        return not (self._prepared is None or self._prepared.done())

    def _end_it(self, why: str) -> None:
        """End a session that its program has spoilt, at once: whatever it still does, it does to no purpose."""
        self.blame = self.blame or why
        if self.zygote.alive and not self.ended:
            self.zygote.tell("close", self.id)

    def _get_ready(self, steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._prepared = asyncio.create_task(self._or_end(steps))
        # A failure is found by the next `ready`; a session that is never used again must not complain at exit.
        self._prepared.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _or_end(self, steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await steps()
        except GuestFaultError as fault:
            if self.was_ready and not await self._was_killed():
                self._end_it(str(fault))
            raise

    async def _was_killed(self) -> bool:
        """Tell whether a fault ends the session: a killed process closes its socket before others hear of it."""
        await asyncio.wait((self._gone,), timeout=DEATH_SECONDS)
        return self.ended

    async def run(
        self, message: Mapping[str, Any], binds: Sequence[tuple[dict[str, Any], list[int]]], seconds: float
    ) -> RunResult:
        """Send bindings and code, and wait for what comes of it; neither kept nor rolled back yet."""
        self._calling = True
        self._has_run = True
        try:
            if binds:
                self._leaf.wake()  # they may be more than a process takes that does not read
            for bind, fds in binds:
                self._give(bind, fds)
            self._tell(message)
            self._leaf.wake()
            self._call = self.zygote.ask("call", self.id)
            async with asyncio.timeout(seconds) as limit:
                frame = await self._report_or_death(limit)
        except TimeoutError:
            why = f"TimeoutError: the code ran longer than {seconds:g} s and was stopped"
            return await self._cut_short(Status.TIMEOUT, why)
        except GuestFaultError as fault:
            if await self._was_killed():
                return await self._cut_short(*self.end())
            return await self._cut_short(Status.REFUSED, f"the sandbox stopped the code: {fault}")
        if isinstance(frame, Death):
            status, why = how_it_died(frame, self.limits, self._memory)
            if status is Status.KILLED and frame.code == -signal.SIGKILL:
                await self._was_killed()  # nobody inside can send it, and the keeper may have been met, too
            return await self._cut_short(*(self.end() if self.ended and status is Status.KILLED else (status, why)))
        try:
            if frame.get("call") != message["call"]:
                raise GuestFaultError("a report of another call")
            checked = check_report(self._outbox, frame.get("length"), self.layout, self.limits)
            return await checked.read(self._outbox)
        except GuestFaultError as fault:
            return await self._cut_short(Status.REFUSED, f"the sandbox stopped the code: {fault}")
        except OSError:
            if self._outbox >= 0:
                raise
            return await self._cut_short(*self.end())  # it was closed before its report was read

    async def _report_or_death(self, limit: asyncio.Timeout) -> dict[str, Any] | Death:
        """Return the frame that reports the call, or how its process ended; the time of pictures does not count."""
        asked = 0
        while True:
            frame = await self._channel.receive_unless(self._died)
            if frame is None:
                return self._died.result()
            if frame.get("op") == "result":
                return frame
            key = frame.get("key")
            if frame.get("op") != "need" or not isinstance(key, str) or key not in self.lazy:
                raise GuestFaultError("an unexpected frame")
            asked += 1
            if asked > len(self.lazy) + MOST_REQUESTS:
                raise GuestFaultError("pictures were asked for far too often")
            await self._serve_image(key, limit)

    async def _serve_image(self, key: str, limit: asyncio.Timeout) -> None:
        clock = asyncio.get_running_loop().time
        left = (limit.when() or 0.0) - clock()
        limit.reschedule(None)
        try:
            self._give({"op": "image"}, [await self.images.get(self.lazy[key])])
        except MediaError as error:
            self._tell({"op": "image", "error": str(error)})
        limit.reschedule(clock() + left)

    async def _cut_short(self, status: Status, why: str) -> RunResult:
        """Return the result of a call that did not report: what it had printed until then, and why it ended."""
        if self._outbox < 0:
            return RunResult(status=Status.KILLED, traceback="the session was closed while the code ran")
        return await cut_short(self._outbox, self.layout, self.limits, status, why)

    async def commit(self) -> str | None:
        """Make the state after the call the session's; None, or why it may not be."""
        assert self._call is not None
        self._leaf.rest()  # it has stopped itself, if its program has not seen to it that it does not
        try:
            answer, _fds = await self._call
            if answer["why"] is not None:
                return str(answer["why"])
            if answer["maps"] is not None:
                self._tell({"op": "maps", "maps": answer["maps"]})
        except (OrderRefusedError, GuestFaultError) as error:
            return str(error)
        self.prepare(keep=True)
        return None

    def give_up(self) -> None:
        """Stop what the leaf does, if it does anything, and throw it away; the next `ready` does the rest.

        No task is begun: where the caller is cancelled because the loop ends, nobody would wait for it.
        """
        if self._calling and self._lives:
            self._calling = False
            self._leaf.forget()
            self._undoing = self.zygote.ask("rollback", self.id)

    def roll_back(self) -> None:
        """Throw the last call away and begin to get ready for the next one, unless the session is over."""
        if self._lives:
            self.prepare(rollback=True)

    @property
    def _lives(self) -> bool:
        return self.zygote.alive and not self.ended and self._outbox >= 0

    def prepare(self, *, rollback: bool = False, keep: bool = False) -> None:
        """Begin to get ready for the next call; first throw the last one away or make its state the session's."""
        self._calling = False
        # It is the keeper now, another session's, or dead: a rehearsal that ends late must not stop it.
        self._leaf.forget()
        self._wanted = asyncio.get_running_loop().create_future()
        self._get_ready(lambda: self._prepare(rollback, keep))

    async def _prepare(self, rollback: bool, keep: bool) -> None:
        await asyncio.sleep(0)  # whoever waits for the result comes first
        if rollback:
            undoing, self._undoing = self._undoing or self.zygote.ask("rollback", self.id), None
            await undoing
        async with self.gate.spare_time(self._wanted):
            self._channel.drain()
            self._ends.empty_outbox()
            self._died = asyncio.get_running_loop().create_future()
            await self._await_leaf(self.zygote.ask("leaf", self.id, keep=keep))

    async def _await_leaf(self, leaf: ZygoteAnswer) -> None:
        try:
            frame = await self._channel.receive_unless(leaf)
        finally:
            leaf.cancel()
        if leaf.cancelled():
            said = (frame or {}).get("error", (frame or {}).get("op"))
            raise GuestFaultError(f"the session said {str(said)[:500]!r} while it got ready")
        try:
            answer, [fd] = leaf.result()
        except OrderRefusedError as error:
            raise GuestFaultError(f"the session's new process is not there: {error}") from error
        self._leaf = Leaf(answer["pid"], fd)
        self.was_ready = True
        if self._has_run:  # a session that has not yet run anything keeps its memory small
            asyncio.get_running_loop().call_later(REHEARSE_SECONDS, self._rehearse, self._leaf)

    def _rehearse(self, leaf: Leaf) -> None:
        """Let `leaf` touch the memory that a call writes, so that the next one finds it copied, if nobody waits."""
        if len(self._links) <= REHEARSING_SESSIONS and self.gate.idle and self._is_idle(leaf):
            with contextlib.suppress(GuestFaultError):
                leaf.wake()
                self._tell({"op": "rehearse"})
            asyncio.get_running_loop().call_later(REST_SECONDS, self._end_rehearsal, leaf)

    def _end_rehearsal(self, leaf: Leaf) -> None:
        if self._is_idle(leaf):
            leaf.rest()

    def _is_idle(self, leaf: Leaf) -> bool:
        """Return whether `leaf` waits for the next call, and nobody waits for it."""
        prepared = self._prepared is not None and self._prepared.done()
        return leaf is self._leaf and prepared and not self._calling and not self.ended

    def _tell(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send to the present leaf; what a dead one has not read, the next one passes over."""
        self._channel.send({**message, "to": self._leaf.pid}, fds)

    def _give(self, message: Mapping[str, Any], memfds: Sequence[int]) -> None:
        """Send memory that other sessions are given, too: opened once more for each, so that they share no position."""
        own = [reopened(fd, os.O_RDONLY) for fd in memfds]
        try:
            self._tell(message, own)
        finally:
            for fd in own:
                os.close(fd)

    async def branch(self, link: Link) -> None:
        """Make this idle session's leaf the keeper of `link`, which is new. Raises `GuestFaultError` if it cannot be.

        The leaf alone is given what belongs to the branch: neither the origin nor another branch has seen it.
        """
        self._calling = True
        ends = link._ends
        try:
            answer, [workspace] = await self.zygote.ask("workspace", self.id, ends.joins)
        except OrderRefusedError as error:
            raise GuestFaultError(str(error)) from error
        try:
            self._leaf.wake()
            self._tell({"op": "branch"}, ends.guest_fds(workspace))
        finally:
            os.close(workspace)
        link.lazy = dict(self.lazy)
        link.was_ready = True
        await link._channel.expect("adopt", ANSWER_SECONDS, self._died)
        leaf = link.zygote.coming("leaf", link.id)
        order = {"branch": link.id, "path": answer["path"], **ends.inodes()}
        try:
            await self.zygote.ask("adopt", self.id, **order)
        except OrderRefusedError as error:
            raise GuestFaultError(f"the branch was refused: {error}") from error
        ends.sent()
        link._get_ready(lambda: link._await_leaf(leaf))

    async def close(self) -> None:
        """End the session's processes and give everything back; idempotent."""
        if self._outbox < 0:
            return
        outbox, self._outbox = self._outbox, -1
        if self._prepared is not None:
            self._prepared.cancel()
        try:
            if not self.ended:
                await self.zygote.ask("close", self.id)
        except (OrderRefusedError, SandboxLostError):
            pass
        finally:
            if not self._died.done():  # whoever waits for its report may not have seen the socket's end
                self._died.set_result(Death(0, 0.0))
            self._channel.close()
            self._ends.sent()
            self._leaf.forget()
            os.close(outbox)
            if self.cgroup is not None:
                self.cgroup.remove()
