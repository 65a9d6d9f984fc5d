"""A sheet for diagrams: lines, arcs, marks, and labels that never touch them.

Points are computed in floating point and rounded to whole pixels before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import atan2, cos, degrees, dist, hypot, radians, sin

import numpy as np
from PIL import Image, ImageDraw

from saccade.tasks.worlds.canvas import Box, Colour, blank, font, put_text_centred, text_size
from saccade.tasks.worlds.rng import Rng

Point = tuple[float, float]
_INKS: tuple[tuple[Colour, Colour, Colour], ...] = (
    ((255, 255, 255), (20, 20, 20), (0, 0, 0)),
    ((255, 255, 255), (34, 74, 160), (20, 24, 40)),
    ((250, 247, 238), (120, 52, 40), (50, 30, 24)),
    ((240, 246, 242), (24, 104, 74), (16, 44, 34)),
    ((34, 52, 46), (226, 232, 220), (248, 248, 240)),
)
_CLEAR = 5
"""Least pixels of paper around a label."""


@dataclass(slots=True)
class Sheet:
    """A picture that is being drawn; made new for every sample, and no part of it afterwards."""

    picture: Image.Image
    paper: Colour
    line: Colour
    ink: Colour
    width: int
    text_size: int
    boxes: list[Box] = field(default_factory=list)
    """Where the labels stand, in the order they were put."""

    @property
    def pen(self) -> ImageDraw.ImageDraw:
        """A pen for the picture."""
        return ImageDraw.Draw(self.picture)

    def lines(self, points: Sequence[Point], *, closed: bool = False) -> None:
        """A chain of straight lines."""
        pixels = [to_pixel(point) for point in points]
        for a, b in zip(pixels, pixels[1:] + pixels[:1] if closed else pixels[1:], strict=False):
            self.pen.line((a, b), fill=self.line, width=self.width)

    def circle(self, centre: Point, radius: int) -> None:
        """The outline of a circle."""
        x, y = to_pixel(centre)
        self.pen.ellipse((x - radius, y - radius, x + radius, y + radius), outline=self.line, width=self.width)

    def arc(self, corner: Point, a: Point, b: Point, radius: int) -> None:
        """The arc of an angle at `corner` between the directions to `a` and to `b`, on its smaller side."""
        x, y = to_pixel(corner)
        start, end = (round(degrees(atan2(p[1] - corner[1], p[0] - corner[0]))) for p in (a, b))
        if (end - start) % 360 > 180:
            start, end = end, start
        self.pen.arc((x - radius, y - radius, x + radius, y + radius), start, end, fill=self.line, width=2)

    def right_angle(self, corner: Point, a: Point, b: Point, side: int = 14) -> None:
        """The small square of a right angle at `corner`."""
        first, second = toward(corner, a, side), toward(corner, b, side)
        middle = (first[0] + second[0] - corner[0], first[1] + second[1] - corner[1])
        self.lines([first, middle, second])

    def tick(self, a: Point, b: Point) -> None:
        """The mark of equal length across the middle of a side."""
        middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
        length = dist(a, b)
        across = ((a[1] - b[1]) / length * 7, (b[0] - a[0]) / length * 7)
        self.lines([(middle[0] - across[0], middle[1] - across[1]), (middle[0] + across[0], middle[1] + across[1])])

    def label(self, text: str, start: Point, direction: Point) -> Box:
        """Put a label at the first clear place from `start` along `direction`; returns the box of its ink.

        ValueError if there is none on the sheet.
        """
        face = font(self.text_size)
        width, height = text_size(text, face)
        length = hypot(*direction) or 1.0
        drawn = np.any(np.asarray(self.picture) != self.paper, axis=2)
        for step in range(0, 240, 2):
            x, y = to_pixel((start[0] + direction[0] / length * step, start[1] + direction[1] / length * step))
            left, top = x - width // 2 - _CLEAR, y - height // 2 - _CLEAR
            right, bottom = left + width + 2 * _CLEAR, top + height + 2 * _CLEAR
            if left < 0 or top < 0 or right > self.picture.width or bottom > self.picture.height:
                break
            if not drawn[top:bottom, left:right].any():
                self.boxes.append(put_text_centred(self.pen, (x, y), text, face, self.ink))
                return self.boxes[-1]
        raise ValueError(f"no clear place for {text!r}")


def new_sheet(rng: Rng, size: tuple[int, int]) -> Sheet:
    """An empty sheet of a random style."""
    paper, line, ink = rng.choice(_INKS)
    return Sheet(blank(size, paper)[0], paper, line, ink, rng.integer(2, 3), rng.integer(16, 22))


def to_pixel(point: Point) -> tuple[int, int]:
    """The nearest whole pixel."""
    return round(point[0]), round(point[1])


def toward(a: Point, b: Point, pixels: float) -> Point:
    """The point so many pixels from `a` on the way to `b`."""
    part = pixels / dist(a, b)
    return a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part


def between(corner: Point, a: Point, b: Point) -> Point:
    """The direction that halves the angle at `corner` between `a` and `b`."""
    first, second = toward(corner, a, 1), toward(corner, b, 1)
    return first[0] + second[0] - 2 * corner[0], first[1] + second[1] - 2 * corner[1]


def polar(centre: Point, radius: float, angle: float) -> Point:
    """The point at `angle` degrees (clockwise from the right, as rows grow downwards)."""
    return centre[0] + radius * cos(radians(angle)), centre[1] + radius * sin(radians(angle))


def turned(points: Sequence[Point], angle: float) -> list[Point]:
    """The points turned about the origin by `angle` degrees."""
    turn, rise = cos(radians(angle)), sin(radians(angle))
    return [(x * turn - y * rise, x * rise + y * turn) for x, y in points]


def fitted(points: Sequence[Point], size: tuple[int, int], margin: int) -> list[Point]:
    """The points scaled and moved to fill a sheet but for its margin."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    scale = min((size[0] - 2 * margin) / wide, (size[1] - 2 * margin) / high)
    left, top = (size[0] - scale * wide) / 2, (size[1] - scale * high) / 2
    return [(left + (x - min(xs)) * scale, top + (y - min(ys)) * scale) for x, y in points]
