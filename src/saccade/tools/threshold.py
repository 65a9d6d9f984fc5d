"""Black and white by a threshold: a fixed one, Otsu's, or one adapted to the neighbourhood."""

from __future__ import annotations

from typing import Annotated, Literal

import cv2
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import Channel, PixelBox
from saccade.tools.look import LookArguments, fraction, look, picture_of
from saccade.tools.operation import Operation
from saccade.tools.problem import wrong_format

Method = Literal["fixed", "otsu", "adaptive"]


class ThresholdArguments(LookArguments):
    """Where, and by which rule."""

    method: Annotated[Method, Field(description="fixed: `level`; otsu: best split; adaptive: local mean.")] = "otsu"
    level: Annotated[Channel | None, Field(description="Brightness above which a pixel is white; for fixed.")] = None
    window: Annotated[int, Field(ge=3, le=255, description="Side of the neighbourhood, odd; for adaptive.")] = 31
    offset: Annotated[float, Field(ge=-255, le=255, description="Subtracted from the local mean; for adaptive.")] = 10.0
    invert: Annotated[bool, Field(description="Swap black and white.")] = False


class ThresholdResult(ToolModel):
    """What was split where."""

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
