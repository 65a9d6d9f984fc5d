"""The shared memory for the results of a call: report, text and raw pixels, at fixed places.

0                the report, JSON, at most `REPORT_ROOM` bytes
COUNTS_OFFSET    bytes kept of stdout and of stderr so far, two 8-byte little-endian numbers
1 MiB            stdout, then stderr, `output_bytes` each; zeros behind what was kept
after them       pixels of the pictures, 4 * total_pixels bytes
"""

from __future__ import annotations

import ctypes
import errno
import io
import json
import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from json.encoder import encode_basestring_ascii
from os import getpid, lseek, pread, pwrite
from os import write as write_fd
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import wire
from .wire import ARRAY_TYPES, COUNTS_OFFSET, DATA_BYTES, REPORT_ROOM, GuestConfig, layout
from .workspace import read_at

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The program may replace builtins while these are in use.
_len, _memoryview, _isinstance, _str, _min, _OSError = len, memoryview, isinstance, str, min, OSError

_COUNT = struct.Struct("<Q")
_SEEK_SET, _SEEK_CUR = 0, 1
_fflush = ctypes.CDLL(None).fflush


def write_at(fd: int, data: ReadableBuffer, offset: int) -> bool:
    """Write all of `data` at `offset`, by a mapping beyond the limit on files; False if the memory cannot take it."""
    view = _memoryview(data).cast("B")
    try:
        while view:
            written = pwrite(fd, view, offset)
            view, offset = view[written:], offset + written
    except _OSError as error:
        return error.errno == errno.EFBIG and _write_mapped(fd, view, offset)
    return True


def _write_mapped(fd: int, view: memoryview, offset: int) -> bool:
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    length = offset - start + _len(view)
    try:
        with mmap.mmap(fd, length, offset=start) as window:
            window[offset - start : length] = view
    except (OSError, ValueError):
        return False
    return True


def take_tail(fd: int, most: int) -> bytes:
    """Return what C code and child processes wrote to memfd `fd` since the last look, at most `most` bytes."""
    try:
        end = lseek(fd, 0, _SEEK_CUR)
        if end == 0:
            return b""
        lseek(fd, 0, _SEEK_SET)
        return pread(fd, _min(end, most), 0)
    except _OSError:
        return b""


class CappedStream(io.TextIOBase):
    """A text stream that writes its first `capacity` bytes to `offset` of descriptor `fd`, and counts the rest.

    `count_offset` is where the same memory holds the number of kept bytes (8 bytes, little-endian), always up to date,
    so that the host can read what was printed even if the call is killed. `fileno` returns `real_fd` (1 or 2); a child
    process writes there instead, since it shares the memory but not the position. Not promised: the order between text
    of Python and text that C code writes to the descriptors, which is appended when the cell has ended.
    """

    encoding = "utf-8"
    errors = "replace"
    newlines = None
    mode = "w"
    line_buffering = True

    def __init__(self, fd: int, offset: int, capacity: int, count_offset: int, real_fd: int) -> None:
        self.fd = fd
        self.offset = offset
        self.capacity = capacity
        self.count_offset = count_offset
        self.real_fd = real_fd
        self.name = {1: "<stdout>", 2: "<stderr>"}.get(real_fd, f"<fd {real_fd}>")
        self.lock = RLock()
        self.kept = 0
        self.total = 0
        self.full = False
        self.pid = getpid()
        self._buffer = _Bytes(self)

    def reset(self) -> None:
        """Start anew for a call, in this process, over clean memory."""
        try:
            old = _COUNT.unpack(pread(self.fd, _COUNT.size, self.count_offset))[0]
        except (OSError, struct.error):
            old = 0
        if old:
            write_at(self.fd, bytes(_min(old, self.capacity)), self.offset)
            write_at(self.fd, bytes(_COUNT.size), self.count_offset)
        self.kept = self.total = 0
        self.full = False
        self.pid = getpid()

    def put(self, data: bytes | memoryview) -> None:
        """Append bytes: keep what fits (never half a character), count all."""
        if getpid() != self.pid:
            with suppress(_OSError):
                write_fd(self.real_fd, data)
            return
        size = _len(data)
        with self.lock:
            self.total += size
            if self.full or not size:
                return
            room = self.capacity - self.kept
            if size > room:
                self.full = True
                while room > 0 and data[room] & 0xC0 == 0x80:
                    room -= 1
                data = data[:room]
            if write_at(self.fd, data, self.offset + self.kept):
                self.kept += _len(data)
                write_at(self.fd, _COUNT.pack(self.kept), self.count_offset)
            else:
                self.full = True

    def write(self, text: str, /) -> int:
        """Print `text`; characters that UTF-8 cannot hold become question marks."""
        if not _isinstance(text, _str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.full and text.isascii():
            self.total += _len(text)
        else:
            self.put(text.encode("utf-8", "replace"))
        return _len(text)

    @property
    def buffer(self) -> _Bytes:
        """The binary stream below."""
        return self._buffer

    def detach(self) -> Any:
        """Return the binary stream below; this stream keeps working."""
        return self._buffer

    def reconfigure(self, **_options: object) -> None:
        """Do nothing: the encoding is always UTF-8."""

    def fileno(self) -> int:
        return self.real_fd

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: a later print must not fail."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream of the sandbox cannot be pickled")


