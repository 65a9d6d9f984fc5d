"""Any Pillow mode as one of three: L (grey), RGB, RGBA, eight bits a channel.

Colours are taken as sRGB; `in_srgb` turns those of a file with another profile. Values beyond eight bits are scaled,
not clipped: 16-bit samples from 0..65535, floats from 0..1 or 0..255 whichever holds them, all other ranges from their
own minimum and maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from math import ceil, floor, sqrt
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms
from PIL.Image import Transpose

from saccade.core.registry import did_you_mean
from saccade.errors import DecodeError, MediaError, RegistryError

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
    """Return a new picture of the same size in mode L, RGB or RGBA (where it has transparency), without metadata.
    Raises `DecodeError` if the colour space has no plain form, as LAB.
    """
    if image.mode == "I" or image.mode.startswith("I;16"):
        plain = _mapped(image, np.dtype(np.int64), _of_integers(_range(image, np.dtype(np.int64))))
    elif image.mode == "F":
        plain = _mapped(image, np.dtype(np.float64), _of_floats(_range(image, np.dtype(np.float64))))
    else:
        try:
            plain = image.convert(_plain_mode(image))
        except ValueError as error:
            raise DecodeError(
                f"a picture of mode {image.mode} has no RGB form here ({error}). Convert it to RGB first."
            ) from error
    plain.info = {}
    return plain


def adopted(image: Image.Image) -> Image.Image:
    """Convert like `to_plain`, but a plain one shares its pixels with `image`, which nobody may change any more."""
    if image.mode not in PLAIN_MODES or _plain_mode(image) != image.mode:
        return to_plain(image)
    plain = Image.Image()._new(image.im)
    plain.info = {}
    return plain


def to_rgb(image: Image.Image, background: tuple[int, int, int] = WHITE) -> Image.Image:
    """Return a plain picture as RGB, transparency composited on `background` (RGB, 0..255)."""
    if image.mode != "RGBA":
        return image.convert("RGB")
    below = Image.new("RGBA", image.size, (*background, 255))
    below.alpha_composite(image)
    return below.convert("RGB")


def upright(image: Image.Image, orientation: int) -> Image.Image:
    """Return the picture turned as its EXIF orientation asks; a value outside 2..8 asks for nothing."""
    turn = _UPRIGHT.get(orientation)
    return image if turn is None else image.transpose(turn)


def _plain_mode(image: Image.Image) -> str:
    if image.has_transparency_data:
        return "RGBA"
    return "L" if image.mode in ("1", "L") else "RGB"


_BAND: Final = 1 << 22
"""Pixels that are worked on at once: numbers take eight times the memory of what comes out."""


def _bands(image: Image.Image, kind: np.dtype[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the picture's numbers in pieces, each with the row that it begins at."""
    rows = max(1, _BAND // image.width)
    for top in range(0, image.height, rows):
        piece = image.crop((0, top, image.width, min(top + rows, image.height)))
        yield top, np.asarray(piece, dtype=kind)


def _range(image: Image.Image, kind: np.dtype[Any]) -> tuple[float, float]:
    """Return the least and the greatest finite number; 0 and 0 where there is none."""
    finite = (band[np.isfinite(band)] for _, band in _bands(image, kind))
    ends = [(float(numbers.min()), float(numbers.max())) for numbers in finite if numbers.size]
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (0.0, 0.0)


def _mapped(image: Image.Image, kind: np.dtype[Any], rule: Callable[[Any], NDArray[np.uint8]]) -> Image.Image:
    plain = Image.new("L", image.size)
    for top, band in _bands(image, kind):
        plain.paste(Image.fromarray(rule(band)), (0, top))
    return plain


def _of_integers(ends: tuple[float, float]) -> Callable[[NDArray[np.int64]], NDArray[np.uint8]]:
    if ends[0] >= 0 and ends[1] <= 65_535:
        return lambda values: ((values + 128) // 257).astype(np.uint8)
    return lambda values: _stretched(values.astype(np.float64), *ends)


def _of_floats(ends: tuple[float, float]) -> Callable[[NDArray[np.float64]], NDArray[np.uint8]]:
    low, high = ends

    def rule(values: NDArray[np.float64]) -> NDArray[np.uint8]:
        values = np.where(np.isfinite(values), values, low)
        if low < 0 or high > 255:
            return _stretched(values, low, high)
        return np.rint(values * 255 if high <= 1 else values).astype(np.uint8)

    return rule


def _stretched(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.uint8]:
    if low == high:
        return np.zeros(values.shape, np.uint8)
    # Halved before the subtraction: the range of two floats can exceed the largest one.
    part: NDArray[np.float64] = (values / 2 - low / 2) / (high / 2 - low / 2)
    return np.rint(part * 255).astype(np.uint8)


# Pixel budgets: how large a picture may be for a model, and the size that fits.
#
# The `qwen` policies follow the size rule that those models' own preprocessors apply, so a picture that was fitted here
# passes through them unchanged. The most pixels is never exceeded. The least is reached, unless the budget is so narrow
# that no size on the factor's grid is within it.


MAX_ASPECT_RATIO: Final = 200
"""Longer side to shorter side, beyond which a picture is refused."""

Rounding = Callable[[float], int]


class SizeRule(Protocol):
    """Says to which size a picture is brought; a `PixelBudget` is one."""

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the size (width, height) in pixels. Raises `MediaError` for a shape that it refuses."""


@dataclass(frozen=True, slots=True)
class PixelBudget:
    """Sizes that a model takes: sides divisible by `factor`, area from `min_pixels` to `max_pixels`."""

    factor: int
    """Pixels on a side of one visual token."""
    min_pixels: int
    max_pixels: int

    def __post_init__(self) -> None:
        if self.factor < 1 or self.min_pixels < 0 or self.max_pixels < max(self.min_pixels, self.factor**2):
            raise MediaError(
                f"{self} is no budget: the factor must be at least 1, and max_pixels at least min_pixels and factor²"
            )

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the size (width, height) that fits the budget, with the aspect ratio kept as far as the grid allows.
        Raises `MediaError` if a side is smaller than 1, or one is over 200 times the other.
        """
        _check_shape(width, height)
        fitted = self._rounded(width / self.factor, height / self.factor, round)
        area = fitted[0] * fitted[1]
        if area > self.max_pixels:
            # The order of these operations is that of the models' preprocessors: another one rounds another way.
            shrink = sqrt(width * height / self.max_pixels)
            fitted = self._rounded(width / shrink / self.factor, height / shrink / self.factor, floor)
        elif area < self.min_pixels:
            grow = sqrt(self.min_pixels / (width * height))
            fitted = self._rounded(width * grow / self.factor, height * grow / self.factor, ceil)
        return self._clamped(*fitted)

    def tokens(self, width: int, height: int) -> int:
        """Return visual tokens of a picture of that size after fitting, for models with one token per factor²."""
        fitted_width, fitted_height = self.size(width, height)
        return (fitted_width // self.factor) * (fitted_height // self.factor)

    def _rounded(self, columns: float, rows: float, rule: Rounding) -> tuple[int, int]:
        return max(1, rule(columns)) * self.factor, max(1, rule(rows)) * self.factor

    def _clamped(self, width: int, height: int) -> tuple[int, int]:
        """Return the longer side cut to what the most pixels leave next to the shorter one."""
        if width * height <= self.max_pixels:
            return width, height
        shorter = min(width, height, floor(sqrt(self.max_pixels) / self.factor) * self.factor)
        longer = self.max_pixels // shorter // self.factor * self.factor
        return (longer, shorter) if width > height else (shorter, longer)


POLICIES: Final[Mapping[str, PixelBudget | None]] = MappingProxyType(
    {
        "none": None,
        "qwen2.5-vl": PixelBudget(factor=28, min_pixels=56 * 56, max_pixels=28 * 28 * 16_384),
        "qwen3-vl": PixelBudget(factor=32, min_pixels=256 * 256, max_pixels=32 * 32 * 16_384),
    }
)
"""Named budgets with the limits that the models were published with; `none` leaves every size as it is."""


def policy(name: str) -> PixelBudget | None:
    """Return the named budget; None for `none`.

    Raises `RegistryError`: no budget has that name; suggests the nearest.
    """
    if name not in POLICIES:
        raise RegistryError(f"there is no pixel budget {name!r}. {did_you_mean(name, POLICIES)}".rstrip())
    return POLICIES[name]


def fit(image: Image.Image, budget: SizeRule | None) -> Image.Image:
    """Return the picture scaled to the budget (bicubic), in mode L, RGB or RGBA; itself if it fits already. Raises
    `MediaError` if its shape is refused by the budget.
    """
    plain = image if image.mode in PLAIN_MODES else to_plain(image)
    if budget is None:
        return plain
    size = budget.size(*plain.size)
    return plain if size == plain.size else plain.resize(size, Image.Resampling.BICUBIC)


def _check_shape(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise MediaError(f"a picture of {width}x{height} pixels holds nothing to fit")
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        raise MediaError(
            f"a picture of {width}x{height} pixels is over {MAX_ASPECT_RATIO} times as long as wide. "
            "Crop it, or cut it into pieces."
        )


_AS_SRGB: Final = 2
"""Levels of 255 by which a profile may differ from sRGB on the probe and still count as sRGB."""
_SPACES: Final = {"GRAY": "L", "RGB ": "RGB", "CMYK": "CMYK"}
"""Colour space of a profile -> Pillow's mode of the pixels that it describes."""


class Colours(NamedTuple):
    """A picture and what became of its colours."""

    image: Image.Image
    changed: bool
    """Whether its pixels are others than those of the file."""
    note: str = ""
    """Why its profile was not followed; empty where it was, or where there is none."""


class _Profile(NamedTuple):
    mode: str
    """Of the pixels that the profile describes."""
    transform: Any
    """To RGB; None if the profile is sRGB's own, or cannot be used."""
    problem: str = ""


def in_srgb(image: Image.Image) -> Colours:
    """Return the loaded `image` with its colours in sRGB.

    Pixels of CMYK without a profile are turned by Pillow's plain rule. A profile that is broken, or that belongs to
    another colour space than the pixels', is left out and noted.
    """
    data = image.info.get("icc_profile")
    if not data:
        return Colours(image, image.mode == "CMYK")
    profile = _profile(bytes(data))
    if profile.problem:
        return Colours(image, image.mode == "CMYK", profile.problem)
    grey, clear = image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;"), image.has_transparency_data
    if (image.mode == "CMYK") != (profile.mode == "CMYK") or (profile.mode == "L" and not grey):
        return Colours(
            image,
            image.mode == "CMYK",
            f"its colour profile is for {profile.mode} and its pixels are {image.mode}, so the profile is not followed",
        )
    if profile.transform is None or (grey and profile.mode == "RGB"):
        return Colours(image, image.mode == "CMYK")
    plain = image if image.mode == "CMYK" else to_plain(image)
    alpha = plain.getchannel("A") if clear and plain.mode == "RGBA" else None
    converted = ImageCms.applyTransform(plain.convert(profile.mode), profile.transform)
    assert converted is not None  # None only in place
    if grey:
        converted = converted.convert("L")
    if alpha is not None:
        converted = converted.convert("RGBA")
        converted.putalpha(alpha)
    converted.info = {}
    return Colours(converted, True)


@lru_cache(maxsize=64)
def _profile(data: bytes) -> _Profile:
    """Read a profile; cameras write the same one into each picture."""
    try:
        read = ImageCms.ImageCmsProfile(BytesIO(data))
        space = str(read.profile.xcolor_space)
        if space not in _SPACES:
            return _Profile("", None, f"its colour profile is for {space.strip()}, which is not followed")
        mode = _SPACES[space]
        transform = ImageCms.buildTransform(
            read, ImageCms.createProfile("sRGB"), mode, "RGB", ImageCms.Intent.RELATIVE_COLORIMETRIC
        )
        probe = _probe(mode)
        turned = ImageCms.applyTransform(probe, transform)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError) as error:
        why = str(error) or type(error).__name__
        return _Profile("", None, f"its colour profile cannot be read ({why}), so its colours are taken as sRGB")
    assert turned is not None
    gaps = (abs(one - other) for one, other in zip(turned.tobytes(), probe.convert("RGB").tobytes(), strict=True))
    return _Profile(mode, None if mode != "CMYK" and max(gaps) <= _AS_SRGB else transform)


def _probe(mode: str) -> Image.Image:
    """Return a row of colours from the whole range of `mode`."""
    if mode == "L":
        return Image.frombytes("L", (16, 1), bytes(range(0, 256, 17)))
    steps = (0, 51, 128, 204, 255)
    colours = bytes(level for r in steps for g in steps for b in steps for level in (r, g, b))
    return Image.frombytes("RGB", (len(colours) // 3, 1), colours).convert(mode)
