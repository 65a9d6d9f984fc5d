"""The zygote's books: which processes belong to which session, what waits for one of them, and what its end means."""

from __future__ import annotations

import os
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import groups, wire
from .session_entry import SessionEntry
from .template import Template

if TYPE_CHECKING:
    from .nursery import Nursery

WORK_SECONDS = 3.0
"""Most CPU seconds that a session may use to get ready for a call. On a busy machine one was too few to remove the
files of a call that had made as many as it could."""


class SessionBooks(ABC):
    """Sessions by id and by process; tells the host what becomes of them."""

    def __init__(self, control: socket.socket, nursery: Nursery, template: Template) -> None:
        self.control = control
        self.nursery = nursery
        self.template = template
        self.sessions: dict[int, SessionEntry] = {}
        self.by_pid: dict[int, SessionEntry] = {}
        self.waiting: list[Callable[[], bool]] = []
        """What waits for processes to stop or end: each is tried until it returns True."""
        self.working: dict[int, tuple[SessionEntry, float]] = {}
        """Keeper of a session that gets ready for a call -> the session, and the keeper's CPU seconds at the start."""

    def begin_work(self, entry: SessionEntry) -> None:
        """The keeper of `entry` may run until it has forked a leaf."""
        entry.late = False
        groups.resume(entry.keeper)
        os.kill(entry.keeper, signal.SIGUSR1)
        self.working[entry.keeper] = (entry, groups.cpu_seconds(entry.keeper))

    def do_asleep(self, message: dict[str, Any], fds: list[int]) -> None:
        """Whether the processes of session `id` that should get ready for a call all sleep instead."""
        entry = self.sessions[message["id"]]
        # One that was not told to get ready stands still for a good reason.
        busy = entry.leaf is not None or entry.keeper not in self.working
        busy = busy or not all(map(groups.asleep, (entry.keeper, *self._unnamed(entry.keeper))))
        self.tell({"op": "asleep", "id": entry.id, "asleep": not busy})

    def _unnamed(self, keeper: int) -> list[int]:
        """What a keeper has forked and the host has not named as its leaf yet."""
        return [pid for pid in groups.children() if pid != keeper and groups.group_of(pid) == keeper]

    def watch(self) -> None:
        """End sessions that use more time to get ready than their own runtime can need."""
        for keeper, (entry, used) in list(self.working.items()):
            forked = sum(map(groups.cpu_seconds, self._unnamed(keeper)))
            if groups.cpu_seconds(keeper) - used + forked > WORK_SECONDS:
                del self.working[keeper]
                self.fault(entry, f"it worked for more than {WORK_SECONDS:g} s after its call had ended")

    def try_again(self) -> None:
        """Go through what waits."""
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
        """Kill what was the keeper before the last commit."""
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
        """Collect ended children and say what it means for their sessions; False once the template has ended."""
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

    @abstractmethod
    def stopped_itself(self, pid: int) -> None:
        """A process stands still, perhaps without an order."""

    def leaf_ended(self, entry: SessionEntry, status: int, cpu_seconds: float) -> None:
        """The process of a call ended, having used `cpu_seconds`: on our order, or by itself."""
        leaf, entry.leaf = entry.leaf, None
        assert leaf is not None
        groups.kill_group(leaf)
        if entry.calling:
            entry.calling = False
            self.refuse(entry.id, "call", "the process of the call has ended")
        if entry.closing:
            return
        report = {"op": "died", "id": entry.id, "code": os.waitstatus_to_exitcode(status), "cpu": cpu_seconds}
        if entry.rolling:
            entry.rolling = False
            report = {"op": "rollback", "id": entry.id}

        def buried() -> bool:
            # What it had started must be dead, too, before anything is put back.
            if not groups.empty(leaf):
                return False
            if self.sessions.get(entry.id) is entry:
                self.tell(report)
            return True

        if not buried():
            self.waiting.append(buried)

    def keeper_ended(self, entry: SessionEntry, status: int, cpu_seconds: float) -> None:
        """A keeper ended: the session is over, whether we wanted it or not."""
        self.end(entry)
        self.working.pop(entry.keeper, None)
        self.by_pid.pop(entry.leaf or -1, None)
        entry.leaf = None
        del self.sessions[entry.id]
        self.nursery.release(entry)
        report = {"code": os.waitstatus_to_exitcode(status), "cpu": cpu_seconds, "fault": entry.fault}
        self.tell({"op": "close" if entry.closing else "ended", "id": entry.id, **report})
