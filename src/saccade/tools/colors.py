"""Which pixels have a colour, by ranges of hue, saturation and value. Hue is a circle: a range may pass through 0."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import cv2
import numpy as np
from pydantic import Field

from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import Operation, ToolContext, wrong_format
from saccade.tools.definition import Channel, PixelBox, ToolModel
from saccade.tools.look import LookArguments, PixelArray, fraction, look, picture_of

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


# Mean colour, spread and histogram of a region, RGB 0..255, averaged as stored and not in linear light.


class ColorStatsArguments(LookArguments):
    """Where, and how fine the histogram is."""

    bins: Annotated[int, Field(ge=1, le=64, description="Equal parts of 0..255 in each histogram.")] = 8


class ColorStatsResult(ToolModel):
    """Numbers per channel: red, green, blue."""

    image: str
    box: PixelBox
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    """Standard deviation."""
    histogram: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    """Pixels in each bin."""


class ColorStats(Tool[ColorStatsArguments, ColorStatsResult]):
    """Mean colour and histogram."""

    name = "color_stats"
    suits = (("colours and coloured maps", 0),)
    operation = Operation.HISTOGRAM
    description = (
        "Measure the colours of an image or a region of it. Gives mean and standard deviation of red, green and blue "
        "(0..255), and a histogram of each. Use a small box to read the colour of one thing."
    )
    arguments = ColorStatsArguments
    result = ColorStatsResult

    def run(self, arguments: ColorStatsArguments, context: ToolContext) -> ToolOutcome[ColorStatsResult]:
        """Count 256 levels once; everything follows from the counts."""
        seen = look(arguments, context)
        levels = np.arange(256)
        means, deviations, histograms = [], [], []
        for channel in range(3):
            counts = np.bincount(seen.rgb[..., channel].ravel(), minlength=256)
            mean = float((counts * levels).sum() / seen.area)
            means.append(round(mean, 2))
            deviations.append(round(float(np.sqrt((counts * (levels - mean) ** 2).sum() / seen.area)), 2))
            bins = np.bincount(levels * arguments.bins // 256, weights=counts, minlength=arguments.bins)
            histograms.append(tuple(int(count) for count in bins))
        value = ColorStatsResult(
            image=seen.image,
            box=seen.box,
            mean=(means[0], means[1], means[2]),
            deviation=(deviations[0], deviations[1], deviations[2]),
            histogram=(histograms[0], histograms[1], histograms[2]),
        )
        return ToolOutcome(value)


# Black and white by a threshold: a fixed one, Otsu's, or one adapted to the neighbourhood.


Method = Literal["fixed", "otsu", "adaptive"]


class ThresholdArguments(LookArguments):
    """Where, and by which rule."""

    method: Annotated[Method, Field(description="fixed: `level`; otsu: best split; adaptive: local mean.")] = "otsu"
    level: Annotated[Channel | None, Field(description="Brightness above which a pixel is white; for fixed.")] = None
    window: Annotated[int, Field(ge=3, le=255, description="Side of the neighbourhood, odd; for adaptive.")] = 31
    offset: Annotated[float, Field(ge=-255, le=255, description="Subtracted from the local mean; for adaptive.")] = 10.0
    invert: Annotated[bool, Field(description="Swap black and white.")] = False


class ThresholdResult(ToolModel):
    """Areas of the split."""

    image: str
    box: PixelBox
    level: int | None
    """The brightness that splits, 0..255; None for adaptive."""
    white_fraction: float
    """0..1."""


class Threshold(Tool[ThresholdArguments, ThresholdResult]):
    """Black and white by brightness."""

    name = "threshold"
    suits = (("small or hidden things", 4),)
    operation = Operation.SEGMENT
    description = (
        "Turn an image or a region of it into black and white by brightness. The method is a level you give (fixed), "
        "the best level for the region (otsu), or the mean of each pixel's neighbourhood (adaptive, for uneven light). "
        "Gives "
        "a new image, the level and the fraction of white pixels."
    )
    arguments = ThresholdArguments
    result = ThresholdResult

    def run(self, arguments: ThresholdArguments, context: ToolContext) -> ToolOutcome[ThresholdResult]:
        """Threshold the luma."""
        if (arguments.method == "fixed") is (arguments.level is None):
            raise wrong_format('level belongs to method="fixed": give both or neither.')
        if arguments.window % 2 == 0:
            raise wrong_format(f"window must be odd, not {arguments.window}. Use {arguments.window + 1}.")
        seen = look(arguments, context)
        kind = cv2.THRESH_BINARY_INV if arguments.invert else cv2.THRESH_BINARY
        level: int | None = arguments.level
        if arguments.method == "adaptive":
            mean = cv2.ADAPTIVE_THRESH_MEAN_C
            mask = cv2.adaptiveThreshold(seen.grey, 255, mean, kind, arguments.window, arguments.offset)
        else:
            otsu = cv2.THRESH_OTSU if arguments.method == "otsu" else 0
            used, mask = cv2.threshold(seen.grey, level or 0, 255, kind | otsu)
            level = round(used)
        value = ThresholdResult(image=seen.image, box=seen.box, level=level, white_fraction=fraction(mask))  # type: ignore[arg-type]
        return ToolOutcome(value, (("threshold", picture_of(mask)),))
