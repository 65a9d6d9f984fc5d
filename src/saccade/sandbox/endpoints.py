"""The descriptors that a session needs: one end of its socket for each side, an outbox that both see, and streams."""

from __future__ import annotations

import fcntl
import os
import socket

from saccade.guest.outbox import Layout
from saccade.sandbox.cgroup import SessionCgroup

STREAM_BYTES = 64 * 1024
"""Most bytes that C code of the guest may write to file descriptor 1 or 2 in one call."""


class Endpoints:
    """The descriptors that a new link needs on both sides; those of the guest are closed once they are sent."""

    def __init__(self, layout: Layout, cgroup: SessionCgroup | None) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.outbox = fixed_memfd("saccade-outbox", layout.size)
        self.streams = [fixed_memfd(f"saccade-{name}", STREAM_BYTES) for name in ("stdout", "stderr")]
        self.cgroup = cgroup

    def guest_fds(self, *workspace: int) -> tuple[int, ...]:
        """Socket, outbox, the workspace if it is sent from here, stdout, stderr, cgroup files."""
        joins = self.cgroup.join_fds if self.cgroup is not None else ()
        return (self.theirs.fileno(), self.outbox, *workspace, *self.streams, *joins)

    def sent(self) -> None:
        """Close what only the guest needs."""
        self.theirs.close()
        for fd in self.streams:
            os.close(fd)
        if self.cgroup is not None:
            self.cgroup.close_fds()


def fixed_memfd(name: str, size: int) -> int:
    """A sparse memfd whose size can never change."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd
