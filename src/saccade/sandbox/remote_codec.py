"""Results, bindings and errors as frames: what the client and the server of a remote sandbox both need.

A result comes back exactly: text as it was, pictures pixel for pixel. Bindings travel as JSON values or as names of
pictures, whose pixels are sent only if the other side lacks them; a lazy image stays behind until a guest looks at it.
This module does no IO.
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from typing import cast, get_args

import numpy as np

from saccade.errors import ProtocolError, SandboxError
from saccade.record.status import Status
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.base import Binding, LazyImage, VideoFile
from saccade.sandbox.remote_pixels import RawPixels, check_size, lazy_mode, pixels_of, read_png
from saccade.sandbox.result import Picture, PictureMode, PictureSource, Repair, RunResult, Timings, WrittenFile

_TEXTS = {"status", "stdout", "stderr", "value", "traceback", "notes", "layers"}
_RESULT = frozenset(_TEXTS | {"pictures", "files", "repairs", "committed", "timings"})
_KINDS: tuple[set[str], ...] = (
    {"value"},
    {"picture"},
    {"array", "shape"},
    {"lazy", "mode", "width", "height"},
    {"video"},
)
_PICTURE = frozenset({"source", "path"})
_TIMINGS = ("wall", "run", "cpu", "capture")


def pack_result(result: RunResult) -> bytes:
    """A result as one frame; pictures as PNG blobs, in order. Takes time for big pictures: call it off the loop."""
    fields = {
        "status": result.status.value,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "value": result.value,
        "traceback": result.traceback,
        "pictures": [{"source": picture.source, "path": picture.path} for picture in result.pictures],
        "files": [{"path": file.path, "size": file.size} for file in result.files],
        "repairs": [{"name": repair.name, "note": repair.note} for repair in result.repairs],
        "notes": list(result.notes),
        "committed": result.committed,
        "timings": dict(zip(_TIMINGS, astuple(result.timings), strict=True)),
        "layers": list(result.layers),
    }
    pictures = [RawPixels(shown.mode, shown.width, shown.height, shown.data).png() for shown in result.pictures]
    return wire.pack(fields, pictures)


def unpack_result(data: bytes) -> RunResult:
    """The result in a frame; raises `ProtocolError` for anything that `pack_result` cannot have written."""
    fields, blobs = wire.unpack(data)
    wire.keys(fields, _RESULT)
    pictures = wire.items(fields, "pictures")
    if len(pictures) != len(blobs):
        raise ProtocolError("the result announces another number of pictures than it holds.")
    timings = wire.keys(fields["timings"], frozenset(_TIMINGS))
    return RunResult(
        status=_status(wire.text(fields, "status")),
        stdout=wire.text(fields, "stdout"),
        stderr=wire.text(fields, "stderr"),
        value=wire.optional_text(fields, "value"),
        traceback=wire.optional_text(fields, "traceback"),
        pictures=tuple(_picture(about, blob) for about, blob in zip(pictures, blobs, strict=True)),
        files=tuple(_file(about) for about in wire.items(fields, "files", most=1 << 20)),
        repairs=tuple(_repair(about) for about in wire.items(fields, "repairs")),
        notes=wire.texts(fields, "notes"),
        committed=wire.flag(fields, "committed"),
        timings=Timings(**{name: wire.number(timings, name) for name in _TIMINGS}),
        layers=wire.texts(fields, "layers"),
    )


def _status(name: str) -> Status:
    try:
        return Status(name)
    except ValueError as error:
        raise ProtocolError(f"unknown status {name!r}.") from error


def _picture(about: object, png: bytes) -> Picture:
    fields = wire.keys(about, _PICTURE)
    source = wire.text(fields, "source")
    if source not in get_args(PictureSource):
        raise ProtocolError(f"unknown picture source {source!r}.")
    pixels = read_png(png)
    return Picture(
        source=cast(PictureSource, source),
        mode=pixels.mode,
        width=pixels.width,
        height=pixels.height,
        data=pixels.data,
        path=wire.optional_text(fields, "path"),
    )


def _file(about: object) -> WrittenFile:
    fields = wire.keys(about, frozenset({"path", "size"}))
    return WrittenFile(path=wire.text(fields, "path"), size=wire.integer(fields, "size"))


def _repair(about: object) -> Repair:
    fields = wire.keys(about, frozenset({"name", "note"}))
    return Repair(name=wire.text(fields, "name"), note=wire.text(fields, "note"))


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Bindings ready to send: what goes into the message, and the pixels that it names."""

    fields: Mapping[str, object] = field(default_factory=dict)
    pixels: Mapping[str, RawPixels] = field(default_factory=dict, repr=False)
    """Name of a picture (sha256) -> its pixels, which are sent only if the server lacks them."""


