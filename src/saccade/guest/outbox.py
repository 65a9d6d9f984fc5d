"""The shared memory that a call leaves its results in: report, text and raw pixels, at fixed places.

    0                the report, JSON, at most `REPORT_ROOM` bytes
    COUNTS_OFFSET    bytes kept of stdout and of stderr so far, two 8-byte little-endian numbers
    1 MiB            stdout, then stderr, `output_bytes` each
    after them       pixels of the pictures, 4 * total_pixels bytes

The host reads it and must trust nothing in it. Bytes of stdout and stderr behind the kept ones are zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from os import pread
from typing import TYPE_CHECKING, Any

from . import wire
from .config import GuestConfig
from .streams import CappedStream, FdTail, flush_c, write_at

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

REPORT_BYTES = 1 << 20
COUNTS_OFFSET = REPORT_BYTES - 64
REPORT_ROOM = 1 << 18
"""The host checks a report of this size in some milliseconds, whatever is in it."""

_SHORTENED = "This report was shortened: it was larger than a report may be."
_SQUEEZES = ((4000, 256), (1000, 64), (200, 16), (40, 4))
"""(most characters of a text, most items of a list), tried in turn until the report fits."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each part starts, and the `size` of the whole, in bytes."""

    report: int
    stdout: int
    stderr: int
    pictures: int
    size: int


def layout(output_bytes: int, total_pixels: int) -> Layout:
    """The places of an outbox for these limits."""
    stdout = REPORT_BYTES
    stderr = stdout + output_bytes
    pictures = stderr + output_bytes
    return Layout(report=0, stdout=stdout, stderr=stderr, pictures=pictures, size=pictures + 4 * total_pixels)


class Outbox:
    """The guest's side of the shared memory `fd`. `tails` are the memfds behind descriptors 1 and 2."""

    def __init__(self, fd: int, config: GuestConfig, tails: tuple[int, int] = (wire.STDOUT_FD, wire.STDERR_FD)) -> None:
        self.fd = fd
        self.layout = layout(config.output_bytes, config.total_pixels)
        self.stdout = CappedStream(fd, self.layout.stdout, config.output_bytes, COUNTS_OFFSET, 1)
        self.stderr = CappedStream(fd, self.layout.stderr, config.output_bytes, COUNTS_OFFSET + 8, 2)
        self.tails = (FdTail(tails[0], config.output_bytes), FdTail(tails[1], config.output_bytes))
        self.used = 0
        """Bytes of the picture area that are taken."""

    def reset(self) -> None:
        """Empty it for a call."""
        self.used = 0
        self.stdout.reset()
        self.stderr.reset()
        flush_c()
        for tail in self.tails:
            tail.take()

    def take_tails(self) -> None:
        """Append to stdout and stderr what C code and child processes wrote to descriptors 1 and 2."""
        flush_c()
        for stream, tail in zip((self.stdout, self.stderr), self.tails, strict=True):
            data = tail.take()
            if data:
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

    def read(self, offset: int, size: int) -> bytes:
        """Bytes stored earlier."""
        parts = []
        while size > 0:
            part = pread(self.fd, size, offset)
            if not part:
                break
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

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


def encode(value: object) -> bytes:
    """JSON (ASCII) of plain data. Uses nothing of the `json` module that a program could have replaced."""
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
    """A copy with shorter texts and lists; the pictures stay, since their pixels are there already."""
    short = {key: value if key == "pictures" else _cut(value, text, items) for key, value in report.items()}
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