class _Bytes(io.BufferedIOBase):
    """The binary side of a `CappedStream`."""

    mode = "wb"

    def __init__(self, text: CappedStream) -> None:
        self._text = text
        self.name = text.name

    def write(self, data: ReadableBuffer, /) -> int:
        view = _memoryview(data).cast("B")
        self._text.put(view)
        return _len(view)

    def fileno(self) -> int:
        return self._text.real_fd

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        pass


_SHORTENED = "This report was shortened: it was larger than a report may be."
_SQUEEZES = ((4000, 256), (1000, 64), (200, 16), (40, 4))
"""(most characters of a text, most items of a list), tried in turn until the report fits."""


class Outbox:
    """The guest's side of the shared memory `fd`. `tails` are the memfds behind descriptors 1 and 2."""

    def __init__(self, fd: int, config: GuestConfig, tails: tuple[int, int] = (wire.STDOUT_FD, wire.STDERR_FD)) -> None:
        self.fd = fd
        self.layout = layout(config.output_bytes, config.total_pixels)
        self.stdout = CappedStream(fd, self.layout.stdout, config.output_bytes, COUNTS_OFFSET, 1)
        self.stderr = CappedStream(fd, self.layout.stderr, config.output_bytes, COUNTS_OFFSET + 8, 2)
        self.tails = tails
        self.used = 0
        """Bytes of the picture area that are taken."""

    def reset(self) -> None:
        """Empty it for a call."""
        self.used = 0
        self.stdout.reset()
        self.stderr.reset()
        _fflush(None)
        for tail in self.tails:
            take_tail(tail, 0)

    def take_tails(self) -> None:
        """Append to stdout and stderr what C code and child processes wrote to descriptors 1 and 2."""
        _fflush(None)  # what C code still holds back
        for stream, tail in zip((self.stdout, self.stderr), self.tails, strict=True):
            if data := take_tail(tail, stream.capacity):
                stream.put(data)

    def append(self, size: int, pieces: Iterable[ReadableBuffer]) -> int | None:
        """Store `size` bytes of raw pixels; their offset from the start of the memory, or None if they do not fit."""
        offset = at = self.layout.pictures + self.used
        if offset + size > self.layout.size:
            return None
        for piece in pieces:
            if not write_at(self.fd, piece, at):
                return None
            at += memoryview(piece).nbytes
        self.used += size
        return offset

    def as_data(self, value: object) -> str | None:
        """Write JSON that gives the host `value` itself: plain kinds as such, an array's bytes; None for all else."""
        if type(value) is np.ndarray:
            is_small = value.nbytes <= DATA_BYTES and value.ndim <= 32 and max(value.shape, default=0) <= DATA_BYTES
            fits = is_small and value.dtype.str in ARRAY_TYPES
            offset = self.append(value.nbytes, [value.tobytes()]) if fits else None
            about = {"array": value.dtype.str, "shape": value.shape, "offset": offset}
            return None if offset is None else json.dumps(about)
        with suppress(ValueError):
            text = json.dumps({"data": _plain(value, iter(range(_MOST_ITEMS)))}, ensure_ascii=False)
            return text if len(text.encode()) <= _LONGEST_DATA else None
        return None

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes stored earlier."""
        return read_at(self.fd, offset, size)

    def write_report(self, report: Mapping[str, Any]) -> int:
        """Store the report as JSON; its length in bytes. Long fields are cut, with a note, if it would not fit."""
        data = encode(report)
        for text, items in _SQUEEZES:
            if len(data) <= REPORT_ROOM:
                break
            data = encode(_squeeze(report, text, items))
        if not write_at(self.fd, data, 0):
            raise OSError("the report could not be written")
        return len(data)


_LONGEST_DATA = 60_000
_MOST_ITEMS, _DEEPEST = 2000, 50


def _plain(value: Any, left: Iterator[int], depth: int = 0) -> Any:
    """Copy `value` as plain JSON kinds. Raises ValueError if it is no such, too deep, or of more items than `left`."""
    kind = type(value)
    if next(left, None) is not None and depth <= _DEEPEST:
        if value is None or kind in (bool, float) or (kind is int and value.bit_length() < 4096):
            return value
        if kind is str and len(value) <= _LONGEST_DATA:
            return value
        if isinstance(value, np.bool_ | np.integer | np.floating):
            return value.item()
        if kind in (list, tuple):
            return [_plain(item, left, depth + 1) for item in value]
        if kind is dict and all(type(key) is str for key in value):
            return {key: _plain(item, left, depth + 1) for key, item in value.items()}
    raise ValueError


def encode(value: object) -> bytes:
    """Return JSON (ASCII) of plain data. Uses nothing of the `json` module that a program could have replaced."""
    parts: list[str] = []
    _encode(value, parts.append)
    return "".join(parts).encode("ascii")


def _encode(value: object, put: Any) -> None:
    if value is None:
        put("null")
    elif value is True or value is False:
        put("true" if value else "false")
    elif isinstance(value, str):
        # Half of a surrogate pair is no text for whoever reads it.
        put(encode_basestring_ascii(value.encode("utf-8", "backslashreplace").decode()))
    elif isinstance(value, int):
        put(int.__repr__(value))
    elif isinstance(value, float):
        put(float.__repr__(value))
    elif isinstance(value, Mapping):
        _encode_items(((encode_basestring_ascii(str(key)) + ":", item) for key, item in value.items()), "{}", put)
    elif isinstance(value, list | tuple):
        _encode_items((("", item) for item in value), "[]", put)
    else:
        raise TypeError(f"a report holds plain data only, not {type(value).__name__}")


def _encode_items(items: Any, brackets: str, put: Any) -> None:
    put(brackets[0])
    for index, (key, item) in enumerate(items):
        put("," + key if index else key)
        _encode(item, put)
    put(brackets[1])


def _squeeze(report: Mapping[str, Any], text: int, items: int) -> dict[str, Any]:
    """Return a copy with shorter texts and lists; the pictures stay, since their pixels are there already."""
    short = {key: value if key == "pictures" else _cut(value, text, items) for key, value in report.items()}
    short["data"] = None  # half of it is nothing
    short["pictures"] = [_cut(picture, text, items) for picture in report.get("pictures", ())]
    short["notes"] = [*_cut(report.get("notes", ()), text, items), _SHORTENED]
    return short


def _cut(value: Any, text: int, items: int) -> Any:
    if isinstance(value, str) and len(value) > text:
        return value[:text] + " [cut]"
    if isinstance(value, Mapping):
        return {key: _cut(item, text, items) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, text, items) for item in value[:items]]
    return value
