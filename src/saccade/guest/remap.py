"""Mappings of files, put onto other files at the same addresses, under the objects that refer to them.

A mapping outlives the fork and shows the file that it was made of: in a branch that of the origin, whoever writes to
it, and after a failed call one that was removed and brought back as another. So a shared mapping is replaced by one of
the same place of the file of that name in the present workspace, and a private one by memory that holds the same bytes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

from . import wire
from .folders import open_anyhow
from .syscalls import syscall

_READ, _WRITE = 1, 2
_SHARED, _PRIVATE, _FIXED, _ANONYMOUS = 0x01, 0x02, 0x10, 0x20


def remap(maps: Sequence[Sequence[Any]]) -> None:
    """Replace each of `maps` (start, end, mode, offset in the file, path in the workspace)."""
    for start, end, mode, offset, path in maps:
        protection = (_READ if "r" in mode else 0) | (_WRITE if "w" in mode else 0)
        if mode.endswith("s"):
            _attach(start, end - start, protection, offset, path)
        else:
            _detach(start, end - start, protection)


def _attach(start: int, length: int, protection: int, offset: int, path: str) -> None:
    fd = open_anyhow(wire.WORKSPACE_FD, path, os.O_RDWR if protection & _WRITE else os.O_RDONLY)
    try:
        syscall("mmap", start, length, protection, _SHARED | _FIXED, fd, offset)
    finally:
        os.close(fd)


def _detach(start: int, length: int, protection: int) -> None:
    data = ctypes.string_at(start, length) if protection & _READ else b""
    syscall("mmap", start, length, protection | _WRITE, _PRIVATE | _FIXED | _ANONYMOUS, -1, 0)
    ctypes.memmove(start, data, len(data))
