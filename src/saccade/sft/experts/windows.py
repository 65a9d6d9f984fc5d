"""Where an expert cuts: boxes around the evidence with plausible, jittered margins, and places that show nothing."""

from __future__ import annotations

from saccade.sft.experts.scene import Box, area, union
from saccade.tasks.worlds.rng import Rng

PixelSize = tuple[int, int]
LEAST = 32
"""Shortest side of a window in pixels, where the picture has as many."""


def around(rng: Rng, box: Box, size: PixelSize, *, widen: int = 1) -> Box:
    """A box around `box` inside a picture of `size`: margins of its own size or so, times `widen`, each for itself."""
    # Small things are not hit exactly: the least margin is a hundredth of the picture.
    least = max(size) // 100 + 4
    # People like round numbers.
    step = rng.choice((1, 5, 10))
    edges = []
    for axis in (0, 1):
        side = box[axis + 2] - box[axis]
        before, after = (widen * (least + side * rng.integer(5, 70) // 100) for _ in range(2))
        low, high = box[axis] - before, box[axis + 2] + after
        edges.append(_inside(low - low % step, high + -high % step, size[axis]))
    (x0, x1), (y0, y1) = edges
    return x0, y0, x1, y1


def _inside(low: int, high: int, size: int) -> tuple[int, int]:
    """The part of the span that lies in 0..size, made `LEAST` long where there is room. Some tools want that much."""
    low, high = max(0, low), min(size, high)
    high = min(size, max(high, low + LEAST))
    return max(0, min(low, high - LEAST)), high


def elsewhere(rng: Rng, box: Box, size: PixelSize) -> Box | None:
    """A box of the same size that shows nothing of `box`; None where the picture has no room for one."""
    width, height = box[2] - box[0], box[3] - box[1]
    if width > size[0] // 2 or height > size[1] // 2:
        return None
    for _ in range(40):
        x, y = rng.integer(0, size[0] - width), rng.integer(0, size[1] - height)
        if x + width <= box[0] or x >= box[2] or y + height <= box[1] or y >= box[3]:
            return x, y, x + width, y + height
    return None


def groups(boxes: list[Box], most: int) -> list[Box]:
    """The evidence as windows to look at: all of it in one if it lies together, else one each.

    Empty if that would be more than `most` windows.
    """
    together = union(boxes)
    if len(boxes) == 1 or area(together) <= 12 * sum(map(area, boxes)):
        return [together]
    return boxes if len(boxes) <= most else []


def zoom(box: Box, side: int) -> int:
    """How many times a crop of `box` must be enlarged to be about `side` pixels long; 1 to 16."""
    return max(1, min(16, round(side / max(box[2] - box[0], box[3] - box[1]))))
