"""Pixels that travel between a remote sandbox and its clients: named by a hash, packed as PNG, checked on arrival.

The name of a picture is the sha256 over its mode, size and raw pixels, so both sides can compute it and neither has to
trust the other. PNG is exact for the modes L, RGB and RGBA, which are the only ones that travel.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from saccade.errors import ProtocolError, SandboxError, TooLargeError
from saccade.png import PNG_COLOURS, quick_image, quick_png
from saccade.sandbox.base import LazyImage
from saccade.sandbox.result import Picture, PictureMode

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE = 65_500
MAX_PIXELS = 400_000_000
"""Most pixels of one picture on the wire."""
_PNG_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@dataclass(frozen=True, slots=True)
class RawPixels:
    """Raw pixels: `width * height * len(mode)` bytes, rows from top to bottom."""

    mode: PictureMode
    width: int
    height: int
    data: bytes = field(repr=False)

    def sha256(self) -> str:
        """The name of this picture on the wire, 64 hexadecimal digits."""
        digest = hashlib.sha256(f"{self.mode} {self.width} {self.height}\n".encode())
        digest.update(self.data)
        return digest.hexdigest()

    def image(self) -> Image:
        """The picture as a Pillow image."""
        from PIL import Image

        return Image.frombytes(self.mode, (self.width, self.height), self.data)

    def png(self) -> bytes:
        """The picture as PNG."""
        return quick_png(self.image())


def pixels_of(value: object) -> RawPixels | None:
    """A snapshot of a Pillow image, a numpy uint8 picture or a `Picture`; None if `value` is none of these.

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
    """The mode in which a lazy image is bound: its own if it states one, else RGB."""
    mode = getattr(lazy, "mode", "RGB")
    return cast(PictureMode, mode) if mode in PNG_COLOURS else "RGB"


def from_lazy(lazy: LazyImage) -> RawPixels:
    """The decoded pixels of a lazy image; whatever its `decode` raises passes through."""
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
    """The pixels of a PNG that `RawPixels.png` wrote, here or in another version; raises `ProtocolError` for others.

    The size that the header states is checked before a single pixel is decoded.
    """
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
