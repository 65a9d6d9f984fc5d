"""Share the ground of tools that measure a part of an image: the arguments that choose it, and its pixels.

Coordinates in results are those of the whole named image, whatever part was looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from saccade.tools.context import ToolContext, wrong_format
from saccade.tools.definition import ImageChoice, PixelBox, RegionField, ToolModel, UnitsField, region

PixelArray = NDArray[np.uint8]

MAX_PIXELS: Final = 40_000_000
"""Largest region that is measured: beyond it a call would take seconds and gigabytes."""


class LookArguments(ToolModel):
    """Which part of which image."""

    image: ImageChoice = None
    box: RegionField = None
    units: UnitsField = "pixels"


@dataclass(frozen=True, slots=True)
class Look:
    """A part of an image."""

    image: str
    box: PixelBox
    """Where it is in the image, in pixels."""
    rgb: PixelArray
    """(height, width, 3), RGB."""

    @property
    def grey(self) -> PixelArray:
        """(height, width), luma 0..255."""
        return _uint8(cv2.cvtColor(self.rgb, cv2.COLOR_RGB2GRAY))

    @property
    def area(self) -> int:
        """Number of pixels."""
        return int(self.rgb.shape[0] * self.rgb.shape[1])

    def box_of(self, left: int, top: int, width: int, height: int) -> PixelBox:
        """Return a rectangle of the part as a box of the whole image."""
        x, y = self.box[0] + left, self.box[1] + top
        return x, y, x + width, y + height

    def point_of(self, x: float, y: float) -> tuple[float, float]:
        """Return a point of the part as a point of the whole image, to a hundredth of a pixel."""
        return round(self.box[0] + float(x), 2), round(self.box[1] + float(y), 2)


def look(arguments: LookArguments, context: ToolContext) -> Look:
    """Return the part that `arguments` choose. Raises `CallProblem` if no such image, a box that is not in it, or more
    than `MAX_PIXELS` pixels.
    """
    source = context.image(arguments.image)
    box = region(arguments.box, arguments.units, source.size)
    if (box[2] - box[0]) * (box[3] - box[1]) > MAX_PIXELS:
        raise wrong_format(f"The region has more than {MAX_PIXELS:,} pixels. Choose a smaller box.")
    return Look(source.name, box, _uint8(source.image.crop(box)))


def picture_of(pixels: Any) -> Image.Image:
    """Return an RGB picture of a mask or an RGB array, eight bits a channel."""
    return Image.fromarray(_uint8(pixels)).convert("RGB")


def fraction(mask: PixelArray) -> float:
    """Return the part of the mask that is not zero, 0..1, to six digits."""
    return round(int(np.count_nonzero(mask)) / mask.size, 6)


def _uint8(pixels: Any) -> PixelArray:
    return np.asarray(pixels, dtype=np.uint8)
