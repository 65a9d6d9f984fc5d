"""Outlines of the things that stand out from their background by brightness, with their areas.

Each thing is a connected group of pixels darker or lighter than a level; holes in it are filled. Things that touch are
one, and texture gives many small ones: it measures clean figures, it does not recognise objects.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import cv2
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import Channel, PixelBox
from saccade.tools.look import Look, LookArguments, look, picture_of
from saccade.tools.operation import Operation


class ContoursArguments(LookArguments):
    """Where, and what counts as a thing."""

    things: Annotated[Literal["dark", "light"], Field(description="Are they darker or lighter than the level?")] = (
        "dark"
    )
    level: Annotated[Channel | None, Field(description="Brightness that splits. Default: the best one (otsu).")] = None
    min_area: Annotated[float, Field(ge=0, le=1e9, description="Smallest area in square pixels.")] = 20.0
    limit: Annotated[int, Field(ge=1, le=200, description="How many are listed, largest first.")] = 50


class Contour(ToolModel):
    """One outline; coordinates are those of the whole image."""

    area: float
    """Square pixels inside the outline, which runs through the centres of the border pixels."""
    perimeter: float
    """Pixels."""
    box: PixelBox
    center: tuple[float, float]
    """Centre of the box."""
    corners: int
    """Corners of the outline after straightening by 2 % of its perimeter."""


class ContoursResult(ToolModel):
    """What was found."""

    image: str
    level: int
    count: int
    """How many things of at least `min_area` there are, listed or not."""
    contours: tuple[Contour, ...]


class Contours(Tool[ContoursArguments, ContoursResult]):
    """Contours with areas."""

    name = "contours"
    suits = (("counting", 0),)
    operation = Operation.DETECT_EDGES
    description = (
        "Outline and list the dark (or light) things, largest first. Gives area, perimeter, bounding box, centre and "
        "number of corners of each, and a new image with the outlines in red. Good for counting and comparing clean "
        "shapes; things that touch count as one."
    )
    arguments = ContoursArguments
    result = ContoursResult

    def run(self, arguments: ContoursArguments, context: ToolContext) -> ToolOutcome[ContoursResult]:
        """Threshold, outline, measure."""
        seen = look(arguments, context)
        kind = cv2.THRESH_BINARY_INV if arguments.things == "dark" else cv2.THRESH_BINARY
        otsu = cv2.THRESH_OTSU if arguments.level is None else 0
        used, mask = cv2.threshold(seen.grey, arguments.level or 0, 255, kind | otsu)
        outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        kept = [outline for outline in outlines if cv2.contourArea(outline) >= arguments.min_area]
        kept.sort(key=cv2.contourArea, reverse=True)
        drawn = seen.rgb.copy()
        cv2.drawContours(drawn, kept[: arguments.limit], -1, (255, 0, 0), 2)
        listed = tuple(_measured(outline, seen) for outline in kept[: arguments.limit])
        value = ContoursResult(image=seen.image, level=round(used), count=len(kept), contours=listed)
        return ToolOutcome(value, (("contours", picture_of(drawn)),))


def _measured(outline: Any, seen: Look) -> Contour:
    left, top, width, height = cv2.boundingRect(outline)
    perimeter = cv2.arcLength(outline, True)
    return Contour(
        area=round(cv2.contourArea(outline), 1),
        perimeter=round(perimeter, 1),
        box=seen.box_of(left, top, width, height),
        center=seen.point_of(left + width / 2, top + height / 2),
        corners=len(cv2.approxPolyDP(outline, 0.02 * perimeter, True)),
    )
