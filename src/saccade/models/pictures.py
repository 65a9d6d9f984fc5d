"""Stored pictures as the bytes that a provider takes: known format, upright, within its limits.

Bytes that fit are sent as they are. Others are decoded, turned upright, scaled down and encoded again: losslessly while
that is small enough, as JPEG after that. A picture is never enlarged; where a server takes no short side, it is padded.
Transparency is kept where the bytes are.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from io import BytesIO
from typing import Literal

from PIL import Image, ImageOps

from saccade.core.png import quick_image
from saccade.errors import DecodeError
from saccade.models.base import MediaReader
from saccade.record.content import ImagePart

_TAKEN = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
"""Formats that the providers take, by Pillow's name."""
_EXIF_ORIENTATION = 0x0112


@dataclass(frozen=True, slots=True)
class PictureRules:
    """What a provider takes; None where it has no limit of its own."""

    side: int | None = None
    """Longest side in pixels."""
    pixels: int | None = None
    """Width times height."""
    data_bytes: int | None = None
    """Encoded, before base64."""
    least_side: int | None = None
    """Shortest side in pixels; a shorter one is padded."""
    ratio: float | None = None
    """Most that the longer side may be of the shorter one, which is padded."""


NO_RULES = PictureRules()


def frames_not_chosen(provider: str) -> str:
    """Say why a video of which the frames were chosen cannot be sent, and what to do."""
    return (
        f"{provider} chooses the frames of a video itself. Leave frames.fps and frames.count out, or take a dialect "
        "that shows frames as pictures."
    )


@dataclass(frozen=True, slots=True)
class EncodedPicture:
    """Bytes to send, and what they are."""

    mime: str
    data: bytes

    @property
    def base64(self) -> str:
        """The bytes as base64 text."""
        return base64.b64encode(self.data).decode("ascii")

    @property
    def url(self) -> str:
        return f"data:{self.mime};base64,{self.base64}"


def encoded_picture(part: ImagePart, media: MediaReader, rules: PictureRules = NO_RULES) -> EncodedPicture:
    """Return the picture that `part` names, as `rules` want it.

    Raises:
        MissingMediaError: `media` does not hold it.
        DecodeError: its bytes cannot be read.
    """
    data = media.get_bytes(part.sha256)
    try:
        with Image.open(BytesIO(data)) as image:
            mime = _TAKEN.get(image.format or "")
            size = fitting_size(image.size, rules)
            upright = image.getexif().get(_EXIF_ORIENTATION, 1) == 1
            small = rules.data_bytes is None or len(data) <= rules.data_bytes
            fits = size == image.size == padded_size(size, rules)
            if mime is not None and upright and small and fits and not getattr(image, "is_animated", False):
                return EncodedPicture(mime, data)
            return _encoded_again(image, rules)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _unreadable(part, error) from error


def decoded_picture(part: ImagePart, media: MediaReader, rules: PictureRules = NO_RULES) -> Image.Image:
    """Return the picture that `part` names as RGB pixels, upright, within the size that `rules` allow; alpha on white.

    Raises:
        MissingMediaError: `media` does not hold it.
        DecodeError: its bytes cannot be read.
    """
    data = media.get_bytes(part.sha256)
    try:
        with quick_image(data) or Image.open(BytesIO(data)) as image:
            plain = ImageOps.exif_transpose(image)
            if plain.has_transparency_data:
                plain = plain.convert("RGBA")
                plain = Image.alpha_composite(Image.new("RGBA", plain.size, "white"), plain)
            plain = plain.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _unreadable(part, error) from error
    size = fitting_size(plain.size, rules)
    return plain if size == plain.size else plain.resize(size, Image.Resampling.LANCZOS)


def _unreadable(part: ImagePart, error: Exception) -> DecodeError:
    return DecodeError(f"the picture {part.sha256[:12]} cannot be read: {error}. Put it into the store again.")


def fitting_size(size: tuple[int, int], rules: PictureRules) -> tuple[int, int]:
    """Return `size` (width, height), or the largest of the same shape within `rules`; at least one pixel a side."""
    width, height = size
    scale = min(
        1.0,
        (rules.side or math.inf) / max(size),
        math.sqrt((rules.pixels or math.inf) / (width * height)),
    )
    if scale == 1.0:
        return size
    return max(1, math.floor(width * scale)), max(1, math.floor(height * scale))


def padded_size(size: tuple[int, int], rules: PictureRules) -> tuple[int, int]:
    """Return `size` (width, height), or the smallest that holds it and keeps the rules of short sides."""
    least = max(rules.least_side or 1, math.ceil(max(size) / (rules.ratio or math.inf)))
    return max(size[0], least), max(size[1], least)


def _encoded_again(image: Image.Image, rules: PictureRules) -> EncodedPicture:
    plain = ImageOps.exif_transpose(image)
    if plain.mode not in ("L", "RGB", "RGBA"):
        plain = plain.convert("RGBA" if plain.has_transparency_data else "RGB")
    size = fitting_size(plain.size, rules)
    if size != plain.size:
        plain = plain.resize(size, Image.Resampling.LANCZOS)
    padded = padded_size(plain.size, rules)
    if padded != plain.size:
        canvas = Image.new("RGB", padded)
        canvas.paste(plain.convert("RGB"))
        plain = canvas
    encoded = saved_picture(plain, "PNG")
    most = rules.data_bytes
    while most is not None and len(encoded.data) > most:
        encoded = saved_picture(plain.convert("RGB"), "JPEG")
        if len(encoded.data) > most:
            plain = plain.resize(
                (max(1, plain.width * 3 // 4), max(1, plain.height * 3 // 4)), Image.Resampling.LANCZOS
            )
        if plain.size == (1, 1):
            break
    return encoded


def saved_picture(image: Image.Image, format_: Literal["PNG", "JPEG"]) -> EncodedPicture:
    """Return the pixels of `image` in that format."""
    buffer = BytesIO()
    image.save(buffer, format_, **({"quality": 92} if format_ == "JPEG" else {"compress_level": 1}))
    return EncodedPicture(_TAKEN[format_], buffer.getvalue())
