"""Boxes `x0, y0, x1, y1` in pixels, and how far two of them hold the same."""

from __future__ import annotations

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def area(box: Box) -> float:
    """Pixels inside a box; 0 for an empty or reversed one."""
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def overlap(one: Box, other: Box) -> float:
    """Pixels that both boxes hold."""
    return area((max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])))


def iou(one: Box, other: Box) -> float:
    """Intersection over union, 0 to 1; 0 if both are empty."""
    shared = overlap(one, other)
    union = area(one) + area(other) - shared
    return shared / union if union > 0 else 0.0
