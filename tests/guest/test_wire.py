"""Sealed memory: what it holds, and what happens while the kernel is busy with its pages."""

from __future__ import annotations

import fcntl
import mmap
import os

import pytest

from saccade.guest import wire
from saccade.guest.wire import SEAL_ATTEMPTS, sealed_memfd

SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

real_fcntl = fcntl.fcntl


class BusyPages:
    """Maps the first `times` copies for writing, so that the kernel refuses to seal them; keeps their descriptors."""

    def __init__(self, times: int) -> None:
        self._times = times
        self.tried: list[int] = []
        self.held: list[mmap.mmap] = []

    def __call__(self, fd: int, command: int, seals: int) -> int:
        self.tried.append(os.fstat(fd).st_ino)
        if len(self.tried) <= self._times:
            self.held.append(mmap.mmap(fd, 0))
        return real_fcntl(fd, command, seals)


def busy(monkeypatch: pytest.MonkeyPatch, times: int) -> BusyPages:
    pages = BusyPages(times)
    monkeypatch.setattr(wire.fcntl, "fcntl", pages)
    return pages


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_sealed_memory_holds_its_parts_and_cannot_be_written() -> None:
    fd = sealed_memfd("test", b"one", memoryview(b"two"))
    try:
        assert os.pread(fd, 16, 0) == b"onetwo"
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) == SEALS
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"x", 0)
    finally:
        os.close(fd)


@pytest.mark.parametrize("times", [1, SEAL_ATTEMPTS - 1])
def test_pages_the_kernel_is_busy_with_are_copied_anew(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = busy(monkeypatch, times)
    fd = sealed_memfd("test", b"pixels")
    try:
        assert len(set(pages.tried)) == times + 1
        assert os.pread(fd, 16, 0) == b"pixels"
        assert real_fcntl(fd, fcntl.F_GET_SEALS) == SEALS
    finally:
        os.close(fd)


def test_pages_that_stay_busy_are_an_error_and_leave_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = busy(monkeypatch, SEAL_ATTEMPTS)
    before = open_descriptors()
    with pytest.raises(OSError, match="busy"):
        sealed_memfd("test", b"pixels")
    pages.held.clear()
    assert len(pages.tried) == SEAL_ATTEMPTS
    assert open_descriptors() == before
