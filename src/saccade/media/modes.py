"""Any Pillow mode as one of three: L (grey), RGB, RGBA, eight bits a channel.

Colours are taken as sRGB: colour profiles are not applied. Values beyond eight bits are scaled, not clipped:
16-bit samples from 0..65535, floats from 0..1 or 0..255 whichever holds them, all other ranges from their own
minimum and maximum.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.Image import Transpose

from saccade.errors import DecodeError

PLAIN_MODES: Final = ("L", "RGB", "RGBA")
WHITE: Final = (255, 255, 255)

# EXIF orientation 1..8 -> the turn that shows the picture upright; 1 is upright already.
_UPRIGHT: Final = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}


def to_plain(image: Image.Image) -> Image.Image:
    """A new picture of the same size in mode L, RGB or RGBA (where it has transparency), without metadata.

    Raises:
        DecodeError: the colour space has no plain form, as LAB.
    """
    if image.mode == "I" or image.mode.startswith("I;16"):
        plain = Image.fromarray(_from_integers(np.asarray(image, dtype=np.int64)))
    elif image.mode == "F":
        plain = Image.fromarray(_from_floats(np.asarray(image, dtype=np.float64)))
    else:
        try:
            plain = image.convert(_plain_mode(image))
        except ValueError as error:
            raise DecodeError(
                f"a picture of mode {image.mode} has no RGB form here ({error}). Convert it to RGB first."
            ) from error
    plain.info = {}
    return plain


def to_rgb(image: Image.Image, background: tuple[int, int, int] = WHITE) -> Image.Image:
    """A plain picture as RGB, transparency composited on `background` (RGB, 0..255)."""
    if image.mode != "RGBA":
        return image.convert("RGB")
    below = Image.new("RGBA", image.size, (*background, 255))
    below.alpha_composite(image)
    return below.convert("RGB")


def upright(image: Image.Image, orientation: int) -> Image.Image:
    """The picture turned as its EXIF orientation asks; a value outside 2..8 asks for nothing."""
    turn = _UPRIGHT.get(orientation)
    return image if turn is None else image.transpose(turn)


def _plain_mode(image: Image.Image) -> str:
    if image.has_transparency_data or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
        return "RGBA"
    return "L" if image.mode in ("1", "L") else "RGB"


def _from_integers(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    if values.min() >= 0 and values.max() <= 65_535:
        return ((values + 128) // 257).astype(np.uint8)
    return _stretched(values.astype(np.float64))


def _from_floats(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    finite = np.isfinite(values)
    values = np.where(finite, values, values[finite].min() if finite.any() else 0.0)
    if values.min() < 0 or values.max() > 255:
        return _stretched(values)
    return np.rint(values * 255 if values.max() <= 1 else values).astype(np.uint8)


def _stretched(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    low, high = values.min(), values.max()
    if low == high:
        return np.zeros(values.shape, np.uint8)
    # Halved before the subtraction: the range of two floats can exceed the largest one.
    part: NDArray[np.float64] = (values / 2 - low / 2) / (high / 2 - low / 2)
    return np.rint(part * 255).astype(np.uint8)
