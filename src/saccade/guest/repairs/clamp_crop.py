"""Repair `clamp_crop`: a crop box that is partly outside of the image, clipped while the program runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from PIL import Image

from .base import Log, RepairPass

_MOST_LOGGED = 20


@contextmanager
def clamping(log: Log) -> Iterator[None]:
    """Within the block `Image.crop` puts swapped corners in order and clips the box to the image."""
    original = Image.Image.crop
    repaired = 0

    def crop(self: Image.Image, box: Any = None) -> Image.Image:
        nonlocal repaired
        clipped = None if box is None else clip(box, *self.size)
        if clipped is None:
            return original(self, box)
        repaired += 1
        if repaired <= _MOST_LOGGED:
            asked = tuple(_plain(value) for value in box)
            log(f"crop box {asked} was clipped to {clipped} in an image of {self.width}x{self.height}")
        elif repaired == _MOST_LOGGED + 1:
            log("further crop boxes were clipped")
        return original(self, clipped)

    Image.Image.crop = crop  # type: ignore[method-assign]
    try:
        yield
    finally:
        if Image.Image.crop is crop:
            Image.Image.crop = original  # type: ignore[method-assign]


def clip(box: Any, width: int, height: int) -> tuple[float, float, float, float] | None:
    """The box (left, upper, right, lower) in order and inside the image, or None if it is fine or not a box at all.

    Raises ValueError if nothing of the image is left.
    """
    try:
        x1, y1, x2, y2 = (_plain(value) for value in box)
    except (TypeError, ValueError, OverflowError):
        return None  # Pillow's own error says what is wrong
    left, right = sorted((x1, x2))
    upper, lower = sorted((y1, y2))
    clipped = (max(0, left), max(0, upper), min(width, right), min(height, lower))
    if round(clipped[0]) >= round(clipped[2]) or round(clipped[1]) >= round(clipped[3]):
        raise ValueError(
            f"crop box {(x1, y1, x2, y2)} (left, upper, right, lower) leaves nothing of the image, "
            f"which is {width} pixels wide and {height} pixels high"
        )
    return None if clipped == (x1, y1, x2, y2) else clipped


def _plain(value: Any) -> float:
    """The number as an int if it is whole; raises for what is no finite number."""
    number = float(value)
    return int(number) if number == math.floor(number) else number


PASS = RepairPass(
    "clamp_crop",
    "Clips crop boxes to the image and puts swapped corners in order while the program runs.",
    during=clamping,
)
