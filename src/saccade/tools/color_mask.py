"""Which pixels have a colour, by ranges of hue, saturation and value. Hue is a circle: a range may pass through 0."""

from __future__ import annotations

from typing import Annotated, Final

import cv2
import numpy as np
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import PixelBox
from saccade.tools.look import LookArguments, PixelArray, fraction, look, picture_of
from saccade.tools.operation import Operation
from saccade.tools.problem import wrong_format

Hue = Annotated[float, Field(ge=0, le=360)]
Part = Annotated[float, Field(ge=0, le=1)]
Hsv = tuple[float, float, float]

_EPSILON: Final = 1e-4  # float32 conversion: pure red is not always exactly hue 0


class ColorMaskArguments(LookArguments):
    """Where, and which colours."""

    hue: Annotated[
        tuple[Hue, Hue], Field(description="From, to in degrees: 0 red, 120 green, 240 blue. [350, 10] passes 0.")
    ] = (0.0, 360.0)
    saturation: Annotated[tuple[Part, Part], Field(description="From, to: 0 grey, 1 pure.")] = (0.0, 1.0)
    value: Annotated[tuple[Part, Part], Field(description="From, to: 0 black, 1 bright.")] = (0.0, 1.0)
    min_area: Annotated[int, Field(ge=1, le=10**9, description="Smallest counted part in pixels.")] = 20


class ColorMaskResult(ToolModel):
    """How much of the colour there is, and where."""

    image: str
    pixels: int
    fraction: float
    """Of the region, 0..1."""
    box: PixelBox | None
    """Smallest box around all pixels of the colour, in the whole image; None if there are none."""
    parts: int
    """Connected parts (8 neighbours) of at least `min_area` pixels."""


class ColorMask(Tool[ColorMaskArguments, ColorMaskResult]):
    """Marks the pixels within ranges of hue, saturation and value."""

    name = "color_mask"
    suits = (("counting", 1), ("colours and coloured maps", 1))
    operation = Operation.SEGMENT
    description = (
        "Find the pixels of a colour, given as ranges: hue=[from, to] in degrees, saturation and value in 0..1. Gives "
        "a new image, white where the colour is, with its number of pixels, its fraction, its bounding box and the "
        "number of connected parts."
    )
    arguments = ColorMaskArguments
    result = ColorMaskResult

    def run(self, arguments: ColorMaskArguments, context: ToolContext) -> ToolOutcome[ColorMaskResult]:
        """Compare in HSV with float precision."""
        for name, (low, high) in (("saturation", arguments.saturation), ("value", arguments.value)):
            if low > high:
                raise wrong_format(f"{name} goes from {low:g} down to {high:g}. Put the smaller number first.")
        seen = look(arguments, context)
        mask = _mask(seen.rgb, arguments)
        _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        parts = int(np.count_nonzero(stats[1:, cv2.CC_STAT_AREA] >= arguments.min_area))
        box = seen.box_of(*cv2.boundingRect(mask)) if mask.any() else None
        value = ColorMaskResult(
            image=seen.image, pixels=int(np.count_nonzero(mask)), fraction=fraction(mask), box=box, parts=parts
        )
        return ToolOutcome(value, (("color_mask", picture_of(mask)),))


def _mask(rgb: PixelArray, arguments: ColorMaskArguments) -> PixelArray:
    # Rows at a time: HSV in floats takes twelve bytes a pixel.
    rows = [_rows(rgb[start : start + 512], arguments) for start in range(0, len(rgb), 512)]
    return np.concatenate(rows)


def _rows(rgb: PixelArray, arguments: ColorMaskArguments) -> PixelArray:
    hsv = cv2.cvtColor(rgb.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
    hue, saturation, value = hsv[..., 0], hsv[..., 1], hsv[..., 2]
    above, below = hue >= arguments.hue[0] - _EPSILON, hue <= arguments.hue[1] + _EPSILON
    chosen = above & below if arguments.hue[0] <= arguments.hue[1] else above | below
    for channel, (low, high) in ((saturation, arguments.saturation), (value, arguments.value)):
        chosen &= (channel >= low - _EPSILON) & (channel <= high + _EPSILON)
    return (chosen * 255).astype(np.uint8)
