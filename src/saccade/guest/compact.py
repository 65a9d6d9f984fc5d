"""Make forks small and quick. For speed only; docs/bench.md has what each step buys.

Python's allocator hands out free blocks wherever there are any, so after long imports a child's first thousand small
objects would touch a thousand shared pages: `fill_gaps` takes those blocks beforehand. And a fork copies an entry for
each page and a record for each mapping: `use_large_pages` and `merge_mappings` leave it fewer.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
from collections.abc import Iterator

_LARGE = 2 << 20
"""Bytes of a large page on the machines that have seccomp filters here."""
_COLLAPSE = 25
"""MADV_COLLAPSE, Linux 6.1."""
_MAPPING = re.compile(r"^(\w+)-(\w+) r--p .*\.so[.\d]*\n(?:[A-Z].*\n)*?Anonymous: +(\d+)", re.MULTILINE)
"""Of a library, what may only be read: its addresses, and how much of it was written to."""
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


def use_large_pages() -> int:
    """Put this process's heap on large pages where the kernel can; how many there are now.

    A forked process that writes to one copies no more than before: the kernel gives it small pages of that part.
    """
    return sum(
        _libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(_LARGE), _COLLAPSE) == 0 for page in _anonymous_memory()
    )


def _anonymous_memory() -> Iterator[int]:
    """Addresses of the places for large pages in the writable memory that is no file's."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    for line in lines:
        # addresses, permissions, offset, device, inode, path
        addresses, mode, _offset, _device, inode, *name = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in addresses.split("-"))
        if mode == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            yield from range(-(-start // _LARGE) * _LARGE, end - _LARGE + 1, _LARGE)


def merge_mappings() -> None:
    """Give the parts of each loaded library two sets of rights in place of four.

    The loader maps constants without the right to execute, and takes the right to write from what it has relocated.
    Neighbours of equal rights become one mapping, and a fork copies each. Only in a process that was never forked can
    the kernel merge what was written to. Programs run arbitrary code anyway: those rights kept nothing from them.
    """
    with open("/proc/self/smaps", encoding="utf-8", errors="surrogateescape") as file:
        parts = _MAPPING.findall(file.read())
    for start, end, written in parts:
        address, length = int(start, 16), int(end, 16) - int(start, 16)
        rights = mmap.PROT_READ | (mmap.PROT_WRITE if written != "0" else mmap.PROT_EXEC)
        _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), rights)


def give_back_memory() -> None:
    """Give memory that libc keeps after it was freed back to the kernel, so that no fork has to copy it."""
    _libc.malloc_trim(0)


def _free_blocks() -> dict[int, int]:
    """Map the size of a block in bytes to how many are free in pools in use; empty where Python does not tell."""
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
