"""Results, bindings and errors as frames: what the client and the server of a remote sandbox both need.

A result comes back exactly: text as it was, pictures pixel for pixel. Bindings travel as JSON values or as names of
pictures, whose pixels are sent only if the other side lacks them. This module does no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from typing import cast, get_args

from saccade.errors import ProtocolError, SettingsError
from saccade.record.status import Status
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.base import Binding, LazyImage
from saccade.sandbox.remote_pixels import Pixels, from_lazy, pixels_of, read_png
from saccade.sandbox.result import Picture, PictureSource, Repair, RunResult, Timings, WrittenFile

_TEXTS = {"status", "stdout", "stderr", "value", "traceback", "notes", "layers"}
_RESULT = frozenset(_TEXTS | {"pictures", "files", "repairs", "committed", "timings"})
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
    pictures = [Pixels(shown.mode, shown.width, shown.height, shown.data).png() for shown in result.pictures]
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
    """Bindings ready to send: what goes into the message, and where the pixels of each named picture come from."""

    fields: Mapping[str, object] = field(default_factory=dict)
    pixels: Mapping[str, Callable[[], Pixels]] = field(default_factory=dict, repr=False)
    """Picture name (sha256) -> its pixels; called only for a picture that the server lacks."""


class Outbox:
    """Turns bindings into what is sent. Remembers under which name a lazy image travels, so it is decoded once."""

    def __init__(self) -> None:
        self._lazy: dict[str, str] = {}

    def prepare(self, bindings: Mapping[str, Binding]) -> Outgoing:
        """`bindings` ready to send. Hashes and perhaps decodes pixels: call it off the event loop."""
        fields: dict[str, object] = {}
        pixels: dict[str, Callable[[], Pixels]] = {}
        for name, value in bindings.items():
            if isinstance(value, Pixels):
                sha256 = value.sha256()
                pixels[sha256] = _constant(value)
            elif isinstance(value, LazyImage):
                sha256 = self._name_of(value)
                pixels[sha256] = _decoder(value)
            else:
                fields[name] = {"value": value}
                continue
            fields[name] = {"picture": sha256}
        return Outgoing(fields, pixels)

    def _name_of(self, lazy: LazyImage) -> str:
        known = self._lazy.get(lazy.sha256)
        if known is None:
            known = self._lazy[lazy.sha256] = from_lazy(lazy).sha256()
        return known


def _constant(pixels: Pixels) -> Callable[[], Pixels]:
    return lambda: pixels


def _decoder(lazy: LazyImage) -> Callable[[], Pixels]:
    return lambda: from_lazy(lazy)


def snapshot(bindings: Mapping[str, Binding]) -> dict[str, Binding]:
    """`bindings` as they are now: pictures that could still be changed are copied; lazy images stay lazy.

    Raises:
        SettingsError: a name is no Python identifier, or a value can be neither shown nor written as JSON.
    """
    taken: dict[str, Binding] = {}
    for name, value in bindings.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise SettingsError(f"{name!r} cannot be bound: it is no Python identifier.")
        taken[name] = _taken(name, value)
    return taken


def _taken(name: str, value: Binding) -> Binding:
    pixels = pixels_of(value)
    if pixels is not None:
        return pixels
    if isinstance(value, LazyImage):
        return value
    try:
        fields, _ = wire.unpack(wire.pack({"value": value}))
    except ProtocolError as error:
        raise SettingsError(
            f"{name!r} cannot be bound: a {type(value).__name__} is neither a picture nor a JSON value."
        ) from error
    return fields["value"]


def unpack_bindings(fields: object, picture: Callable[[str], LazyImage]) -> dict[str, Binding]:
    """The bindings in a message; `picture` finds a picture by its name (and may raise). Checked like all input."""
    if not isinstance(fields, dict):
        raise ProtocolError("`bindings` must be an object.")
    bindings: dict[str, Binding] = {}
    for name, about in fields.items():
        if not isinstance(about, dict) or about.keys() not in ({"value"}, {"picture"}):
            raise ProtocolError("a binding must be an object of either `value` or `picture`.")
        if "value" in about:
            bindings[name] = about["value"]
        elif wire.is_hex(about["picture"], 64):
            bindings[name] = picture(about["picture"])
        else:
            raise ProtocolError("a picture is named by the 64 hexadecimal digits of a sha256.")
    return bindings
