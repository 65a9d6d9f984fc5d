"""Pictures -> bytes of a stated format, and data URLs with the true type.

The same picture, options, library versions and kind of processor give the same bytes; others may compress
differently. Metadata is never written.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

from PIL import Image

from saccade.errors import MediaError, TooLargeError
from saccade.media.decode import mime_type
from saccade.media.modes import PLAIN_MODES, WHITE, to_plain, to_rgb
from saccade.png import quick_png

ImageFormat = Literal["PNG", "JPEG", "WEBP"]


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """How a picture is encoded. PNG is lossless; JPEG has no transparency."""

    format: ImageFormat = "PNG"
    quality: int = 90
    """Of JPEG and lossy WebP, 1..100."""
    lossless: bool = False
    """Of WebP."""
    compression: int = 6
    """Of PNG, 0 (large) to 9. At 1 it is written by `saccade.png`, which tries one filter alone."""
    background: tuple[int, int, int] = WHITE
    """RGB below the transparency, for JPEG."""

    def __post_init__(self) -> None:
        if self.format not in ("PNG", "JPEG", "WEBP"):
            raise MediaError(f"cannot encode as {self.format!r}; use PNG, JPEG or WEBP")
        if not 1 <= self.quality <= 100:
            raise MediaError(f"quality is {self.quality}; it goes from 1 to 100")
        if not 0 <= self.compression <= 9:
            raise MediaError(f"compression is {self.compression}; it goes from 0 to 9")


PNG = EncodeOptions()


def encode(image: Image.Image, options: EncodeOptions = PNG) -> bytes:
    """The encoded picture. Modes other than L, RGB and RGBA are first made plain.

    Raises:
        MediaError: the picture is empty or has no plain form.
        TooLargeError: a side is longer than the format can hold.
    """
    if not (image.width and image.height):
        raise MediaError(f"cannot encode a picture of {image.width}x{image.height} pixels; it holds nothing")
    plain = image if image.mode in PLAIN_MODES and not image.info else to_plain(image)
    if options.format == "JPEG" and plain.mode == "RGBA":
        plain = to_rgb(plain, options.background)
    parameters: dict[str, Any] = {
        "PNG": {"compress_level": options.compression},
        "JPEG": {"quality": options.quality},
        "WEBP": {"quality": options.quality, "lossless": options.lossless, "exact": options.lossless},
    }[options.format]
    if options.format == "PNG" and options.compression == 1:
        return quick_png(plain)
    out = BytesIO()
    try:
        plain.save(out, options.format, **parameters)
    except (OSError, ValueError) as error:
        raise TooLargeError(
            f"{options.format} cannot hold a picture of {plain.width}x{plain.height} pixels ({error}). "
            "Scale it down, or use PNG."
        ) from error
    return out.getvalue()


def data_url(data: bytes) -> str:
    """`data:image/...;base64,...` of an encoded picture; the type is that of its bytes.

    Raises:
        DecodeError: the bytes are no picture of a known format.
    """
    return f"data:{mime_type(data)};base64,{base64.b64encode(data).decode('ascii')}"
