"""Straight line segments and circles by the Hough transform: two tools over one idea.

Both find what votes support, not what is drawn: thick lines may give two segments and texture gives false circles.
"""

from __future__ import annotations

from math import atan2, degrees, hypot
from typing import Annotated, Any

import cv2
import numpy as np
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Cost, Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.look import Look, LookArguments, look, picture_of
from saccade.tools.operation import Operation
from saccade.tools.problem import wrong_format

_LISTED = 100


class LinesArguments(LookArguments):
    """Where, and what counts as a segment."""

    votes: Annotated[int, Field(ge=5, le=10_000, description="Edge pixels that must support a line.")] = 60
    min_length: Annotated[float, Field(ge=2, le=1e5, description="Shortest segment in pixels.")] = 30.0
    max_gap: Annotated[float, Field(ge=0, le=1e4, description="Largest gap in pixels that is bridged.")] = 5.0


class Segment(ToolModel):
    """One segment, in coordinates of the whole image."""

    start: tuple[float, float]
    end: tuple[float, float]
    length: float
    """Pixels."""
    angle: float
    """Degrees above the horizontal, counter-clockwise as seen: 0 <= angle < 180."""


class LinesResult(ToolModel):
    """Segments, longest first; at most 100 are listed."""

    image: str
    count: int
    lines: tuple[Segment, ...]


class HoughLines(Tool[LinesArguments, LinesResult]):
    """Straight segments by the Hough transform."""

    name = "hough_lines"
    suits = (("lengths, lines and circles", 0),)
    operation = Operation.DETECT_EDGES
    description = (
        "Find and list straight line segments, longest first. Gives both ends, length in pixels and angle in degrees "
        "of each, and a new image with the segments in red."
    )
    arguments = LinesArguments
    result = LinesResult
    cost = Cost.MEDIUM

    def run(self, arguments: LinesArguments, context: ToolContext) -> ToolOutcome[LinesResult]:
        """Canny, then the probabilistic transform."""
        seen = look(arguments, context)
        edges = cv2.Canny(seen.grey, 50, 150)
        raw: Any = cv2.HoughLinesP(
            edges, 1, np.pi / 180, arguments.votes, minLineLength=arguments.min_length, maxLineGap=arguments.max_gap
        )
        shapes = [] if raw is None else [tuple(map(int, line)) for line in np.reshape(raw, (-1, 4))]
        shapes.sort(key=lambda line: hypot(line[2] - line[0], line[3] - line[1]), reverse=True)
        drawn = seen.rgb.copy()
        for x1, y1, x2, y2 in shapes[:_LISTED]:
            cv2.line(drawn, (x1, y1), (x2, y2), (255, 0, 0), 2)
        value = LinesResult(
            image=seen.image, count=len(shapes), lines=tuple(_segment(line, seen) for line in shapes[:_LISTED])
        )
        return ToolOutcome(value, (("lines", picture_of(drawn)),))


class CirclesArguments(LookArguments):
    """Where, and which circles."""

    min_radius: Annotated[int, Field(ge=2, le=10_000, description="Pixels.")] = 5
    max_radius: Annotated[int, Field(ge=2, le=10_000, description="Pixels.")] = 200
    min_distance: Annotated[float, Field(ge=1, le=1e5, description="Smallest distance of two centres, pixels.")] = 10.0
    roundness: Annotated[float, Field(ge=0.5, le=1, description="How perfect a circle must be.")] = 0.85


class Circle(ToolModel):
    """One circle, in coordinates of the whole image."""

    center: tuple[float, float]
    radius: float
    """Pixels."""


class CirclesResult(ToolModel):
    """Circles, best supported first; at most 100 are listed."""

    image: str
    count: int
    circles: tuple[Circle, ...]


class HoughCircles(Tool[CirclesArguments, CirclesResult]):
    """Circles by the Hough transform."""

    name = "hough_circles"
    suits = (("counting", 3), ("lengths, lines and circles", 1))
    operation = Operation.DETECT_EDGES
    description = (
        "Find circles of a range of radii and list their centres and radii. All lengths are in pixels. Gives a new "
        "image with the circles in red. A smaller roundness finds more circles, and more false ones."
    )
    arguments = CirclesArguments
    result = CirclesResult
    cost = Cost.MEDIUM

    def run(self, arguments: CirclesArguments, context: ToolContext) -> ToolOutcome[CirclesResult]:
        """The gradient transform that scores roundness."""
        low, high = arguments.min_radius, arguments.max_radius
        if low > high:
            raise wrong_format(f"min_radius ({low}) is above max_radius ({high}). Swap them.")
        seen = look(arguments, context)
        # No circle of the region is larger than the region; a larger limit only costs time.
        high = max(low, min(high, max(seen.rgb.shape[:2])))
        raw: Any = cv2.HoughCircles(
            cv2.medianBlur(seen.grey, 3),
            cv2.HOUGH_GRADIENT_ALT,
            1.5,
            arguments.min_distance,
            param1=300,
            param2=arguments.roundness,
            minRadius=low,
            maxRadius=high,
        )
        shapes = (
            [] if raw is None else [tuple(map(float, circle[:3])) for circle in np.reshape(raw, (-1, raw.shape[-1]))]
        )
        drawn = seen.rgb.copy()
        for x, y, radius in shapes[:_LISTED]:
            cv2.circle(drawn, (round(x), round(y)), round(radius), (255, 0, 0), 2)
        circles = tuple(Circle(center=seen.point_of(x, y), radius=round(r, 2)) for x, y, r in shapes[:_LISTED])
        value = CirclesResult(image=seen.image, count=len(shapes), circles=circles)
        return ToolOutcome(value, (("circles", picture_of(drawn)),))


def _segment(line: tuple[int, ...], seen: Look) -> Segment:
    x1, y1, x2, y2 = line
    # y points down in images and up in geometry; a segment has no direction, so 180 degrees are 0.
    angle = round(degrees(atan2(y1 - y2, x2 - x1)) % 180, 2) % 180
    length = round(hypot(x2 - x1, y2 - y1), 2)
    return Segment(start=seen.point_of(x1, y1), end=seen.point_of(x2, y2), length=length, angle=angle)
