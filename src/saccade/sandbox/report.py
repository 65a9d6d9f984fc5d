"""From a guest's report and outbox to a `RunResult`: every field checked, since a hostile program wrote them.

Sizes and places are checked before anything is read; paths stay in the workspace; what a terminal would obey is spelled
out. What the program printed is its own text and comes back as it is.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, ValidationError

from saccade.core.unseen import spelled
from saccade.guest.wire import ARRAY_TYPES, DATA_BYTES, REPORT_ROOM, Layout
from saccade.record.execution import Status
from saccade.sandbox.base import Limits
from saccade.sandbox.channel import GuestFaultError, parse
from saccade.sandbox.result import Picture, PictureMode, PictureSource, Repair, RunResult, Timings, WrittenFile

QUICK_BYTES = 4 << 20
"""What can be read at once without holding up whoever else waits; more is read in a thread."""
TEXT_COST = 8
"""One byte of text takes as long as so many of pixels: it has to be decoded, whatever it is."""
MOST_CONTAINERS = 4096
"""Lists and objects of a report; an honest one has at most a few more than there may be pictures, files and repairs."""
MOST_TEXT = 100_000
"""Characters of a value or a traceback."""
_CHUNK = 1 << 20
_BYTES_PER_PIXEL = {"L": 1, "RGB": 3, "RGBA": 4}
_Count = Annotated[int, Field(ge=0, le=1 << 62)]


def _path(path: str) -> str:
    """Return a path of the workspace in its plain form, with unprintable characters spelled out."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if "\0" in path or path.startswith("/") or ".." in parts or not parts:
        raise GuestFaultError("the path of a file outside the workspace")
    return _plain("/".join(parts))


_Path = Annotated[str, Field(max_length=4096), AfterValidator(_path)]


class _Loose(BaseModel):
    # Strict types, but unknown fields are dropped: they are a guest's words.
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class _Picture(_Loose):
    source: PictureSource
    mode: PictureMode
    width: int = Field(ge=1, le=1 << 20)
    height: int = Field(ge=1, le=1 << 20)
    offset: int = Field(ge=0, le=1 << 48)
    path: _Path | None = None


class _File(_Loose):
    path: _Path
    size: int = Field(ge=0, le=1 << 48)


class _Repair(_Loose):
    name: str = Field(max_length=100)
    note: str = Field(max_length=2000)


class _Report(_Loose):
    status: Literal["ok", "error", "out_of_memory", "refused"]
    stdout: tuple[_Count, _Count] = Field(strict=False)
    stderr: tuple[_Count, _Count] = Field(strict=False)
    value: str | None = Field(default=None, max_length=MOST_TEXT)
    data: str | None = Field(default=None, max_length=MOST_TEXT)
    traceback: str | None = Field(default=None, max_length=MOST_TEXT)
    pictures: Annotated[list[_Picture], FailFast()] = Field(max_length=1024)
    files: Annotated[list[_File], FailFast()] = Field(max_length=1000)
    repairs: Annotated[list[_Repair], FailFast()] = Field(max_length=1000)
    notes: Annotated[list[str], FailFast()] = Field(max_length=1000)
    run: float = Field(ge=0, le=1e6, strict=False)
    cpu: float = Field(ge=0, le=1e6, strict=False)
    capture: float = Field(ge=0, le=1e6, strict=False)


@dataclass(frozen=True)
class CheckedReport:
    """A report whose claims hold, before what it speaks of is read. `bytes` is how much that is, in bytes of pixels."""

    report: _Report
    layout: Layout
    bytes: int

    async def read(self, fd: int) -> RunResult:
        """Read like `result`, in a thread if it takes long."""
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
            files=tuple(WrittenFile(file.path, file.size) for file in report.files),
            repairs=tuple(Repair(_plain(repair.name), _plain(repair.note)) for repair in report.repairs),
            notes=tuple(_plain(note[:2000]) for note in report.notes),
            timings=Timings(run=report.run, cpu=report.cpu, capture=report.capture),
            plain=None if report.data is None else _data(fd, report.data, layout),
        )


class _Array(_Loose):
    array: str
    shape: list[Annotated[int, Field(ge=0, le=DATA_BYTES)]] = Field(max_length=32)
    offset: int = Field(ge=0, le=1 << 48)


def _data(fd: int, text: str, layout: Layout) -> Any:
    """Return the last value: JSON, or an array whose bytes are in the outbox `fd`. Never unpickled, and a copy."""
    value = parse(text.encode(), MOST_CONTAINERS)
    if "array" not in value:
        return value.get("data")
    try:
        claimed = _Array.model_validate(value)
    except ValidationError as error:
        raise GuestFaultError("an array that cannot be") from error
    if claimed.array not in ARRAY_TYPES:
        raise GuestFaultError("an array of impossible type")
    kind = np.dtype(claimed.array)
    length = math.prod(claimed.shape) * kind.itemsize
    if length > DATA_BYTES or not layout.pictures <= claimed.offset <= layout.size - length:
        raise GuestFaultError("an array outside the outbox")
    data = os.pread(fd, length, claimed.offset)
    return np.frombuffer(data, kind).reshape(claimed.shape).copy()


