"""Where an expert cuts: boxes around the evidence with plausible, jittered margins, and places that show nothing."""

from __future__ import annotations

from saccade.sft.experts.scene import Box, area, union
from saccade.tasks.worlds.rng import Rng

Size = tuple[int, int]
LEAST = 32
"""Shortest side of a window in pixels, where the picture has as many."""


def around(rng: Rng, box: Box, size: Size, *, widen: int = 1) -> Box:
    """A box around `box` inside a picture of `size`: margins of its own size or so, times `widen`, each for itself."""
    width, height = box[2] - box[0], box[3] - box[1]
    # Small things are not hit exactly: the least margin is a hundredth of the picture.
    least = max(size) // 100 + 4
    left, right = (widen * (least + width * rng.integer(5, 70) // 100) for _ in range(2))
    top, bottom = (widen * (least + height * rng.integer(5, 70) // 100) for _ in range(2))
    # Some tools refuse crops of less than 32 pixels.
    right, bottom = (max(right, LEAST - width - left), max(bottom, LEAST - height - top))
    x0, y0, x1, y1 = max(0, box[0] - left), max(0, box[1] - top), box[2] + right, box[3] + bottom
    x0, y0 = max(0, min(x0, size[0] - LEAST)), max(0, min(y0, size[1] - LEAST))
    if rng.chance(50):  # people like round numbers
        step = 10 if max(x1 - x0, y1 - y0) >= 80 else 5
        x0, y0, x1, y1 = x0 - x0 % step, y0 - y0 % step, x1 + -x1 % step, y1 + -y1 % step
    return x0, y0, min(size[0], x1), min(size[1], y1)


def elsewhere(rng: Rng, box: Box, size: Size) -> Box | None:
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
    whole = union(boxes)
    if len(boxes) == 1 or area(whole) <= 12 * sum(map(area, boxes)):
        return [whole]
    return boxes if len(boxes) <= most else []


def zoom(box: Box, side: int) -> int:
    """How many times a crop of `box` must be enlarged to be about `side` pixels long; 1 to 16."""
    return max(1, min(16, round(side / max(box[2] - box[0], box[3] - box[1]))))
