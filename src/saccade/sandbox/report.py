"""From a guest's report and outbox to a `RunResult`: every field checked, since a hostile program wrote them.

Sizes and places are checked before anything is read; paths stay in the workspace; what a terminal would obey is spelled
out. What the program printed is its own text and comes back as it is.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saccade.guest.outbox import REPORT_ROOM, Layout
from saccade.record.status import Status
from saccade.sandbox.channel import GuestFaultError, parse
from saccade.sandbox.limits import Limits
from saccade.sandbox.result import Picture, PictureMode, PictureSource, Repair, RunResult, Timings, WrittenFile

QUICK_BYTES = 4 << 20
"""What can be read at once without holding up whoever else waits; more is read in a thread."""
_CHUNK = 1 << 20
_BYTES_PER_PIXEL = {"L": 1, "RGB": 3, "RGBA": 4}
# Control characters but tab and newline, the second set of them (0x80 on), and halves of surrogate pairs.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_Count = Annotated[int, Field(ge=0, le=1 << 62)]


class _Loose(BaseModel):
    # Strict types, but unknown fields are dropped: they are a guest's words.
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class _Picture(_Loose):
    source: PictureSource
    mode: PictureMode
    width: int = Field(ge=1, le=1 << 20)
    height: int = Field(ge=1, le=1 << 20)
    offset: int = Field(ge=0, le=1 << 48)
    path: str | None = Field(default=None, max_length=4096)


class _File(_Loose):
    path: str = Field(max_length=4096)
    size: int = Field(ge=0, le=1 << 48)


class _Repair(_Loose):
    name: str = Field(max_length=100)
    note: str = Field(max_length=2000)


class _Report(_Loose):
    status: Literal["ok", "error", "out_of_memory", "refused"]
    stdout: tuple[_Count, _Count] = Field(strict=False)
    stderr: tuple[_Count, _Count] = Field(strict=False)
    value: str | None = Field(default=None, max_length=100_000)
    traceback: str | None = Field(default=None, max_length=100_000)
    pictures: list[_Picture] = Field(max_length=1024)
    files: list[_File] = Field(max_length=1000)
    repairs: list[_Repair] = Field(max_length=1000)
    notes: list[str] = Field(max_length=1000)
    run: float = Field(ge=0, le=1e6, strict=False)
    cpu: float = Field(ge=0, le=1e6, strict=False)
    capture: float = Field(ge=0, le=1e6, strict=False)


@dataclass(frozen=True)
class CheckedReport:
    """A report whose claims hold, before what it speaks of is read. `bytes` is how much that is."""

    report: _Report
    layout: Layout
    bytes: int

    async def read(self, fd: int) -> RunResult:
        """As `result`, in a thread if it takes long."""
        return await _beside(self.result, fd, self.bytes)

    def result(self, fd: int) -> RunResult:
        """Read text and pixels from the outbox `fd`. Raises `GuestFaultError` if they are not there."""
        report, layout = self.report, self.layout
        return RunResult(
            status=Status(report.status),
            stdout=_text(fd, layout.stdout, report.stdout),
            stderr=_text(fd, layout.stderr, report.stderr),
            value=_shown(report.value),
            traceback=_shown(report.traceback),
            pictures=tuple(_picture(fd, picture) for picture in report.pictures),
            files=tuple(WrittenFile(_path(file.path), file.size) for file in report.files),
            repairs=tuple(Repair(_plain(repair.name), _plain(repair.note)) for repair in report.repairs),
            notes=tuple(_plain(note[:2000]) for note in report.notes),
            timings=Timings(run=report.run, cpu=report.cpu, capture=report.capture),
        )


async def _beside(read: Callable[[int], RunResult], fd: int, size: int) -> RunResult:
    """What `read` makes of `size` bytes of the outbox `fd`; in a thread if they are many."""
    if size <= QUICK_BYTES:
        return read(fd)
    # The session may be closed meanwhile, and the number of its outbox be another file's.
    own = os.dup(fd)

    def read_own() -> RunResult:
        try:
            return read(own)
        finally:
            os.close(own)

    return await asyncio.to_thread(read_own)


def check_report(fd: int, length: object, layout: Layout, limits: Limits) -> CheckedReport:
    """The report of `length` bytes in outbox `fd`; `GuestFaultError` if it is unsound. Quick, whatever it says."""
    if not isinstance(length, int) or not 0 < length <= REPORT_ROOM:
        raise GuestFaultError("a report of impossible length")
    try:
        report = _Report.model_validate(parse(os.pread(fd, length, layout.report)))
    except ValidationError as error:
        first = error.errors()[0]
        raise GuestFaultError(_plain(f"a report with a wrong field: {first['loc']} {first['msg']}"[:300])) from None
    for kept, total in (report.stdout, report.stderr):
        if kept > min(limits.output_bytes, total):
            raise GuestFaultError("an output of impossible length")
    for path in (*(file.path for file in report.files), *(picture.path for picture in report.pictures)):
        if path is not None:
            _path(path)
    pixels = _check_pictures(fd, report.pictures, layout, limits)
    return CheckedReport(report, layout, pixels + report.stdout[0] + report.stderr[0])


def read_report(fd: int, length: object, layout: Layout, limits: Limits) -> RunResult:
    """The result of a call whose report of `length` bytes lies in outbox `fd`; `GuestFaultError` if it is unsound."""
    return check_report(fd, length, layout, limits).result(fd)


async def cut_short(fd: int, layout: Layout, limits: Limits, status: Status, why: str) -> RunResult:
    """The result of a call that did not report: what it had printed until then, and why it ended."""
    most = limits.output_bytes

    def read(fd: int) -> RunResult:
        stdout, stderr = (read_text(fd, offset, most, None) for offset in (layout.stdout, layout.stderr))
        return RunResult(status=status, stdout=stdout, stderr=stderr, traceback=_shown(why))

    return await _beside(read, fd, 2 * most)


def read_text(fd: int, offset: int, most: int, counts: tuple[int, int] | None) -> str:
    """Text of a stream region; `counts` is (bytes kept, bytes written), or None after a kill, when nobody counted."""
    if counts is not None:
        return _text(fd, offset, counts)
    data = memoryview(os.pread(fd, most, offset).rstrip(b"\0"))
    return _decoded(data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))


def _text(fd: int, offset: int, counts: tuple[int, int]) -> str:
    kept, total = counts
    text = _decoded(os.pread(fd, min(_CHUNK, kept - start), offset + start) for start in range(0, kept, _CHUNK))
    if total > kept:
        text += f"\n[output cut: the first {kept:,} of {total:,} bytes are shown]"
    return text


def _decoded(parts: Iterable[bytes | memoryview]) -> str:
    """The text of pieces of UTF-8. Nobody else may run while one of them is decoded, so they should be small."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = [decoder.decode(part) for part in parts]
    return "".join((*texts, decoder.decode(b"", final=True)))


