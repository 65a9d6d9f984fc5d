"""Corners of regular polygons and turned points in whole pixels, equal on every machine.

Sines differ between machines in their last bit at most; they are rounded to 16 bits before anything is made of them.
"""

from __future__ import annotations

from math import cos, pi, sin


def sixteen_bits(degrees: int) -> tuple[int, int]:
    """Cosine and sine of whole degrees, times 65536."""
    return round(cos(degrees * pi / 180) * 65536), round(sin(degrees * pi / 180) * 65536)


def turned(x: int, y: int, degrees: int) -> tuple[int, int]:
    """The offset (x, y) turned clockwise on the screen by whole degrees, in whole pixels."""
    c, s = sixteen_bits(degrees)
    return (x * c - y * s + 32768) >> 16, (x * s + y * c + 32768) >> 16


def polygon_points(centre: tuple[int, int], radius: int, corners: int, turn: int = 0) -> list[tuple[int, int]]:
    """Corners of a regular polygon in a circle, the first at the top, turned clockwise by `turn` degrees."""
    points = []
    for number in range(corners):
        x, y = turned(0, -radius, turn + round(360 * number / corners))
        points.append((centre[0] + x, centre[1] + y))
    return points
