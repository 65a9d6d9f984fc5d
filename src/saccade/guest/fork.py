"""`fork` by the raw system call, so that a child can be a sibling (`CLONE_PARENT`), with namespaces; and the template.

The hooks of the interpreter and of C libraries are not run: they write all over the pages that sessions share. That is
sound only because a process of the sandbox has one thread when it forks, which the zygote checks before it keeps a
call. Random generators are not reseeded, and hooks which a guest has registered never run.
"""

from __future__ import annotations

import array
import ctypes
import os
import platform
import signal
import socket
from collections.abc import Callable
from ctypes import c_int, c_long, c_ulong, c_void_p
from typing import Any

from . import wire

CLONE_PARENT = 0x00008000
CLONE_CHILD_CLEARTID = 0x00200000
CLONE_CHILD_SETTID = 0x01000000
_PR_GET_TID_ADDRESS = 40

# PyDLL keeps the GIL, which the child then holds, too.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = c_long
_libc.prctl.argtypes = [c_int, c_ulong, c_ulong, c_ulong, c_ulong]


def _tid_address() -> int:
    """Find where libc keeps the id of this thread, or 0 if the kernel does not tell."""
    address = c_void_p()
    if _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.addressof(address), 0, 0, 0) != 0:
        return 0
    return address.value or 0


class Forker:
    """Forks this process; made once, before any untrusted code runs, so that a fork looks nothing up."""

    def __init__(self) -> None:
        self._number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
        self._tid_address = _tid_address()
        self._tid_flags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID if self._tid_address else 0

    def fork(self, flags: int = 0) -> int:
        """Fork with extra clone `flags` (`CLONE_...`); 0 in the child, its pid in the parent. Raises OSError."""
        args = (c_ulong(flags | self._tid_flags | signal.SIGCHLD), c_long(0), c_long(0))
        # The order of the last two arguments differs between architectures; the unused one is zero in both.
        tid, tls = c_void_p(self._tid_address), c_long(0)
        tail = (tid, tls) if self._number == 56 else (tls, tid)
        pid = int(_libc.syscall(c_long(self._number), *args, *tail))
        if pid < 0:
            raise OSError(ctypes.get_errno(), "clone refused")
        return pid


# The template: the process that every session is a fork of. It has imported everything and has never heard of any
# session. The zygote keeps the books of all sessions, which would stay in the memory and in the frames of its forks.
# The template knows one word, and hands the descriptors that come with it to a child, which is a child of the zygote
# and reads from one of them what it is to be.

FORK = b"fork"
ALL_SIGNALS = frozenset(int(number) for number in signal.valid_signals())

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
    signal.pthread_sigmask(signal.SIG_BLOCK, ALL_SIGNALS)
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
