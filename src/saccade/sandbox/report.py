"""From a guest's report and outbox to a `RunResult`: every field checked, since a hostile program wrote them."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saccade.guest.outbox import Layout
from saccade.record.status import Status
from saccade.sandbox.channel import GuestFaultError, parse
from saccade.sandbox.limits import Limits
from saccade.sandbox.result import Picture, PictureMode, PictureSource, Repair, RunResult, Timings, WrittenFile

_BYTES_PER_PIXEL = {"L": 1, "RGB": 3, "RGBA": 4}


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
    stdout: tuple[int, int] = Field(strict=False)
    stderr: tuple[int, int] = Field(strict=False)
    value: str | None = Field(default=None, max_length=100_000)
    traceback: str | None = Field(default=None, max_length=100_000)
    pictures: list[_Picture] = Field(max_length=1024)
    files: list[_File] = Field(max_length=100_000)
    repairs: list[_Repair] = Field(max_length=1000)
    notes: list[str] = Field(max_length=1000)
    run: float = Field(ge=0, le=1e6, strict=False)
    cpu: float = Field(ge=0, le=1e6, strict=False)
    capture: float = Field(ge=0, le=1e6, strict=False)


def read_report(fd: int, length: object, layout: Layout, limits: Limits) -> RunResult:
    """The result of a call whose report of `length` bytes lies in outbox `fd`; `GuestFaultError` if it is unsound."""
    if not isinstance(length, int) or not 0 < length <= layout.stdout - layout.report:
        raise GuestFaultError("a report of impossible length")
    try:
        report = _Report.model_validate(parse(os.pread(fd, length, layout.report)))
    except ValidationError as error:
        first = error.errors()[0]
        raise GuestFaultError(f"a report with a wrong field: {first['loc']} {first['msg']}"[:300]) from None
    return RunResult(
        status=Status(report.status),
        stdout=read_text(fd, layout.stdout, limits.output_bytes, report.stdout),
        stderr=read_text(fd, layout.stderr, limits.output_bytes, report.stderr),
        value=report.value,
        traceback=report.traceback,
        pictures=_pictures(fd, report.pictures, layout, limits),
        files=tuple(WrittenFile(file.path, file.size) for file in report.files),
        repairs=tuple(Repair(repair.name, repair.note) for repair in report.repairs),
        notes=tuple(note[:2000] for note in report.notes),
        timings=Timings(run=report.run, cpu=report.cpu, capture=report.capture),
    )


def read_text(fd: int, offset: int, most: int, counts: tuple[int, int] | None) -> str:
    """Text of a stream region; `counts` is (bytes kept, bytes written), or None after a kill, when nobody counted."""
    if counts is None:
        return os.pread(fd, most, offset).rstrip(b"\0").decode("utf-8", "replace")
    kept, total = counts
    if not 0 <= kept <= min(most, total):
        raise GuestFaultError("an output of impossible length")
    text = os.pread(fd, kept, offset).decode("utf-8", "replace")
    if total > kept:
        text += f"\n[output cut: the first {kept:,} of {total:,} bytes are shown]"
    return text


def _pictures(fd: int, claimed: list[_Picture], layout: Layout, limits: Limits) -> tuple[Picture, ...]:
    if len(claimed) > limits.pictures:
        raise GuestFaultError("more pictures than allowed")
    pictures = []
    pixels = 0
    for picture in claimed:
        size = picture.width * picture.height
        pixels += size
        length = size * _BYTES_PER_PIXEL[picture.mode]
        if size > limits.picture_pixels or pixels > limits.total_pixels:
            raise GuestFaultError("a picture larger than allowed")
        if picture.offset < layout.pictures or picture.offset + length > layout.size:
            raise GuestFaultError("a picture outside the outbox")
        data = os.pread(fd, length, picture.offset)
        if len(data) != length:
            raise GuestFaultError("a picture cut short")
        pictures.append(Picture(picture.source, picture.mode, picture.width, picture.height, data, picture.path))
    return tuple(pictures)
