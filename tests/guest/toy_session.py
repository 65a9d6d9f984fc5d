"""A zygote with its template in processes of their own, and sessions that do as they are told and run no cells."""

from __future__ import annotations

import functools
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.guest.children import fork, unmap_what_is_shared

from saccade.guest import privileges, wire
from saccade.guest.fork import CLONE_PARENT, Forker, Template, serve
from saccade.guest.jail import JailPlan
from saccade.guest.nursery import Nursery
from saccade.guest.root import Standing
from saccade.guest.workspaces import PlainWorkspaces
from saccade.guest.zygote import Zygote

LIMITS = {
    **{"output_bytes": 1, "pictures": 2, "picture_pixels": 3, "total_pixels": 4, "file_bytes": 5},
    **{"workspace_bytes": 6, "workspace_files": 7},
}
CONFIG = {"repairs": [], "path_aliases": {}, "preload": ["np"], "last_expression": True}
PATIENCE = 30


class Host:
    """The host's end: orders and answers, and what sessions say."""

    def __init__(self, control: socket.socket, folder: Path) -> None:
        self.control = control
        self.folder = folder
        self.said, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for sock in (control, self.said):
            sock.settimeout(PATIENCE)
        self.given = [theirs.fileno(), *(os.memfd_create(name) for name in ("outbox", "stdout", "stderr"))]
        self._theirs = theirs
        self.fds: list[int] = []
        """Descriptors of the last answer."""

    def ask(self, op: str, session: int = 1, fds: Sequence[int] = (), **more: Any) -> dict[str, Any]:
        """Give an order and wait for what comes next."""
        self.order(op, session, fds, **more)
        return self.hear()

    def order(self, op: str, session: int = 1, fds: Sequence[int] = (), **more: Any) -> None:
        wire.send(self.control, {"op": op, "id": session, **more}, fds)

    def hear(self) -> dict[str, Any]:
        received = wire.receive(self.control)
        assert received is not None, "the zygote is gone"
        for fd in self.fds:
            os.close(fd)
        message, self.fds = received
        return message

    def end(self) -> dict[str, Any]:
        """What is said of the session's end; its leaf may be told before."""
        while (said := self.hear())["op"] == "died":
            pass
        return said

    def close(self) -> None:
        for fd in (*self.given[1:], *self.fds):
            os.close(fd)
        for sock in (self.control, self.said, self._theirs):
            sock.close()

    def leaf(self) -> tuple[int, int]:
        """Process id of the leaf that comes up, and how many calls it has kept."""
        pid, kept = self.said.recv(99).split()
        return int(pid), int(kept)

    def begin(self, session: int = 1, cgroups: Sequence[int] = ()) -> int:
        """A new session; the process id of its leaf, which has not stopped yet."""
        self.order("open", session, [*self.given, *cgroups], config=CONFIG)
        return self.leaf()[0]

    def open(self, session: int = 1, cgroups: Sequence[int] = ()) -> int:
        """A new session that is ready for a call; the process id of its leaf."""
        pid = self.begin(session, cgroups)
        answer = self.stand(session)
        assert answer["pid"] == pid
        return pid

    def stand(self, session: int = 1) -> dict[str, Any]:
        """Let the leaf that has come up stop; what the zygote says of it."""
        self.say("stand")
        answer = self.hear()
        assert (answer["op"], answer["id"]) == ("leaf", session)
        return answer

    def say(self, *words: str) -> None:
        """Tell the leaf what to do."""
        for word in words:
            self.said.send(word.encode())

    def let(self, pid: int, *words: str) -> None:
        """Let the leaf run, and do this."""
        self.say(*words)
        os.kill(pid, signal.SIGCONT)

    def branch(self, pid: int, *words: str) -> None:
        """Let the leaf do this and become a branch."""
        self.let(pid, *words, "be a branch")
        assert self.said.recv(99) == b"be a branch"

    def call(self, pid: int, *words: str) -> dict[str, Any]:
        """Let the leaf do this in a call; what the zygote says at its end."""
        self.let(pid)
        self.order("call")
        assert self.ask("asleep")["op"] == "asleep"  # so it has heard of the call
        self.say(*words)  # it runs already: if it were continued now, it might have stopped itself before
        return self.hear()


@contextmanager
def playing(folder: Path, **constants: float) -> Iterator[Host]:
    """A zygote whose `constants` (of `saccade.guest.zygote` and `zygote`) are others, to be asked from here."""
    host, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = fork()
    if pid == 0:
        host.close()
        _be_zygote(control, folder, constants)
    control.close()
    opened = Host(host, folder)
    try:
        yield opened
    finally:
        opened.close()
        ended = os.waitpid(pid, 0)[1]
    assert ended == 0, "the zygote ends when the host is gone"


def _be_zygote(control: socket.socket, folder: Path, constants: dict[str, float]) -> None:
    from saccade.guest import zygote
    from saccade.guest import zygote as registry

    try:
        for name, value in constants.items():
            setattr(registry if hasattr(registry, name) else zygote, name, value)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        forker = Forker()
        pid = forker.fork()
        if pid == 0:
            control.close()
            ours.close()
            serve(theirs, forker, lambda fds: functools.partial(_be_keeper, forker, fds))()
        theirs.close()
        plan = JailPlan("none", {}, (), b"")
        nursery = Nursery(plan, Standing((), 0, 0, {}), LIMITS, PlainWorkspaces(str(folder)), sees=True)
        with suppress(BrokenPipeError, ConnectionResetError):  # the test is over, and one of both had more to say
            Zygote(control, nursery, Template(pid, ours)).serve()
        os._exit(0)
    finally:
        os._exit(1)


def _be_keeper(forker: Forker, fds: list[int]) -> None:
    zygote = os.getppid()
    privileges.die_with_parent(zygote)
    sock = socket.socket(fileno=fds[0])
    unmap_what_is_shared()
    _open_null()
    for fd in set(range(3, 300)) - {fds[0]}:
        with suppress(OSError):
            os.close(fd)
    kept = 0
    while True:
        signal.sigwait({signal.SIGUSR1})
        if forker.fork(CLONE_PARENT) == 0:
            privileges.die_with_parent(zygote)
            kept = _be_leaf(sock, kept)


def _open_null() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.close(null)


def _be_leaf(sock: socket.socket, kept: int) -> int:
    """Do as the host says; returns as the keeper that this process may become."""
    sock.send(b"%d %d" % (os.getpid(), kept))
    while True:
        word = sock.recv(99)
        if word == b"stand":
            os.kill(0, signal.SIGSTOP)
        if word == b"end the call":
            os.kill(os.getpid(), signal.SIGSTOP)
            return kept + 1
        if word == b"be a branch":
            _open_null()  # one of its own
            sock.send(word)
            return kept
        if word == b"die":
            os._exit(3)
        if word == b"leave a process" and os.fork() == 0:
            signal.pause()
        if word == b"leave a thread":
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        if word == b"leave a pipe":
            os.pipe()
        if word == b"work":
            while True:
                pass