async def _beside(read: Callable[[int], RunResult], fd: int, size: int) -> RunResult:
    """Return what `read` makes of `size` bytes (of pixels) of the outbox `fd`; in a thread if they are many."""
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
    """Return the report in outbox `fd`, quickly whatever it says. Raises `GuestFaultError` if it is unsound."""
    if not isinstance(length, int) or not 0 < length <= REPORT_ROOM:
        raise GuestFaultError("a report of impossible length")
    try:
        report = _Report.model_validate(parse(os.pread(fd, length, layout.report), MOST_CONTAINERS))
    except ValidationError as error:
        first = error.errors()[0]
        raise GuestFaultError(_plain(f"a report with a wrong field: {first['loc']} {first['msg']}"[:300])) from None
    for kept, total in (report.stdout, report.stderr):
        if kept > min(limits.output_bytes, total):
            raise GuestFaultError("an output of impossible length")
    pixels = _check_pictures(fd, report.pictures, layout, limits)
    return CheckedReport(report, layout, pixels + TEXT_COST * (report.stdout[0] + report.stderr[0]))


async def cut_short(fd: int, layout: Layout, limits: Limits, status: Status, why: str) -> RunResult:
    """Return the result of a call that did not report: what it had printed until then, and why it ended."""
    most = limits.output_bytes

    def read(fd: int) -> RunResult:
        stdout, stderr = (read_text(fd, offset, most) for offset in (layout.stdout, layout.stderr))
        return RunResult(status=status, stdout=stdout, stderr=stderr, traceback=_shown(why))

    return await _beside(read, fd, TEXT_COST * 2 * most)


def read_text(fd: int, offset: int, most: int) -> str:
    """Read the text of a stream after a kill, when nobody has counted its bytes."""
    data = memoryview(os.pread(fd, most, offset).rstrip(b"\0"))
    return _decoded(data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))


def _text(fd: int, offset: int, counts: tuple[int, int]) -> str:
    kept, total = counts
    if not total:
        return ""
    if kept <= _CHUNK:
        text = os.pread(fd, kept, offset).decode("utf-8", "replace")
    else:
        text = _decoded(os.pread(fd, min(_CHUNK, kept - start), offset + start) for start in range(0, kept, _CHUNK))
    if total > kept:
        text += f"\n[output cut: the first {kept:,} of {total:,} bytes are shown]"
    return text


def _decoded(parts: Iterable[bytes | memoryview]) -> str:
    """Return the text of pieces of UTF-8. Nobody else may run while one of them is decoded, so they should be small."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = [decoder.decode(part) for part in parts]
    return "".join((*texts, decoder.decode(b"", final=True)))


def _check_pictures(fd: int, claimed: list[_Picture], layout: Layout, limits: Limits) -> int:
    """Return bytes of all pictures together, once it is clear that they may be and are where the report says."""
    if len(claimed) > limits.pictures:
        raise GuestFaultError("more pictures than allowed")
    pixels = total = written = 0
    # In their order in memory, each piece of which is then gone through once, however many pictures claim it.
    for picture in sorted(claimed, key=lambda picture: picture.offset):
        size = picture.width * picture.height
        pixels += size
        if size > limits.picture_pixels or pixels > limits.total_pixels:
            raise GuestFaultError("a picture larger than allowed")
        length = _length(picture)
        if picture.offset < layout.pictures or picture.offset + length > layout.size:
            raise GuestFaultError("a picture outside the outbox")
        if written <= picture.offset:
            written = _first_hole(fd, picture.offset)
        if written < picture.offset + length:
            raise GuestFaultError("a picture that was never written")
        total += length
    return total


def _length(picture: _Picture) -> int:
    return picture.width * picture.height * _BYTES_PER_PIXEL[picture.mode]


def _first_hole(fd: int, offset: int) -> int:
    """Return where the memory from `offset` on ends that was ever written to."""
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
    return Picture(claimed.source, claimed.mode, claimed.width, claimed.height, data, claimed.path)


def _plain(text: str) -> str:
    """Return one line that a terminal shows and does not obey."""
    return spelled(text).replace("\n", "\\n")


def _shown(text: str | None) -> str | None:
    """Return lines that a terminal shows and does not obey, not longer than a report's may be."""
    if text is None:
        return None
    shown = spelled(text)
    if len(shown) > MOST_TEXT:
        return f"{shown[:MOST_TEXT]} [cut: the first {MOST_TEXT:,} of {len(shown):,} characters are shown]"
    return shown
