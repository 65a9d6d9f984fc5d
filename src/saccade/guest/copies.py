"""Copies of files in memory, holes left out, and writing them back in place."""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import dataclass
from os import (
    O_CLOEXEC,
    O_CREAT,
    O_EXCL,
    O_NOFOLLOW,
    O_NONBLOCK,
    O_RDONLY,
    O_WRONLY,
    chmod,
    close,
    fchmod,
    fstat,
    ftruncate,
    lseek,
    pread,
    pwrite,
    utime,
)
from os import open as open_fd

_CHUNK = 1 << 20
_PUNCH_HOLE_KEEP_SIZE = 3
_libc = ctypes.CDLL(None)
_SEEK_DATA, _SEEK_HOLE = getattr(os, "SEEK_DATA", None), getattr(os, "SEEK_HOLE", None)
_READ = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
_WRITE = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC


class TooMuchError(Exception):
    """The file holds more bytes than asked for."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Contents of a file: `extents` are (offset, bytes) in order, everything between is zero, up to `size`."""

    size: int
    extents: tuple[tuple[int, bytes], ...]

    @property
    def weight(self) -> int:
        """Bytes that the copy takes."""
        return sum(len(data) for _, data in self.extents)


def read_copy(folder: int, name: str, mode: int, most: int) -> Copy:
    """A copy of file `name` of `folder`; raises `TooMuchError` above `most` bytes of data."""
    fd = _open_to_read(folder, name, mode)
    try:
        return _read(fd, most)
    finally:
        close(fd)


def _open_to_read(folder: int, name: str, mode: int) -> int:
    try:
        return open_fd(name, _READ, dir_fd=folder)
    except PermissionError:
        chmod(name, mode | 0o400, dir_fd=folder)
        try:
            return open_fd(name, _READ, dir_fd=folder)
        finally:
            chmod(name, mode, dir_fd=folder)


def write_copy(folder: int, name: str, mode: int, copy: Copy, exists: bool, mtime_ns: int) -> None:
    """Make file `name` of `folder` equal to `copy`: in place if it `exists`, so that open handles stay good."""
    made = _WRITE | O_CREAT | O_EXCL
    fd = _open_to_write(folder, name, mode) if exists else open_fd(name, made, 0o600, dir_fd=folder)
    try:
        _take_away(fd, copy)
        for offset, data in copy.extents:
            view = memoryview(data)
            while view:
                written = pwrite(fd, view, offset)
                view, offset = view[written:], offset + written
        fchmod(fd, mode)
        utime(fd, ns=(mtime_ns, mtime_ns))
    finally:
        close(fd)


def take_away(folder: int, name: str, mode: int, copy: Copy) -> None:
    """Let the file take no more room than `copy` does."""
    fd = _open_to_write(folder, name, mode)
    try:
        _take_away(fd, copy)
    finally:
        close(fd)


def _take_away(fd: int, copy: Copy) -> None:
    """Give the file the size of `copy`, and holes where it has them.

    Nothing is cut off that is there in both: the kernel would also drop what private mappings have changed in it.
    """
    if fstat(fd).st_size != copy.size:
        ftruncate(fd, copy.size)
    at = 0
    for offset, data in (*copy.extents, (copy.size, b"")):
        hole = ctypes.c_long(at), ctypes.c_long(offset - at)
        if at < offset and _libc.fallocate(fd, _PUNCH_HOLE_KEEP_SIZE, *hole) != 0:
            # This file system makes no holes.
            ftruncate(fd, at)
            ftruncate(fd, copy.size)
            return
        at = offset + len(data)


def _open_to_write(folder: int, name: str, mode: int) -> int:
    try:
        return open_fd(name, _WRITE, dir_fd=folder)
    except PermissionError:
        chmod(name, mode | 0o200, dir_fd=folder)
        return open_fd(name, _WRITE, dir_fd=folder)


def same_content(folder: int, name: str, mode: int, copy: Copy, *, exactly: bool = False) -> bool:
    """Whether the file reads as `copy` does, wherever either has holes; `exactly`: and has them in the same places."""
    try:
        fd = _open_to_read(folder, name, mode)
        try:
            if fstat(fd).st_size != copy.size or not _equal(fd, copy):
                return False
            return not exactly or _places(fd, copy.size) == [(at, at + len(data)) for at, data in copy.extents]
        finally:
            close(fd)
    except OSError:
        return False


def _equal(fd: int, copy: Copy) -> bool:
    at = 0
    for offset, data in copy.extents:
        if not _is_zero(fd, at, offset):
            return False
        at = offset + len(data)
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            part = view[start : start + _CHUNK]
            if pread(fd, len(part), offset + start) != part:
                return False
    return _is_zero(fd, at, copy.size)


def _is_zero(fd: int, start: int, end: int) -> bool:
    """Whether the file holds nothing but zeros from `start` to `end`."""
    while start < end:
        data, hole = _next_data(fd, start, end)
        for offset in range(data, hole, _CHUNK):
            part = pread(fd, min(_CHUNK, hole - offset), offset)
            if part != bytes(len(part)):
                return False
        start = max(hole, data)
    return True


def _read(fd: int, most: int) -> Copy:
    size = fstat(fd).st_size
    extents = []
    weight = 0
    for start, end in _places(fd, size):
        weight += end - start
        if weight > most:
            raise TooMuchError
        data = _pread(fd, start, end - start)
        if data:
            extents.append((start, data))
    return Copy(size, tuple(extents))


def _places(fd: int, size: int) -> list[tuple[int, int]]:
    """(start, end) of all that is no hole."""
    places = []
    offset = 0
    while offset < size:
        start, offset = _next_data(fd, offset, size)
        if start < size:
            places.append((start, offset))
    return places


def _next_data(fd: int, offset: int, size: int) -> tuple[int, int]:
    """(start, end) of the next bytes that are no hole; start is `size` if there are none."""
    if _SEEK_DATA is None or _SEEK_HOLE is None:
        return offset, size
    try:
        start = lseek(fd, offset, _SEEK_DATA)
        return start, min(lseek(fd, start, _SEEK_HOLE), size)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (offset, size)


def _pread(fd: int, offset: int, length: int) -> bytes:
    parts = []
    while length > 0:
        part = pread(fd, min(length, _CHUNK), offset)
        if not part:
            break
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return b"".join(parts)
