"""The bytes of a video, read at any place without holding a file open.

A reader of these can be forked and rolled back like any other variable: its position is a number in memory, and there
is no descriptor whose position processes would share. A file that is changed while it is read is an error.
"""

from __future__ import annotations

import io
import os
from typing import Any

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Does not wait for a writer where the path is a FIFO."""


class ReopenedFile(io.RawIOBase):
    """A file by its path, opened anew for every read. Raises OSError as `open` does."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = os.path.abspath(path)
        self._position = 0
        fd = os.open(self.path, _READ)
        try:
            self._seal = _seal(fd)
        finally:
            os.close(fd)

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return self._seal[0]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position of the next read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.bytes}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer` from the position on. Raises OSError if the file is another one than at first."""
        fd = os.open(self.path, _READ)
        try:
            if _seal(fd) != self._seal:
                raise OSError(f"{self.path} was changed while it was being read as a video; open it again")
            count = os.preadv(fd, [buffer], self._position)
        finally:
            os.close(fd)
        self._position += count
        return count


def _seal(fd: int) -> tuple[int, int]:
    """Size and time of change: equal for a branch's copy of a file too."""
    state = os.fstat(fd)
    return state.st_size, state.st_mtime_ns
