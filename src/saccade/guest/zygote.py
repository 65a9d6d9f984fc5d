"""The zygote: forks sessions, and decides which process of a session lives and which may run.

It runs no code of a guest and reads nothing that a guest has written. Its orders come from the host over the control
socket (the methods `do_...`); it reports what the kernel reports: which process ended, and how.

Between calls every process of a session is stopped: the zygote stops it, kills everything else in its group, and
inspects what it holds before anything of it is kept. The host lets a leaf run when its call comes.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import groups, inspection, wire
from .fork import Forker, NextStep, Template, serve

if TYPE_CHECKING:
    from .nursery import Nursery, SessionEntry
    from .root import Standing

WORK_SECONDS = 3.0
"""Most CPU seconds that a session may use to get ready for a call. On a busy machine one was too few to remove the
files of a call that had made as many as it could."""

THREAD_END_SECONDS = 1.0
"""How long a thread may take to end after its program has joined it: it needs a processor, which others may have."""
RECHECK_SECONDS = 0.002
WATCH_SECONDS = 0.1
_REAP_PAUSE, _QUICK_REAP = 4, 0.0005
"""How many times longer than it took to ask for news of all children they are not asked again, unless it took no longer
than so many seconds: with thousands of them the kernel looks at each."""


class Zygote:
    """Serves the host's orders until the control socket closes; knows sessions by id and by process."""

    def __init__(self, control: socket.socket, nursery: Nursery, template: Template) -> None:
        self.control = control
        self.nursery = nursery
        self.template = template
        self.sessions: dict[int, SessionEntry] = {}
        self.by_pid: dict[int, SessionEntry] = {}
        self.waiting: list[Callable[[], bool]] = []
        """Steps that wait for processes to stop or end; each is tried until it returns True."""
        self.working: dict[int, tuple[SessionEntry, float]] = {}
        """Keeper of a session that gets ready for a call -> the session, and the keeper's CPU seconds at the start."""

    def begin_work(self, entry: SessionEntry, order: int = signal.SIGUSR1) -> None:
        """Let the keeper of `entry` run until it has forked a leaf."""
        entry.late = False
        self.nursery.number_anew()
        groups.resume(entry.keeper)
        os.kill(entry.keeper, order)
        self.working[entry.keeper] = (entry, groups.cpu_seconds(entry.keeper))

    def do_asleep(self, message: dict[str, Any], fds: list[int]) -> None:
        """Answer whether the processes of session `id` all sleep, although they should get ready for a call."""
        entry = self.sessions[message["id"]]
        # One that was not told to get ready stands still for a good reason.
        busy = entry.leaf is not None or entry.keeper not in self.working
        busy = busy or not all(map(groups.asleep, (entry.keeper, *self._unnamed().get(entry.keeper, ()))))
        self.tell({"op": "asleep", "id": entry.id, "asleep": not busy})

    def _unnamed(self) -> dict[int, list[int]]:
        """Keeper -> what it has forked and the host has not named as its leaf yet."""
        forked = defaultdict[int, list[int]](list)
        for pid in groups.children():
            if pid not in self.by_pid:
                forked[groups.group_of(pid)].append(pid)
        return forked

    def watch(self) -> None:
        """End sessions that use more time to get ready than their own runtime can need."""
        forked = self._unnamed()
        for keeper, (entry, used) in list(self.working.items()):
            seconds = groups.cpu_seconds(keeper) - used + sum(map(groups.cpu_seconds, forked.get(keeper, ())))
            if seconds > WORK_SECONDS:
                del self.working[keeper]
                self.fault(entry, f"it worked for more than {WORK_SECONDS:g} s after its call had ended")

    def try_again(self) -> None:
        """Try again every step that waits."""
        waiting, self.waiting = self.waiting, []
        self.waiting += [again for again in waiting if not again()]

    def tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one message to the host."""
        wire.send(self.control, message, fds)

    def refuse(self, session: int, order: str, why: str) -> None:
        """Answer an order that cannot be carried out."""
        self.tell({"op": "failed", "id": session, "of": order, "error": why})

    def wait(self, entry: SessionEntry, order: str, step: Callable[[], bool]) -> None:
        """Try `step` until it returns True; `order` fails if the session or the process of its call ends before."""
        leaf = entry.leaf

        def again() -> bool:
            if self.sessions.get(entry.id) is not entry:
                return True
            try:
                if entry.leaf is None or entry.leaf != leaf:
                    raise ValueError("the process of the call has ended")
                return step()
            except Exception as error:
                self.refuse(entry.id, order, f"{error}")
                return True

        if not again():
            self.waiting.append(again)

    def fault(self, entry: SessionEntry, why: str) -> None:
        """End a session whose own runtime misbehaves."""
        entry.fault = why
        self.end(entry)

    def end_former(self, entry: SessionEntry) -> None:
        """Kill the keeper before the last commit."""
        former, entry.former = entry.former, 0
        if former:
            groups.kill_group(former)

    def end(self, entry: SessionEntry) -> None:
        """Kill every process of a session."""
        self.end_former(entry)
        if entry.leaf is not None:
            groups.kill_group(entry.leaf)
        groups.kill_group(entry.keeper)

    def reap(self) -> bool:
        """Collect ended children and tell the host; False once the template has ended."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if os.WIFSTOPPED(status):
                groups.note_stop(pid)
                self.stopped_itself(pid)
                continue
            groups.forget(pid)
            if pid == self.template.pid:
                return False
            entry = self.by_pid.pop(pid, None)
            if entry is None:
                continue
            seconds = used.ru_utime + used.ru_stime
            if pid == entry.leaf:
                self.leaf_ended(entry, status, seconds)
            else:
                self.keeper_ended(entry, status, seconds)

    def leaf_ended(self, entry: SessionEntry, status: int, cpu_seconds: float) -> None:
        """Report that the process of a call ended, on our order or by itself."""
        leaf, entry.leaf = entry.leaf, None
        assert leaf is not None
        groups.kill_group(leaf)
        if entry.calling:
            entry.calling = False
            self.refuse(entry.id, "call", "the process of the call has ended")
        if entry.closing:
            return
        died = {"op": "died", "id": entry.id, "code": os.waitstatus_to_exitcode(status), "cpu": cpu_seconds}
        entry.dying = True

        def buried() -> bool:
            # What it had started must be dead, too, before anything is put back.
            if not groups.empty(leaf):
                return False
            if self.sessions.get(entry.id) is entry:
                self.tell({"op": "rollback", "id": entry.id} if entry.rolling else died)
                entry.dying = entry.rolling = False
            return True

        if not buried():
            self.waiting.append(buried)

    def keeper_ended(self, entry: SessionEntry, status: int, cpu_seconds: float) -> None:
        """Report that a session is over, since its keeper ended."""
        self.end(entry)
        self.working.pop(entry.keeper, None)
        self.by_pid.pop(entry.leaf or -1, None)
        entry.leaf = None
        del self.sessions[entry.id]
        with contextlib.suppress(OSError):  # what cannot be removed is removed with the sandbox
            self.nursery.release(entry)
        report = {"code": os.waitstatus_to_exitcode(status), "cpu": cpu_seconds, "fault": entry.fault}
        self.tell({"op": "close" if entry.closing else "ended", "id": entry.id, **report})

    def serve(self) -> None:
        """Handle orders and deaths, one after the other."""
        wake_read, wake_write = socket.socketpair()
        for end in (wake_read, wake_write):
            end.setblocking(False)
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self.control, selectors.EVENT_READ)
            selector.register(wake_read, selectors.EVENT_READ)
            watched = reaped = 0.0
            died = False
            while True:
                pause = RECHECK_SECONDS if self.waiting or died else WATCH_SECONDS if self.working else None
                ready = selector.select(pause)
                if self.working and time.monotonic() - watched > WATCH_SECONDS:
                    self.watch()
                    watched = time.monotonic()
                moved = not ready
                for key, _events in ready:
                    if key.fileobj is wake_read:
                        with contextlib.suppress(BlockingIOError):
                            wake_read.recv(4096)  # what is left of it wakes again
                        died = moved = True
                        continue
                    order = wire.receive(self.control)
                    if order is None:
                        return
                    self.obey(*order)
                if died and time.monotonic() >= reaped:
                    began = time.thread_time()
                    if not self.reap():
                        return
                    died = False
                    took = time.thread_time() - began
                    reaped = time.monotonic() + min(_REAP_PAUSE * took, WATCH_SECONDS / 10) * (took > _QUICK_REAP)
                if moved:
                    self.try_again()

    def obey(self, message: dict[str, Any], fds: list[int]) -> None:
        """Carry out one order; an order that makes no sense is answered with `failed`, never with a crash."""
        try:
            getattr(self, "do_" + message["op"])(message, fds)
        except Exception as error:
            self.refuse(message["id"], message["op"], f"{error}")
        finally:
            for fd in fds:
                os.close(fd)

    def do_open(self, message: dict[str, Any], fds: list[int]) -> None:
        """Open a new session; it reports on its own socket. `fds`: socket, outbox, stdout, stderr, cgroup files."""
        entry, workspace = self.nursery.new_entry(message["id"], fds)
        setup = wire.sealed_memfd("saccade-setup", self.nursery.setup(entry, message["config"]))
        self.nursery.number_anew()
        made = [workspace, setup, *self.nursery.stock(entry)]
        try:
            pid = self.template.fork([*fds[:4], *made])
        except OSError:
            self.nursery.release(entry)
            raise
        finally:
            for fd in made:
                os.close(fd)
        self.take_in(entry, pid, fds[4:])

    def take_in(self, entry: SessionEntry, pid: int, cgroups: list[int]) -> None:
        """Make `pid` the keeper of a new session, in a process group and control groups of its own, and let it fork."""
        os.setpgid(pid, pid)
        entry.keeper = pid
        self.sessions[entry.id] = entry
        self.by_pid[pid] = entry
        try:
            groups.join(pid, cgroups)
        except OSError:
            self.end(entry)
            raise
        self.begin_work(entry)

    def new_leaf(self, pid: int) -> None:
        """Register our stopped child `pid` as the leaf of the keeper in whose group it is, if that gets ready."""
        entry, _used = self.working.pop(groups.group_of(pid), (None, 0.0))
        if entry is None:
            return
        os.setpgid(pid, pid)
        entry.leaf, entry.calling, entry.inspected = pid, False, None
        self.by_pid[pid] = entry
        groups.stop(entry.keeper)
        self.wait(entry, "leaf", lambda: self.at_rest(entry, pid))

    def at_rest(self, entry: SessionEntry, leaf: int) -> bool:
        """Tell the host of the leaf once the session has stopped; False before."""
        if not (groups.stopped(entry.keeper) and groups.stopped(leaf)):
            return False
        if groups.purge(entry.keeper):
            self.fault(entry, f"{inspection.STRAY} beside the one that keeps the state")
            return True
        pidfd = os.pidfd_open(leaf)
        try:
            self.tell({"op": "leaf", "id": entry.id, "pid": leaf}, (pidfd,))
        finally:
            os.close(pidfd)
        return True

    def do_call(self, message: dict[str, Any], fds: list[int]) -> None:
        """Note that the leaf runs a call; answered when that has ended, with the reason why it cannot be kept."""
        entry = self.sessions[message["id"]]
        if entry.leaf is None:
            raise ValueError("the process of the call has ended")
        entry.calling = True
        if groups.stopped(entry.leaf):
            self.call_over(entry, entry.leaf)

    def stopped_itself(self, pid: int) -> None:
        """Handle a stop, perhaps without an order: every leaf stops itself before its call and at its end."""
        entry = self.by_pid.get(pid)
        if entry is None:
            self.new_leaf(pid)
            return
        if pid in self.working and not entry.late:
            # It was stopped by the host before it could do so by itself, and has only done it now.
            entry.late = True
            groups.resume(pid)
        elif pid == entry.leaf and entry.calling:
            self.call_over(entry, pid)

    def call_over(self, entry: SessionEntry, leaf: int) -> None:
        """Look at the leaf, while the host reads its report, and tell whether it can be kept."""
        entry.calling = False
        deadline = time.monotonic() + THREAD_END_SECONDS
        self.wait(entry, "call", lambda: self.look(entry, leaf, deadline))

    def look(self, entry: SessionEntry, leaf: int, deadline: float) -> bool:
        """Record in `entry.inspected` whether the leaf can be kept, and tell it; False if that takes longer."""
        if not groups.stopped(leaf):
            groups.stop(leaf)
            return False
        threads = groups.threads(leaf)
        if threads != 1 and time.monotonic() < deadline:
            # One that was joined may still be on its way out; stopped, it would never get there.
            groups.resume(leaf)
            return False
        try:
            entry.inspected = seen = self.judge(entry, leaf, threads)
        except OSError as error:
            raise ValueError(f"it ended while it was looked at: {error}") from error
        maps = seen.maps if seen.maps != entry.maps else None
        self.tell({"op": "call", "id": entry.id, "why": seen.why_not, "maps": maps})
        return True

    def judge(self, entry: SessionEntry, leaf: int, threads: int) -> inspection.Inspected:
        """Inspect the stopped process `leaf`; the finding holds for this stop only."""
        stop, maps = groups.stands_since(leaf), list[inspection.Map]()
        why = inspection.left_running(leaf, threads)
        if why is None and self.nursery.sees:
            maps = inspection.shared_maps(leaf)
            if len(maps) <= inspection.MOST_MAPS and self.nursery.places.holds_any(entry.workspace):
                maps += inspection.private_maps(leaf, entry.own, entry.known)
            why = inspection.improper(leaf, entry.own, maps)
        return inspection.Inspected(leaf, stop, why, inspection.in_workspace(maps, entry.own))

    def commit(self, entry: SessionEntry) -> bool:
        """Make the stopped leaf, which can be kept, the keeper of its session; False if the session is over."""
        leaf, seen = entry.leaf, entry.inspected
        if leaf is None or groups.was_killed(leaf):
            self.end(entry)
            return False
        stop = groups.stands_since(leaf)
        if seen is None or seen.pid != leaf or seen.why_not is not None or not 0 < seen.stop == stop:
            self.fault(entry, "it worked on after its call had ended")
            return False
        entry.maps = [each for each in seen.maps if each.shared]
        entry.former, entry.keeper, entry.leaf = entry.keeper, leaf, None
        self.by_pid.pop(entry.former, None)
        return True

    def do_rollback(self, message: dict[str, Any], fds: list[int]) -> None:
        """Kill the leaf with all it started; answered when all of it is dead."""
        entry = self.sessions[message["id"]]
        if entry.leaf is None and not entry.dying:
            self.tell({"op": "rollback", "id": entry.id})
            return
        entry.rolling = True
        if entry.leaf is not None:
            groups.kill_group(entry.leaf)

    def do_leaf(self, message: dict[str, Any], fds: list[int]) -> None:
        """Have the keeper fork a leaf; with `keep` make the leaf the keeper first, and end the keeper before it.

        Answered, as opening and adopting a session are, with the leaf's pidfd once everything stands still.
        """
        entry = self.sessions[message["id"]]
        # What it has mapped the host has told it.
        learns = message["keep"] and entry.inspected is not None and entry.inspected.maps != entry.maps
        if message["keep"] and not self.commit(entry):
            return
        self.begin_work(entry, signal.SIGUSR2 if learns else signal.SIGUSR1)
        self.end_former(entry)

    def do_workspace(self, message: dict[str, Any], fds: list[int]) -> None:
        """Make a workspace for a branch, in the family of session `id`; answered with its descriptor.

        `fds` are the branch's cgroup files: memory that the leaf writes to from now on is counted there.
        """
        entry = self.sessions[message["id"]]
        if entry.leaf is None:
            raise ValueError("the process of the branch has ended")
        groups.join(entry.leaf, fds)
        fd, path = self.nursery.new_workspace(entry)
        try:
            self.tell({"op": "workspace", "id": entry.id, "path": path}, (fd,))
        finally:
            os.close(fd)

    def do_adopt(self, message: dict[str, Any], fds: list[int]) -> None:
        """Make the leaf of session `id` the keeper of the new session `branch`, if it shares nothing with others."""
        parent = self.sessions[message["id"]]
        leaf = parent.leaf
        if leaf is None:
            raise ValueError("the process of the branch has ended")
        entry = self.nursery.branch_entry(message, parent)
        groups.stop(leaf)

        def step() -> bool:
            if not groups.stopped(leaf):
                return False
            self.adopt(entry, parent, leaf)
            return True

        self.wait(parent, "adopt", step)

    def adopt(self, entry: SessionEntry, parent: SessionEntry, leaf: int) -> None:
        """Accept or refuse the stopped process of a branch."""
        why = inspection.left_running(leaf, groups.threads(leaf))
        if why is None and self.nursery.sees:
            why = inspection.improper_branch(leaf, entry.own, parent.keeper)
        if why is not None:
            groups.kill_group(leaf)
            self.nursery.release(entry)
            self.refuse(parent.id, "adopt", why)
            return
        parent.leaf, entry.maps, entry.known = None, parent.maps, parent.known
        # The branch has seen where its origin's files lie.
        self.nursery.move_workspace(parent)
        self.take_in(entry, leaf, [])
        self.tell({"op": "adopt", "id": parent.id})

    def do_close(self, message: dict[str, Any], fds: list[int]) -> None:
        """End session `id`; answered when its keeper is dead."""
        entry = self.sessions.get(message["id"])
        if entry is None:
            self.tell({"op": "close", "id": message["id"]})
            return
        entry.closing = True
        self.end(entry)


def zygote(control: socket.socket, settings: dict[str, Any], standing: Standing) -> NextStep:
    """Become the zygote and serve until the host is gone. Returns in the template, with what that does next."""
    from .nursery import prepare

    os.setpgid(0, 0)
    forker = Forker()
    nursery, hello, become = prepare(settings, standing, forker)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = forker.fork()
    if pid == 0:
        control.close()
        ours.close()
        # A mount lives as long as a descriptor of it.
        os.closerange(3, theirs.fileno())
        os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        return lambda: serve(theirs, forker, become)
    theirs.close()
    server = Zygote(control, nursery, Template(pid, ours))
    server.tell({"op": "hello", **hello})
    server.serve()
    os._exit(0)
