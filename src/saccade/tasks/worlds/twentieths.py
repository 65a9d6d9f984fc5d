"""Places in a picture as a piece of Python: fractions of width and height in steps of a twentieth.

Coarse enough for a tiny model, fine enough for a crop of a fifth of the picture around the place.
"""

from __future__ import annotations

from typing import Final

STEPS: Final = 20


def twentieth(fraction: float) -> float:
    """The nearest twentieth from 0 to 0.95."""
    return min(STEPS - 1, max(0, round(fraction * STEPS))) / STEPS


def place_line(colour: str, box: tuple[float, float, float, float], size: tuple[int, int]) -> str:
    """`red_sign = 0.35, 0.60`: the middle of `box`, `xyxy` pixels of a picture of `size`."""
    x, y = (twentieth((box[axis] + box[axis + 2]) / 2 / size[axis]) for axis in (0, 1))
    return f"{colour}_sign = {x:.2f}, {y:.2f}"
