"""The descriptors that a session needs: one end of its socket for each side, an outbox that both see, and streams."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
from typing import Any

from saccade.guest.outbox import Layout
from saccade.sandbox.cgroup import SessionCgroup

STREAM_BYTES = 64 * 1024
"""Most bytes that C code of the guest may write to file descriptor 1 or 2 in one call."""
_libc = ctypes.CDLL(None, use_errno=True)
_PUNCH_HOLE_KEEP_SIZE = 3


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
        """Socket, outbox, the workspace if it is sent from here, stdout, stderr."""
        outbox, *streams = self._shared
        return (self.theirs.fileno(), outbox, *workspace, *streams)

    @property
    def joins(self) -> tuple[int, ...]:
        """The cgroup files, for the zygote alone."""
        return self.cgroup.join_fds if self.cgroup is not None else ()

    def inodes(self) -> dict[str, Any]:
        """What the guest's descriptors are known by, for the zygote that looks at what a branch holds."""
        return {
            "socket": os.fstat(self.theirs.fileno()).st_ino,
            "memory": [os.fstat(fd).st_ino for fd in self._shared],
        }

    def empty_outbox(self) -> None:
        """Throw away what was left in it, and its memory."""
        _libc.fallocate(self.outbox, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(self._size))

    def sent(self) -> None:
        """Close what only the guest and the zygote need; idempotent."""
        self.theirs.close()
        while self._shared:
            os.close(self._shared.pop())
        if self.cgroup is not None:
            self.cgroup.close_fds()


def reopened(fd: int, flags: int) -> int:
    """A memfd opened once more: a descriptor whose position, flags and locks are its own; the caller owns it."""
    return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)


def fixed_memfd(name: str, size: int) -> int:
    """A sparse memfd whose size can never change."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd
