"""The zygote: imports once, forks sessions, and alone decides which process of a session lives.

It runs no code of a guest and reads nothing that a guest has written. Its orders come from the host over the control
socket; it reports what the kernel reports (which process ended, and how).

Orders: `open`, `leaf`, `commit`, `rollback`, `respawn`, `workspace`, `adopt`, `close`. See the methods of `Zygote`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

from . import wire
from .fork import Forker
from .nursery import Seat

if TYPE_CHECKING:
    from .namespaces import Standing
    from .nursery import Nursery


SETTLE_SECONDS = 0.1
"""How long a thread may take to end after its program has joined it."""
RECHECK_SECONDS = 0.002


class Zygote:
    """Serves the host's orders until the control socket closes."""

    def __init__(self, control: socket.socket, nursery: Nursery, forker: Forker) -> None:
        self.control = control
        self.nursery = nursery
        self.forker = forker
        self.seats: dict[int, Seat] = {}
        self.by_pid: dict[int, Seat] = {}
        self.settling: list[tuple[Seat, float]] = []
        """Sessions to be committed once the threads of their leaf have ended, with the time until which to wait."""

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
                for key, _events in selector.select(RECHECK_SECONDS if self.settling else None):
                    if key.fileobj is wake_read:
                        _drain(wake_read)
                        self.reap()
                        continue
                    order = wire.receive(self.control)
                    if order is None:
                        return
                    self.obey(*order)
                self.settle()

    def obey(self, message: dict[str, Any], fds: list[int]) -> None:
        """Carry out one order; an order that makes no sense is answered with `failed`, never with a crash."""
        try:
            getattr(self, "do_" + message["op"])(message, fds)
        except Exception as error:
            self.tell({"op": "failed", "id": message.get("id"), "of": message["op"], "error": f"{error}"})
        finally:
            for fd in fds:
                os.close(fd)

    def tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one message to the host."""
        wire.send(self.control, message, fds)

    def do_open(self, message: dict[str, Any], fds: list[int]) -> None:
        """A new session; it reports on its own socket. `fds`: socket, outbox, stdout, stderr, cgroup files."""
        seat, workspace = self.nursery.new_seat(message["id"])
        try:
            pid = self.forker.fork()
            if pid == 0:
                self.nursery.become_session(message, fds, workspace, seat)
            _set_group(pid, pid)
        finally:
            os.close(workspace)
        seat.keeper = pid
        self.seats[seat.id] = seat
        self.by_pid[pid] = seat

    def do_leaf(self, message: dict[str, Any], fds: list[int]) -> None:
        """The host says which process is the leaf now: it must be our child and of the keeper's group."""
        seat, pid = self.seats[message["id"]], message["pid"]
        if pid == seat.keeper or os.getpgid(pid) != seat.keeper or not _is_child(pid):
            raise ValueError("no such leaf")
        _set_group(pid, pid)
        seat.leaf = pid
        self.by_pid[pid] = seat
        self.tell({"op": "leaf", "id": seat.id})

    def do_commit(self, message: dict[str, Any], fds: list[int]) -> None:
        """The leaf becomes the keeper; refused if it has a thread besides."""
        seat = self.seats[message["id"]]
        if seat.leaf is None:
            raise ValueError("the process of the call has ended")
        if _threads(seat.leaf) == 1:
            self.commit(seat, seat.leaf)
        else:
            # A thread that was joined may still be on its way out.
            self.settling.append((seat, time.monotonic() + SETTLE_SECONDS))

    def settle(self) -> None:
        """Look again at the sessions whose leaf had threads when they were to be committed."""
        waiting, self.settling = self.settling, []
        for seat, deadline in waiting:
            if seat.leaf is None or self.seats.get(seat.id) is not seat:
                self.refuse(seat, "the process of the call has ended")
            elif _threads(seat.leaf) == 1:
                self.commit(seat, seat.leaf)
            elif time.monotonic() > deadline:
                self.refuse(seat, "a thread is still running")
            else:
                self.settling.append((seat, deadline))

    def refuse(self, seat: Seat, why: str) -> None:
        """Answer a commit that cannot be."""
        self.tell({"op": "failed", "id": seat.id, "of": "commit", "error": why})

    def commit(self, seat: Seat, leaf: int) -> None:
        """Make `leaf` the keeper of its session."""
        seat.former, seat.keeper, seat.leaf = seat.keeper, leaf, None
        self.by_pid.pop(seat.former, None)
        self.tell({"op": "commit", "id": seat.id})

    def do_rollback(self, message: dict[str, Any], fds: list[int]) -> None:
        """Kill the leaf with all it started; answered when it is dead."""
        seat = self.seats[message["id"]]
        if seat.leaf is None:
            self.tell({"op": "rollback", "id": seat.id})
            return
        seat.rolling = True
        _kill_group(seat.leaf)

    def do_respawn(self, message: dict[str, Any], fds: list[int]) -> None:
        """Tell the keeper to fork a leaf, and end the keeper before it."""
        seat = self.seats[message["id"]]
        os.kill(seat.keeper, signal.SIGUSR1)
        self.end_former(seat)

    def do_workspace(self, message: dict[str, Any], fds: list[int]) -> None:
        """A workspace for a branch, in the family of session `id`; its descriptor goes with the answer."""
        seat = self.seats[message["id"]]
        fd, path = self.nursery.new_workspace(seat)
        try:
            self.tell({"op": "workspace", "id": seat.id, "path": path}, (fd,))
        finally:
            os.close(fd)

    def do_adopt(self, message: dict[str, Any], fds: list[int]) -> None:
        """Process `pid`, forked from the leaf of session `parent`, is the keeper of the new session `id`."""
        parent, pid = self.seats[message["parent"]], message["pid"]
        if parent.leaf is None or pid == parent.leaf or os.getpgid(pid) != parent.leaf or not _is_child(pid):
            raise ValueError("no such branch")
        _set_group(pid, pid)
        seat = self.nursery.branch_seat(message["id"], parent, message["path"])
        seat.keeper = pid
        self.seats[seat.id] = seat
        self.by_pid[pid] = seat
        os.kill(pid, signal.SIGUSR1)
        self.tell({"op": "adopt", "id": seat.id})

    def do_close(self, message: dict[str, Any], fds: list[int]) -> None:
        """End session `id`; answered when its keeper is dead."""
        seat = self.seats.get(message["id"])
        if seat is None:
            self.tell({"op": "close", "id": message["id"]})
            return
        seat.closing = True
        self.end(seat)

    def end_former(self, seat: Seat) -> None:
        """Kill what was the keeper before the last commit."""
        former, seat.former = seat.former, 0
        if former:
            _kill_group(former)

    def end(self, seat: Seat) -> None:
        """Kill every process of a session."""
        self.end_former(seat)
        if seat.leaf is not None:
            _kill_group(seat.leaf)
        _kill_group(seat.keeper)

    def reap(self) -> None:
        """Collect ended children and say what it means for their sessions."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            seat = self.by_pid.pop(pid, None)
            if seat is None:
                continue
            if pid == seat.leaf:
                self.leaf_ended(seat, status, used.ru_utime + used.ru_stime)
            else:
                self.keeper_ended(seat)

    def leaf_ended(self, seat: Seat, status: int, cpu_seconds: float) -> None:
        """The process of a call ended, having used `cpu_seconds`: on our order, or by itself."""
        leaf, seat.leaf = seat.leaf, None
        if leaf is not None:
            _kill_group(leaf)
        if seat.rolling:
            seat.rolling = False
            self.tell({"op": "rollback", "id": seat.id})
        elif not seat.closing:
            self.tell({"op": "died", "id": seat.id, "code": os.waitstatus_to_exitcode(status), "cpu": cpu_seconds})

    def keeper_ended(self, seat: Seat) -> None:
        """A keeper ended: the session is over, whether we wanted it or not."""
        self.end(seat)
        self.by_pid.pop(seat.leaf or -1, None)
        seat.leaf = None
        del self.seats[seat.id]
        self.nursery.release(seat)
        self.tell({"op": "close" if seat.closing else "ended", "id": seat.id})


def _drain(sock: socket.socket) -> None:
    try:
        while sock.recv(4096):
            pass
    except BlockingIOError:
        pass


def _set_group(pid: int, group: int) -> None:
    os.setpgid(pid, group)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _threads(pid: int) -> int:
    """Number of threads of one of our children; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[17])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def zygote(control: socket.socket, settings: dict[str, Any], standing: Standing) -> None:
    """Become the zygote: import, build the private root, report, and serve until the host is gone."""
    from .nursery import prepare

    forker = Forker()
    nursery, hello = prepare(settings, standing, forker)
    server = Zygote(control, nursery, forker)
    server.tell({"op": "hello", **hello})
    server.serve()
