"""Mean colour, spread and histogram of a region, RGB 0..255, averaged as stored and not in linear light."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import PixelBox
from saccade.tools.look import LookArguments, look
from saccade.tools.operation import Operation


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