@dataclass(frozen=True, slots=True)
class ArrayPixels:
    """A numpy picture: its pixels and the shape with which it is to arrive."""

    pixels: RawPixels
    shape: tuple[int, ...]


def prepare(bindings: Mapping[str, Binding]) -> Outgoing:
    """A `snapshot` ready to send. Hashes pixels: call it off the event loop. Lazy images stay undecoded."""
    fields: dict[str, object] = {}
    pixels: dict[str, RawPixels] = {}
    for name, value in bindings.items():
        if isinstance(value, ArrayPixels):
            sha256 = value.pixels.sha256()
            pixels[sha256] = value.pixels
            fields[name] = {"array": sha256, "shape": list(value.shape)}
        elif isinstance(value, RawPixels):
            sha256 = value.sha256()
            pixels[sha256] = value
            fields[name] = {"picture": sha256}
        elif isinstance(value, VideoFile):
            fields[name] = {"video": value.path}
        elif isinstance(value, LazyImage):
            size = {"mode": lazy_mode(value), "width": value.width, "height": value.height}
            fields[name] = {"lazy": value.sha256, **size}
        else:
            fields[name] = {"value": value}
    return Outgoing(fields, pixels)


def snapshot(bindings: Mapping[str, Binding]) -> dict[str, Binding]:
    """`bindings` as they are now: pictures and values that could still be changed are copied; lazy images stay lazy.

    Raises:
        SandboxError: a name is no name for a variable, or a value is neither a picture nor a JSON value.
        TooLargeError: a picture has more pixels than can travel.
    """
    taken: dict[str, Binding] = {}
    for name, value in bindings.items():
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
            raise SandboxError(f"{name!r} is not a name for a variable: use a Python identifier such as image_clue_0.")
        taken[name] = _taken(name, value)
    return taken


def _taken(name: str, value: Binding) -> Binding:
    pixels = pixels_of(value)
    if pixels is not None:
        return ArrayPixels(pixels, value.shape) if isinstance(value, np.ndarray) else pixels
    if isinstance(value, VideoFile):
        return value
    if isinstance(value, LazyImage):
        if not wire.is_hex(value.sha256, 64):
            raise SandboxError(f"{name!r} cannot be bound: its sha256 is not 64 hexadecimal digits.")
        check_size(lazy_mode(value), value.width, value.height)
        return value
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise SandboxError(
            f"{name!r} cannot be bound: {type(value).__name__} is neither a picture nor a JSON value ({error}). "
            "Pass a Pillow image, a uint8 array, a picture of the media store, a VideoFile, or plain JSON values."
        ) from error


def picture_names(fields: object) -> set[str]:
    """The pictures (sha256) that the bindings of a message name; checks all names and kinds on the way."""
    if not isinstance(fields, dict):
        raise ProtocolError("`bindings` must be an object.")
    names = set()
    for about in fields.values():
        kind = about.keys() if isinstance(about, dict) else None
        if kind not in _KINDS:
            raise ProtocolError("a binding must be an object of a known kind.")
        if "value" in about or "video" in about:
            continue
        sha256 = about.get("picture", about.get("array", about.get("lazy")))
        if not wire.is_hex(sha256, 64):
            raise ProtocolError("a picture is named by the 64 hexadecimal digits of a sha256.")
        if "lazy" not in about:
            names.add(sha256)
    return names


LazyMaker = Callable[[str, PictureMode, int, int], LazyImage]
"""Makes a lazy image from sha256, mode, width and height."""


def unpack_bindings(fields: object, pictures: Mapping[str, LazyImage], lazy: LazyMaker) -> dict[str, Binding]:
    """The bindings of a message; `pictures` holds every picture of `picture_names`. Decodes arrays: off the loop."""
    picture_names(fields)
    bindings: dict[str, Binding] = {}
    for name, about in cast("dict[str, dict[str, object]]", fields).items():
        if "value" in about:
            bindings[name] = about["value"]
        elif "video" in about:
            bindings[name] = VideoFile(wire.text(about, "video"))
        elif "picture" in about:
            bindings[name] = pictures[wire.text(about, "picture")]
        elif "array" in about:
            bindings[name] = _array(pictures[wire.text(about, "array")], wire.items(about, "shape", most=3))
        else:
            mode, width, height = wire.text(about, "mode"), wire.integer(about, "width"), wire.integer(about, "height")
            check_size(mode, width, height)
            bindings[name] = lazy(wire.text(about, "lazy"), cast(PictureMode, mode), width, height)
    return bindings


def _array(picture: LazyImage, shape: list[object]) -> Binding:
    pixels = np.array(picture.decode())
    if any(type(side) is not int for side in shape) or math.prod(cast("list[int]", shape)) != pixels.size:
        raise ProtocolError("an array does not have the shape that was announced.")
    return pixels.reshape(cast("list[int]", shape))
