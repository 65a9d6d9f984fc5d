"""Results and bindings as frames: what the client and the server of a remote sandbox both need.

A result comes back exactly: text as it was, pictures pixel for pixel. Bindings travel as JSON values or as names of
pictures, whose pixels are sent only if the other side lacks them; a lazy image stays behind until a guest looks at it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from saccade.core.png import PNG_COLOURS, quick_image, quick_png
from saccade.errors import ProtocolError, SandboxError, TooLargeError
from saccade.record.execution import Status
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.base import Binding, LazyImage, VideoFile, as_json, check_name
from saccade.sandbox.result import Picture, PictureMode, PictureSource, Repair, RunResult, Timings, WrittenFile

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE = 65_500
MAX_PIXELS = 400_000_000
"""Most pixels of one picture on the wire."""
_PNG_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@dataclass(frozen=True, slots=True)
class RawPixels:
    """Raw pixels, rows from top to bottom; both sides name a picture by the sha256 over its mode, size and pixels."""

    mode: PictureMode
    width: int
    height: int
    data: bytes = field(repr=False)

    def sha256(self) -> str:
        """Return the name of this picture on the wire, 64 hexadecimal digits."""
        digest = hashlib.sha256(f"{self.mode} {self.width} {self.height}\n".encode())
        digest.update(self.data)
        return digest.hexdigest()

    def image(self) -> Image:
        """Return the picture as a Pillow image."""
        from PIL import Image

        return Image.frombytes(self.mode, (self.width, self.height), self.data)

    def png(self) -> bytes:
        """Return the picture as PNG."""
        return quick_png(self.image())


def pixels_of(value: object) -> RawPixels | None:
    """Return a snapshot of a Pillow image, a numpy uint8 picture or a `Picture`; None if `value` is none of these.

    A Pillow image of another mode becomes RGBA if it can be transparent, else RGB.

    Raises:
        SandboxError: an array of another type or shape than a picture has.
        TooLargeError: more pixels than can travel.
    """
    from PIL import Image

    if isinstance(value, Picture):
        pixels = RawPixels(value.mode, value.width, value.height, value.data)
        if len(pixels.data) != pixels.width * pixels.height * len(pixels.mode):
            raise SandboxError("a Picture's data does not have width * height * channels bytes.")
    elif isinstance(value, Image.Image):
        pixels = _from_image(value)
    elif isinstance(value, np.ndarray):
        pixels = _from_array(value)
    else:
        return None
    check_size(pixels.mode, pixels.width, pixels.height)
    return pixels


def lazy_mode(lazy: LazyImage) -> PictureMode:
    """Return the mode in which a lazy image is bound: its own if it states one, else RGB."""
    mode = getattr(lazy, "mode", "RGB")
    return cast(PictureMode, mode) if mode in PNG_COLOURS else "RGB"


def from_lazy(lazy: LazyImage) -> RawPixels:
    """Return the decoded pixels of a lazy image; whatever its `decode` raises passes through."""
    image = lazy.decode()
    mode = lazy_mode(lazy)
    pixels = _from_image(image if image.mode == mode else image.convert(mode))
    check_size(pixels.mode, pixels.width, pixels.height)
    return pixels


def check_size(mode: str, width: int, height: int) -> None:
    """Raise `TooLargeError` unless a picture of that mode and size may travel."""
    if mode not in PNG_COLOURS or not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise TooLargeError(
            f"a picture of mode {mode} and {width}x{height} pixels cannot travel: "
            f"L, RGB or RGBA and sides of 1 to {MAX_SIDE} pixels can."
        )
    if width * height > MAX_PIXELS:
        raise TooLargeError(f"a picture of {width}x{height} pixels is over the limit of {MAX_PIXELS}; scale it down.")


def read_png(data: bytes) -> RawPixels:
    """Return the pixels of a PNG, whose size is checked before a pixel is decoded. Raises `ProtocolError`."""
    from PIL import PngImagePlugin

    mode, width, height = _png_header(data)
    if (quick := quick_image(data)) is not None:
        return RawPixels(mode, width, height, quick.tobytes())
    try:
        with PngImagePlugin.PngImageFile(io.BytesIO(data)) as image:
            image.load()
            if image.mode != mode or image.size != (width, height):
                raise ProtocolError("a PNG is not what its header says.")
            return RawPixels(mode, width, height, image.tobytes())
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise ProtocolError(f"a picture is not a whole PNG: {error}.") from error


def _png_header(data: bytes) -> tuple[PictureMode, int, int]:
    if len(data) < 33 or not data.startswith(_PNG_START):
        raise ProtocolError("a picture is not a PNG.")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    depth, colour = data[24], data[25]
    modes = [mode for mode, code in PNG_COLOURS.items() if code == colour]
    if depth != 8 or not modes:
        raise ProtocolError("a PNG is not of mode L, RGB or RGBA.")
    try:
        check_size(modes[0], width, height)
    except TooLargeError as error:
        raise ProtocolError(str(error)) from error
    return cast(PictureMode, modes[0]), width, height


def _from_image(image: Image) -> RawPixels:
    if image.mode not in PNG_COLOURS:
        transparent = image.mode in ("LA", "PA") or "transparency" in image.info
        image = image.convert("RGBA" if transparent else "RGB")
    return RawPixels(cast(PictureMode, image.mode), image.width, image.height, image.tobytes())


def _from_array(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> RawPixels:
    modes: dict[int, PictureMode] = {1: "L", 3: "RGB", 4: "RGBA"}
    channels = 1 if array.ndim == 2 else array.shape[-1] if array.ndim == 3 else 0
    if array.dtype != np.uint8 or channels not in modes:
        raise SandboxError(
            f"an array of type {array.dtype} and shape {array.shape} is no picture; "
            "bind uint8 of shape (height, width), (height, width, 3) or (height, width, 4)."
        )
    return RawPixels(modes[channels], array.shape[1], array.shape[0], array.tobytes())


_TEXTS = {"status", "stdout", "stderr", "value", "data", "traceback", "notes", "layers"}
_RESULT = frozenset(_TEXTS | {"pictures", "files", "repairs", "committed", "timings"})
_KINDS = ({"value"}, {"picture"}, {"array", "shape"}, {"lazy", "mode", "width", "height"}, {"video"})
_PICTURE = frozenset({"source", "path"})
_TIMINGS = ("wall", "run", "cpu", "capture")


def pack_result(result: RunResult) -> bytes:
    """Return a result as one frame; pictures as PNG blobs, in order. Takes time: call it off the loop."""
    fields = {
        "status": result.status.value,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "value": result.value,
        "data": _packed_data(result.plain),
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
    arrays = [np.ascontiguousarray(result.plain).tobytes()] if isinstance(result.plain, np.ndarray) else []
    return wire.pack(fields, [*pictures, *arrays])


def _packed_data(plain: object) -> str:
    if isinstance(plain, np.ndarray):
        return json.dumps({"array": plain.dtype.str, "shape": plain.shape})
    return json.dumps({"data": plain})


def _unpacked_data(text: str, blobs: Sequence[bytes]) -> Any:
    try:
        about = json.loads(text)
        return np.frombuffer(blobs[0], about["array"]).reshape(about["shape"]).copy() if blobs else about["data"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ProtocolError(f"the value of the result cannot be read: {error}") from error


def unpack_result(data: bytes) -> RunResult:
    """Return the result in a frame; raises `ProtocolError` for anything that `pack_result` cannot have written."""
    fields, blobs = wire.unpack(data)
    wire.keys(fields, _RESULT)
    pictures = wire.items(fields, "pictures")
    blobs, arrays = blobs[: len(pictures)], blobs[len(pictures) :]
    if len(pictures) != len(blobs) or len(arrays) > 1:
        raise ProtocolError("the result announces another number of pictures than it holds.")
    files = [wire.keys(about, frozenset({"path", "size"})) for about in wire.items(fields, "files", most=1 << 20)]
    repairs = [wire.keys(about, frozenset({"name", "note"})) for about in wire.items(fields, "repairs")]
    timings = wire.keys(fields["timings"], frozenset(_TIMINGS))
    if (status := wire.text(fields, "status")) not in list(Status):
        raise ProtocolError(f"unknown status {status!r}.")
    return RunResult(
        status=Status(status),
        stdout=wire.text(fields, "stdout"),
        stderr=wire.text(fields, "stderr"),
        value=wire.optional_text(fields, "value"),
        traceback=wire.optional_text(fields, "traceback"),
        pictures=tuple(_picture(about, blob) for about, blob in zip(pictures, blobs, strict=True)),
        files=tuple(WrittenFile(wire.text(file, "path"), wire.integer(file, "size")) for file in files),
        repairs=tuple(Repair(wire.text(repair, "name"), wire.text(repair, "note")) for repair in repairs),
        notes=wire.texts(fields, "notes"),
        committed=wire.flag(fields, "committed"),
        timings=Timings(**{name: wire.number(timings, name) for name in _TIMINGS}),
        layers=wire.texts(fields, "layers"),
        plain=_unpacked_data(wire.text(fields, "data"), arrays),
    )


def _picture(about: object, png: bytes) -> Picture:
    fields = wire.keys(about, _PICTURE)
    source = wire.text(fields, "source")
    if source not in get_args(PictureSource):
        raise ProtocolError(f"unknown picture source {source!r}.")
    pixels = read_png(png)
    size = (pixels.width, pixels.height)
    return Picture(cast(PictureSource, source), pixels.mode, *size, pixels.data, wire.optional_text(fields, "path"))


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
    """Return a `snapshot` ready to send. Hashes pixels: call it off the event loop. Lazy images stay undecoded."""
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
    """Return `bindings` as they are now: pictures and values that could still be changed are copied; lazy images stay
    lazy.

    Raises:
        SandboxError: a name is no name for a variable, or a value is neither a picture nor a JSON value.
        TooLargeError: a picture has more pixels than can travel.
    """
    taken: dict[str, Binding] = {}
    for name, value in bindings.items():
        check_name(name)
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
    return json.loads(as_json(name, value))


def picture_names(fields: object) -> set[str]:
    """Return the pictures (sha256) that the bindings of a message name; checks all names and kinds on the way."""
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
    """Return the bindings of a message, with all `pictures` of `picture_names`. Decodes arrays: off the loop."""
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
