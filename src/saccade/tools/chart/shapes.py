"""The flat-coloured shapes of a chart: bars, markers, slices, squares of a legend, lines, each with its colour.

A shape is a connected group of pixels of one colour that is thick enough not to be a letter or a grid line. Gradients,
textures and photographs give many shapes that mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, pi
from typing import Any, Final, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from saccade.tools.fields import PixelBox, Rgb
from saccade.tools.look import PixelArray

ShapeKind = Literal["rectangle", "circle", "region", "line"]

_COLOURS: Final = 24
"""Most colours that are told apart; rarer ones are edges of letters."""
_NEAR: Final = 18
"""Largest difference in a channel of pixels of one colour."""
_LEAST_SHARE: Final = 0.0004
_THICK: Final = 5
"""Least width in pixels of a shape that is no line."""
_SOLID: Final = 0.93
_ROUND: Final = 0.8


@dataclass(frozen=True, slots=True)
class ColourShape:
    """One group of connected pixels of one colour."""

    kind: ShapeKind
    box: PixelBox
    color: Rgb
    area: int
    """Pixels."""
    outline: NDArray[np.int32]
    """(points, 2), x and y."""

    @property
    def center(self) -> tuple[float, float]:
        """The middle of the box."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the box."""
        return self.box[2] - self.box[0], self.box[3] - self.box[1]


def common_colours(rgb: PixelArray) -> tuple[Rgb, ...]:
    """The colours that cover most of a picture, the commonest first; near ones count as the commoner of them."""
    packed = rgb.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    values, counts = np.unique(packed, return_counts=True)
    least = max(40.0, _LEAST_SHARE * packed.size)
    colours: list[Rgb] = []
    for index in np.argsort(-counts.astype(np.int64))[: 20 * _COLOURS]:
        if counts[index] < least / 4:
            break
        colour = (int(values[index]) >> 16, int(values[index]) >> 8 & 255, int(values[index]) & 255)
        if all(max(abs(a - b) for a, b in zip(colour, other, strict=True)) > _NEAR for other in colours):
            colours.append(colour)
    return tuple(colours[:_COLOURS])


def mask_of_colour(rgb: PixelArray, colour: Rgb) -> PixelArray:
    """Where a picture has that colour or one hardly different: (height, width), 0 or 255."""
    return np.asarray(cv2.inRange(rgb, np.array(colour) - _NEAR, np.array(colour) + _NEAR), np.uint8)


def find_shapes(rgb: PixelArray) -> tuple[ColourShape, ...]:
    """The shapes of all colours but that of the paper, by colour and then from top to bottom."""
    paper = paper_colour(rgb)
    shapes: list[ColourShape] = []
    for colour in common_colours(rgb):
        if colour != paper:
            shapes += _shapes_of(mask_of_colour(rgb, colour), colour)
    return tuple(shapes)


def paper_colour(rgb: PixelArray) -> Rgb:
    """The commonest colour along the border of a picture; of a border without any, the median."""
    border = np.concatenate([rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]])[:, None]
    colours = common_colours(np.ascontiguousarray(border))
    if colours:
        return colours[0]
    red, green, blue = (int(level) for level in np.median(border.reshape(-1, 3), axis=0))
    return red, green, blue


def _shapes_of(mask: PixelArray, colour: Rgb) -> list[ColourShape]:
    # Opened, so that a letter or a line that touches a bar is no part of it.
    thick = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(np.asarray(thick, np.uint8), connectivity=4)
    shapes = []
    for left, top, width, height, area in (tuple(map(int, row)) for row in stats[1:count]):
        if min(width, height) < _THICK:
            continue
        part = np.ascontiguousarray(thick[top : top + height, left : left + width])
        outline = _outline(part) + np.array([left, top])
        box = (left, top, left + width, top + height)
        shapes.append(ColourShape(_kind(part, area), box, colour, area, outline.astype(np.int32)))
    return shapes


def _outline(part: Any) -> Any:
    outlines, _ = cv2.findContours(part, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return max(outlines, key=cv2.contourArea)[:, 0]


def _kind(part: Any, area: int) -> ShapeKind:
    height, width = part.shape
    if area >= _SOLID * width * height:
        return "rectangle"
    if max(width, height) < 1.25 * min(width, height) and abs(area / (pi / 4 * width * height) - 1) < 1 - _ROUND:
        return "circle"
    # A polyline fills little of its box, and is as thick everywhere.
    distance = cv2.distanceTransform(np.pad(np.asarray(part, np.uint8), 1), cv2.DIST_L2, 3)
    thickness = 2 * float(distance.max())
    return "line" if thickness < 0.12 * hypot(width, height) and area < 0.3 * width * height else "region"
