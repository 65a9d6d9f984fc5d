"""The process that every session is a fork of: it has imported everything and has never heard of any session.

The zygote keeps the books of all sessions, so a session must not be a fork of it: books stay in memory and in the
frames below a program. The template knows one word, `fork`, and hands the descriptors that come with it to a child,
which is a child of the zygote. What the child is to be it reads by itself from one of them.
"""

from __future__ import annotations

import array
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from . import wire
from .fork import CLONE_PARENT, Forker

FORK = b"fork"
_ALL = frozenset(int(number) for number in signal.valid_signals())

NextStep = Callable[[], Any]
"""What a process does next, once the frames of what it did before are gone; returns a further step, or None to end."""


class Template:
    """The zygote's side."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self._sock = sock

    def fork(self, fds: list[int]) -> int:
        """Return a new process with copies of `fds`; its id. Raises OSError if the kernel refuses."""
        self._sock.sendmsg([FORK], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        answer = self._sock.recv(16)
        if not answer:
            raise OSError("the template of the sessions has died")
        pid = int.from_bytes(answer, "little", signed=True)
        if pid < 0:
            raise OSError(-pid, f"a session's process could not be forked: {os.strerror(-pid)}")
        return pid


def serve(sock: socket.socket, forker: Forker, become: Callable[[list[int]], NextStep]) -> NextStep:
    """Fork whenever the zygote says so, until it is gone. Returns in each child, with what that is to do."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
    while True:
        ints = array.array("i")
        word, ancillary, _flags, _address = sock.recvmsg(
            16, socket.CMSG_SPACE(wire.MAX_FDS * ints.itemsize), socket.MSG_CMSG_CLOEXEC
        )
        for _level, _kind, data in ancillary:
            ints.frombytes(data)
        if word != FORK:
            os._exit(0)
        try:
            pid = forker.fork(CLONE_PARENT)
        except OSError as error:
            pid = -(error.errno or 1)
        if pid == 0:
            sock.close()
            return become(list(ints))
        for fd in ints:
            os.close(fd)
        sock.send(pid.to_bytes(8, "little", signed=True))