def _check_pictures(fd: int, claimed: list[_Picture], layout: Layout, limits: Limits) -> int:
    """Bytes of all pictures together, once it is clear that they may be and are where the report says."""
    if len(claimed) > limits.pictures:
        raise GuestFaultError("more pictures than allowed")
    pixels = total = 0
    for picture in claimed:
        size = picture.width * picture.height
        pixels += size
        if size > limits.picture_pixels or pixels > limits.total_pixels:
            raise GuestFaultError("a picture larger than allowed")
        length = _length(picture)
        if picture.offset < layout.pictures or picture.offset + length > layout.size:
            raise GuestFaultError("a picture outside the outbox")
        if _first_hole(fd, picture.offset) < picture.offset + length:
            raise GuestFaultError("a picture that was never written")
        total += length
    return total


def _length(picture: _Picture) -> int:
    return picture.width * picture.height * _BYTES_PER_PIXEL[picture.mode]


def _first_hole(fd: int, offset: int) -> int:
    """Where the memory from `offset` on ends that was ever written to."""
    try:
        return os.lseek(fd, offset, os.SEEK_HOLE)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return offset


def _picture(fd: int, claimed: _Picture) -> Picture:
    data = os.pread(fd, _length(claimed), claimed.offset)
    if len(data) != _length(claimed):
        raise GuestFaultError("a picture cut short")
    path = None if claimed.path is None else _path(claimed.path)
    return Picture(claimed.source, claimed.mode, claimed.width, claimed.height, data, path)


def _path(path: str) -> str:
    """A path of the workspace in its plain form, with unprintable characters spelled out."""
    pure = PurePosixPath(path)
    if "\0" in path or pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise GuestFaultError("the path of a file outside the workspace")
    return _plain(str(pure))


def _plain(text: str) -> str:
    """One line that a terminal shows and does not obey."""
    return _UNPRINTABLE.sub(_spelled, text).replace("\n", "\\n")


def _shown(text: str | None) -> str | None:
    """Lines that a terminal shows and does not obey."""
    return None if text is None else _UNPRINTABLE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
