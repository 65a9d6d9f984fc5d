"""The zygote: forks sessions, and alone decides which process of a session lives, and which may run.

It runs no code of a guest and reads nothing that a guest has written. Its orders come from the host over the control
socket; it reports what the kernel reports (which process ended, and how).

Between calls every process of a session is stopped: the zygote stops it, kills what stands beside it in its group, and
looks at what it holds before anything of it is kept. The host lets a leaf run when its call comes.

Orders: `open`, `leaf`, `inspect`, `commit`, `rollback`, `respawn`, `workspace`, `adopt`, `asleep`, `close`: see the
methods `do_...`.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

from . import groups, inspection, wire
from .fork import Forker
from .registry import SessionBooks
from .seat import Inspected, Seat
from .template import NextStep, Template, serve

if TYPE_CHECKING:
    from .namespaces import Standing


SETTLE_SECONDS = 0.1
"""How long a thread may take to end after its program has joined it."""
RECHECK_SECONDS = 0.002
WATCH_SECONDS = 0.1


class Zygote(SessionBooks):
    """Serves the host's orders until the control socket closes."""

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
            while True:
                patience = RECHECK_SECONDS if self.waiting else WATCH_SECONDS if self.working else None
                ready = selector.select(patience)
                if not ready and self.working:
                    self.watch()
                for key, _events in ready:
                    if key.fileobj is wake_read:
                        _drain(wake_read)
                        if not self.reap():
                            return
                        continue
                    order = wire.receive(self.control)
                    if order is None:
                        return
                    self.obey(*order)
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
        """A new session; it reports on its own socket. `fds`: socket, outbox, stdout, stderr, cgroup files."""
        seat, workspace = self.nursery.new_seat(message["id"], fds)
        setup = wire.sealed_memfd("saccade-setup", self.nursery.setup(seat, message["config"]))
        try:
            pid = self.template.fork([*fds[:4], workspace, setup])
        except OSError:
            self.nursery.release(seat)
            raise
        finally:
            os.close(workspace)
            os.close(setup)
        self.take_in(seat, pid, fds[4:])

    def take_in(self, seat: Seat, pid: int, cgroups: list[int]) -> None:
        """Make `pid` the keeper of a new session, in a process group and control groups of its own, and let it fork."""
        os.setpgid(pid, pid)
        seat.keeper = pid
        self.seats[seat.id] = seat
        self.by_pid[pid] = seat
        try:
            groups.join(pid, cgroups)
        except OSError:
            self.end(seat)
            raise
        self.begin_work(seat)

    def do_leaf(self, message: dict[str, Any], fds: list[int]) -> None:
        """The host says which process is the leaf now: it must be our child and of the keeper's group.

        Answered when keeper and leaf have stopped and nobody else is in the keeper's group; a pidfd of the leaf comes
        with the answer.
        """
        seat, pid = self.seats[message["id"]], message["pid"]
        if pid == seat.keeper or os.getpgid(pid) != seat.keeper or not groups.is_child(pid):
            raise ValueError("no such leaf")
        os.setpgid(pid, pid)
        seat.leaf, seat.inspected = pid, None
        self.by_pid[pid] = seat
        self.working.pop(seat.keeper, None)
        groups.stop(seat.keeper)
        groups.stop(pid)
        self.wait(seat, "leaf", lambda: self.at_rest(seat, pid))

    def at_rest(self, seat: Seat, leaf: int) -> bool:
        """Whether the session stands still; then the host hears of its leaf."""
        if not (groups.stopped(seat.keeper) and groups.stopped(leaf)):
            return False
        if groups.purge(seat.keeper):
            self.fault(seat, f"{inspection.STRAY} beside the one that keeps the state")
            return True
        # The files behind its mappings may have been removed by the call before, and be others now.
        maps = inspection.moved_maps(leaf, seat.own, seat.maps)
        pidfd = os.pidfd_open(leaf)
        try:
            self.tell({"op": "leaf", "id": seat.id, "maps": maps}, (pidfd,))
        finally:
            os.close(pidfd)
        return True

    def do_inspect(self, message: dict[str, Any], fds: list[int]) -> None:
        """Look at the leaf, which has reported, while the host reads its report: a `commit` may follow. No answer."""
        seat = self.seats.get(message["id"])
        if seat is not None and seat.leaf is not None:
            self.look(seat, seat.leaf)

    def look(self, seat: Seat, leaf: int) -> None:
        """Stop the leaf and take down whether it can be kept, in `seat.inspected`."""
        deadline = time.monotonic() + SETTLE_SECONDS

        def step() -> bool:
            if seat.leaf != leaf:
                return True
            if not groups.stopped(leaf):
                groups.stop(leaf)
                return False
            if groups.threads(leaf) != 1 and time.monotonic() < deadline:
                # One that was joined may still be on its way out; stopped, it would never get there.
                groups.resume(leaf)
                return False
            try:
                seat.inspected = self.judge(seat, leaf)
            except OSError as error:
                seat.inspected = Inspected(leaf, f"it ended while it was looked at: {error}", [])
            return True

        if not step():
            self.waiting.append(step)

    def judge(self, seat: Seat, leaf: int) -> Inspected:
        """What is to be said of the stopped process `leaf` of a session."""
        why, shared = inspection.left_running(leaf), list[inspection.Map]()
        if why is None and self.nursery.sees:
            shared = inspection.shared_maps(leaf)
            why = inspection.improper(leaf, seat.own, shared)
        return Inspected(leaf, why, shared)

    def do_commit(self, message: dict[str, Any], fds: list[int]) -> None:
        """The leaf, which is looked at, becomes the keeper; refused if it has a thread or holds what cannot be kept."""
        seat = self.seats[message["id"]]
        leaf = seat.leaf
        if leaf is None:
            raise ValueError("the process of the call has ended")
        self.wait(seat, "commit", lambda: self.commit(seat, leaf))

    def commit(self, seat: Seat, leaf: int) -> bool:
        """Make the stopped `leaf` the keeper of its session, or refuse it; False before it was looked at."""
        seen = seat.inspected
        if seen is None or seen.pid != leaf:
            return False
        if seen.why_not is not None:
            self.refuse(seat.id, "commit", seen.why_not)
            return True
        seat.maps = inspection.kept_maps(seen.shared, seat.own)
        seat.former, seat.keeper, seat.leaf = seat.keeper, leaf, None
        self.by_pid.pop(seat.former, None)
        self.tell({"op": "commit", "id": seat.id})
        return True

    def do_rollback(self, message: dict[str, Any], fds: list[int]) -> None:
        """Kill the leaf with all it started; answered when all of it is dead."""
        seat = self.seats[message["id"]]
        if seat.leaf is None:
            self.tell({"op": "rollback", "id": seat.id})
            return
        seat.rolling = True
        groups.kill_group(seat.leaf)

    def do_respawn(self, message: dict[str, Any], fds: list[int]) -> None:
        """Tell the keeper to fork a leaf, and end the keeper before it."""
        seat = self.seats[message["id"]]
        self.begin_work(seat)
        self.end_former(seat)

    def do_workspace(self, message: dict[str, Any], fds: list[int]) -> None:
        """A workspace for a branch, in the family of session `id`; its descriptor goes with the answer.

        So do the leaf's mappings of files of its workspace, which the branch must map again in its own. `fds` are the
        branch's cgroup files: what the leaf writes to from now on is to be counted there.
        """
        seat = self.seats[message["id"]]
        if seat.leaf is None:
            raise ValueError("the process of the branch has ended")
        groups.join(seat.leaf, fds)
        maps = inspection.workspace_maps(seat.leaf, seat.workspace) if self.nursery.sees else []
        named = {kept.start: kept.path for kept in seat.maps}
        maps = [found._replace(path=named.get(found.start, found.path)) for found in maps]
        fd, path = self.nursery.new_workspace(seat)
        try:
            self.tell({"op": "workspace", "id": seat.id, "path": path, "maps": maps}, (fd,))
        finally:
            os.close(fd)

    def do_adopt(self, message: dict[str, Any], fds: list[int]) -> None:
        """The leaf of session `id` is the keeper of the new session `branch` from now on, if it holds nothing else.

        `path` is its workspace, `socket` and `memory` are inode numbers of what the host has given it.
        """
        parent = self.seats[message["id"]]
        leaf = parent.leaf
        if leaf is None:
            raise ValueError("the process of the branch has ended")
        seat = self.nursery.branch_seat(message, parent)
        groups.stop(leaf)

        def step() -> bool:
            if not groups.stopped(leaf):
                return False
            self.adopt(seat, parent, leaf)
            return True

        self.wait(parent, "adopt", step)

    def adopt(self, seat: Seat, parent: Seat, leaf: int) -> None:
        """Take the stopped process of a branch in, or refuse it."""
        why = inspection.left_running(leaf)
        if why is None and self.nursery.sees:
            why = inspection.improper_branch(leaf, seat.own, parent.keeper)
        if why is not None:
            groups.kill_group(leaf)
            self.nursery.release(seat)
            self.refuse(parent.id, "adopt", why)
            return
        parent.leaf, seat.maps = None, parent.maps
        # The branch has seen where its origin's files lie.
        self.nursery.move_workspace(parent)
        self.take_in(seat, leaf, [])
        self.tell({"op": "adopt", "id": parent.id})

    def do_close(self, message: dict[str, Any], fds: list[int]) -> None:
        """End session `id`; answered when its keeper is dead."""
        seat = self.seats.get(message["id"])
        if seat is None:
            self.tell({"op": "close", "id": message["id"]})
            return
        seat.closing = True
        self.end(seat)


def _drain(sock: socket.socket) -> None:
    try:
        while sock.recv(4096):
            pass
    except BlockingIOError:
        pass


def zygote(control: socket.socket, settings: dict[str, Any], standing: Standing) -> NextStep:
    """Become the zygote: import, build the private root, report, and serve until the host is gone.

    Returns in the template, with what that does next.
    """
    from .nursery import prepare

    os.setpgid(0, 0)
    forker = Forker()
    nursery, hello, become = prepare(settings, standing, forker)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = forker.fork()
    if pid == 0:
        control.close()
        ours.close()
        return lambda: serve(theirs, forker, become)
    theirs.close()
    server = Zygote(control, nursery, Template(pid, ours))
    server.tell({"op": "hello", **hello})
    server.serve()
    os._exit(0)
