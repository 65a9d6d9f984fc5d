"""Make forks small: what a forked process writes should lie together, not all over the memory it shares.

A page that a child writes is copied for it alone. Python's allocator hands out free blocks wherever there are any,
so after long imports a child's first thousand small objects would touch a thousand shared pages. `fill_gaps` takes
those blocks beforehand.
"""

from __future__ import annotations

import ctypes
import os
import sys

_kept: list[object] = []
_libc = ctypes.CDLL(None)


def fill_gaps() -> None:
    """Take every free block of the small object allocator, for good; call it last before forking."""
    for size, free in _free_blocks().items():
        # Of each kind the smallest object there is; the rest of a block is the payload of a bytes object.
        if size == 16:
            _kept.extend(object() for _ in range(free))
        elif size == 32:
            _kept.extend(float(number) for number in range(free))
        else:
            _kept.extend(bytes(size - sys.getsizeof(b"")) for _ in range(free))


def give_back_memory() -> None:
    """Return what libc keeps of freed memory, so that a fork does not inherit it only to copy it."""
    _libc.malloc_trim(0)


def _free_blocks() -> dict[int, int]:
    """Size of block in bytes -> how many are free in pools that are in use; empty where Python does not tell."""
    with os.fdopen(os.memfd_create("saccade-statistics"), "w+b") as file:
        saved = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            sys._debugmallocstats()
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        lines = file.read().decode(errors="replace").splitlines()
    free = {}
    for line in lines:
        # class, size, pools, blocks in use, free blocks
        words = line.split()
        if len(words) == 5 and all(word.isdigit() for word in words):
            free[int(words[1])] = int(words[4])
    return free
