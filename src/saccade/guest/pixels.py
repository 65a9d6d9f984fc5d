"""Convert anything that can be shown to raw pixels of mode L, RGB or RGBA, scaled down to a budget.

`capture` never raises: for what cannot become a picture it returns a note that says why. Colour profiles, animation and
EXIF orientation are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from PIL import Image

MAX_ASPECT = 200
"""Longest side over shortest side; vision models refuse more."""

_BYTES_PER_PIXEL = {"L": 1, "RGB": 3, "RGBA": 4}
_TO_RGBA = {"PA", "LA", "La", "RGBa"}

_BAND = 1 << 14
"""Pixels taken at once: few enough that their memory is used again for the next ones. Every page that a fork touches
for the first time takes longer than to fill it."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """`width * height * len(mode)` bytes, rows from top to bottom; read them before `drawn` is changed."""

    mode: str
    width: int
    height: int
    drawn: Image.Image | np.ndarray[Any, Any]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.width * self.height * _BYTES_PER_PIXEL[self.mode]

    @property
    def data(self) -> bytes:
        """The bytes, as one piece."""
        return b"".join(self.bands())

    def bands(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes, in pieces."""
        drawn, rows = self.drawn, max(1, _BAND // self.width)
        if not isinstance(drawn, Image.Image):
            yield np.ascontiguousarray(drawn).data.cast("B")
            return
        for top in range(0, self.height, rows):
            band = drawn.crop((0, top, self.width, min(top + rows, self.height)))
            yield (band if band.mode == self.mode else band.convert(self.mode)).tobytes()


class UnfitError(ValueError):
    """This cannot become a picture; the message says why, for the program's author."""


DRAWN = (Image.Image, Figure)
"""What is always meant as a picture, whatever it holds."""


def is_picture(thing: object) -> bool:
    """Return whether `thing` is a Pillow image, a matplotlib figure, or an array that looks like a picture."""
    if isinstance(thing, DRAWN):
        return True
    return isinstance(thing, np.ndarray) and as_uint8(thing) is not None


def capture(thing: object, most_pixels: int) -> tuple[Pixels | None, list[str]]:
    """Return the pixels of `thing` (at most `most_pixels`), or None, and notes on what was changed or why it failed."""
    notes: list[str] = []
    try:
        if isinstance(thing, Figure):
            return _from_figure(thing, most_pixels, notes), notes
        if isinstance(thing, Image.Image):
            return _from_image(thing, most_pixels, notes), notes
        if isinstance(thing, np.ndarray):
            return _from_array(thing, most_pixels, notes), notes
        raise UnfitError(f"a {type(thing).__name__} is not a picture")
    except UnfitError as error:
        notes.append(str(error))
    except Exception as error:
        notes.append(not_captured(error))
    return None, notes


def not_captured(error: Exception) -> str:
    """Say that a picture could not be captured because of `error`."""
    try:
        text = str(error)[:500]
    except Exception:
        text = "(its text cannot be had)"
    return f"a picture could not be captured: {type(error).__name__}: {text}"


def fit(width: int, height: int, most_pixels: int) -> tuple[int, int]:
    """Return the largest size of the same shape with at most `most_pixels` pixels; both sides at least 1."""
    if width * height <= most_pixels:
        return width, height
    scale = math.sqrt(most_pixels / (width * height))
    wide = max(1, min(int(width * scale), most_pixels))
    return wide, max(1, min(int(height * scale), most_pixels // wide))


def check_size(width: int, height: int) -> None:
    """Raise `UnfitError` for a picture without pixels or with an absurd shape."""
    if width <= 0 or height <= 0:
        raise UnfitError(f"a picture of {width}x{height} has no pixels and was not returned")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise UnfitError(
            f"a picture of {width}x{height} was not returned: one side is more than {MAX_ASPECT} times the other; "
            "crop it or resize it"
        )


def as_uint8(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return uint8, bool or floats in 0..1 as uint8 of shape (H, W), (H, W, 3) or (H, W, 4); None for other data."""
    if array.size == 0:
        return None
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        return None
    if array.dtype == np.uint8:
        return np.asarray(array)
    if array.dtype == np.bool_:
        return np.asarray(array).astype(np.uint8) * np.uint8(255)
    if array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1:
        return (np.asarray(array) * 255 + 0.5).astype(np.uint8)
    return None


def _from_array(array: np.ndarray[Any, Any], most_pixels: int, notes: list[str]) -> Pixels:
    pixels = as_uint8(array)
    if pixels is None:
        raise UnfitError(f"an array of shape {array.shape} and type {array.dtype} is not a picture")
    height, width = pixels.shape[:2]
    check_size(width, height)
    mode = "L" if pixels.ndim == 2 else {3: "RGB", 4: "RGBA"}[pixels.shape[2]]
    if width * height > most_pixels:
        return _from_image(Image.fromarray(np.ascontiguousarray(pixels)), most_pixels, notes)
    return Pixels(mode, width, height, pixels)


def _from_image(image: Image.Image, most_pixels: int, notes: list[str]) -> Pixels:
    width, height = image.size
    check_size(width, height)
    size = fit(width, height, most_pixels)
    image = _plain_mode(image, notes)
    if size != (width, height):
        image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
        notes.append(f"a picture of {width}x{height} pixels was scaled down to {size[0]}x{size[1]}")
    image.load()
    return Pixels(image.mode, *image.size, image)


def _plain_mode(image: Image.Image, notes: list[str]) -> Image.Image:
    """Return the image in mode L, RGB or RGBA."""
    mode = image.mode
    if mode in _BYTES_PER_PIXEL:
        return image
    if mode == "1":
        return image.convert("L")
    if mode == "P":
        return image.convert("RGBA" if "transparency" in image.info else "RGB")
    if mode in _TO_RGBA:
        # La and RGBa (premultiplied) convert only to their plain counterpart.
        return image.convert({"La": "LA", "PA": "RGBA"}.get(mode, "RGBA")).convert("RGBA")
    if mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image, dtype=np.uint16) >> 8).astype(np.uint8))
    if mode in ("I", "F"):
        return _stretched(np.asarray(image, dtype=np.float64), notes)
    if mode == "LAB":
        return _lab_to_rgb(image)
    return image.convert("RGB")


def _stretched(values: np.ndarray[Any, Any], notes: list[str]) -> Image.Image:
    """Show numbers of one channel as grey: 0..1 and 0..255 as they are, others from least to greatest."""
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255:
        low, high = 0.0, 255.0
    else:
        notes.append(f"a picture of numbers was shown with {low:g} as black and {high:g} as white")
    return Image.fromarray(((values - low) * (255 / (high - low)) + 0.5).astype(np.uint8))


def _lab_to_rgb(image: Image.Image) -> Image.Image:
    from PIL import ImageCms

    lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    return ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB") or image


def _from_figure(figure: Figure, most_pixels: int, notes: list[str]) -> Pixels:
    """Draw the figure once at its own resolution, or at a lower one if it has too many pixels."""
    old_canvas, old_dpi, patch = figure.canvas, figure.dpi, figure.patch
    width, height = (max(0, round(inches * old_dpi)) for inches in figure.get_size_inches())
    check_size(width, height)
    size = fit(width, height, most_pixels)
    try:
        # A figure of another backend draws itself on a canvas of its own kind.
        canvas: Any = old_canvas if isinstance(old_canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
        if size != (width, height):
            figure.dpi = old_dpi * min(size[0] / width, size[1] / height)
            notes.append(f"a picture of {width}x{height} pixels was scaled down to {size[0]}x{size[1]}")
        canvas.draw()
        view = canvas.buffer_rgba()
        image = Image.frombuffer("RGBA", (view.shape[1], view.shape[0]), view, "raw", "RGBA", 0, 1)
        if not (patch.get_visible() and figure.get_frameon() and to_rgba(patch.get_facecolor())[3] == 1):
            paper = Image.new("RGBA", image.size, "white")
            image = Image.alpha_composite(paper, image)
        if image.width * image.height <= most_pixels:
            return Pixels("RGB", *image.size, image)
        return _from_image(image.convert("RGB"), most_pixels, notes)
    finally:
        if figure.dpi != old_dpi:
            figure.dpi = old_dpi
        if figure.canvas is not old_canvas:
            figure.set_canvas(old_canvas)
