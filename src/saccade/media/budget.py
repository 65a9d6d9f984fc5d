"""Pixel budgets: how large a picture may be for a model, and the size that fits.

The `qwen` policies follow the size rule that those models' own preprocessors apply, so a picture that was fitted here
passes through them unchanged. The most pixels is never exceeded. The least is reached, unless the budget is so narrow
that no size on the factor's grid lies within it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, floor, sqrt
from types import MappingProxyType
from typing import Final, Protocol

from PIL import Image

from saccade.errors import MediaError, RegistryError
from saccade.media.modes import PLAIN_MODES, to_plain
from saccade.record.suggest import did_you_mean

MAX_ASPECT_RATIO: Final = 200
"""Longer side to shorter side, beyond which a picture is refused."""


Rounding = Callable[[float], int]


class SizeRule(Protocol):
    """Says to which size a picture is brought; a `PixelBudget` is one."""

    def size(self, width: int, height: int) -> tuple[int, int]:
        """The size (width, height) in pixels. Raises `MediaError` for a shape that it refuses."""


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
        """The size (width, height) that fits the budget, with the aspect ratio kept as far as the grid allows.

        Raises:
            MediaError: a side is smaller than 1, or one is over 200 times the other.
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
        """Visual tokens of a picture of that size after fitting, for models with one token per factor²."""
        fitted_width, fitted_height = self.size(width, height)
        return (fitted_width // self.factor) * (fitted_height // self.factor)

    def _rounded(self, columns: float, rows: float, rule: Rounding) -> tuple[int, int]:
        return max(1, rule(columns)) * self.factor, max(1, rule(rows)) * self.factor

    def _clamped(self, width: int, height: int) -> tuple[int, int]:
        """The longer side cut to what the most pixels leave beside the shorter one."""
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
    """The named budget; None for `none`.

    Raises:
        RegistryError: no budget has that name; suggests the nearest.
    """
    if name not in POLICIES:
        raise RegistryError(f"there is no pixel budget {name!r}. {did_you_mean(name, POLICIES)}".rstrip())
    return POLICIES[name]


def fit(image: Image.Image, budget: SizeRule | None) -> Image.Image:
    """The picture scaled to the budget (bicubic), in mode L, RGB or RGBA; itself if it fits already.

    Raises:
        MediaError: its shape is refused by the budget.
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
