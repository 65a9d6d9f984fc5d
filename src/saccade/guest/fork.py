"""`fork` by the raw system call, so that a child can be made a sibling (`CLONE_PARENT`) and with namespaces.

`os.fork` cannot do either, and the interpreter's hooks around it write all over the pages that sessions share. They
are not run here, nor those of C libraries. That is sound only because a process of the sandbox has a single thread
when it forks, so that no lock can be held by another one; the zygote checks it before it keeps a call. It also means
that random generators are not reseeded, and that hooks which a guest has registered never run.
"""

from __future__ import annotations

import ctypes
import platform
import signal
from ctypes import c_int, c_long, c_ulong, c_void_p

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
        """Fork with extra clone `flags` (`CLONE_PARENT`, `CLONE_NEW*`); 0 in the child, its pid in the parent.

        Raises OSError if the kernel refuses.
        """
        args = (c_ulong(flags | self._tid_flags | signal.SIGCHLD), c_long(0), c_long(0))
        # The order of the last two arguments differs between architectures; the unused one is zero in both.
        tid, tls = c_void_p(self._tid_address), c_long(0)
        tail = (tid, tls) if self._number == 56 else (tls, tid)
        pid = int(_libc.syscall(c_long(self._number), *args, *tail))
        if pid < 0:
            raise OSError(ctypes.get_errno(), "clone refused")
        return pid
