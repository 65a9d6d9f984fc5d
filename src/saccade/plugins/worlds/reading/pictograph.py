"""Reading rows of small pictures: the part that programs of `pictograph` are made of.

As `reading`, every function is also source text for programs in the sandbox, and imports nothing else.
"""

from __future__ import annotations

import cv2
import numpy as np

from saccade.plugins.worlds.reading.kit import find_text, read_text


def icon_boxes(rgb: np.ndarray) -> list[tuple[int, int]]:
    """Left edge and middle row of every small picture; the title has their colour too, and stands above them."""
    hsv = cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)
    mask = ((hsv[..., 1] > 110) & (hsv[..., 2] > 70)).astype(np.uint8)
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    return [(int(x), int(y + h // 2)) for x, y, _, h, area in stats[1:count] if y > 60 and area > 80]


def icon_rows(rgb: np.ndarray, names: list[str]) -> dict[str, int]:
    """How many pictures stand in the row of each name."""
    grey, icons = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), icon_boxes(rgb)
    rows = {}
    for name in names:
        _, y0, x1, y1 = find_text(grey, name, range(18, 19))
        rows[name] = sum(x > x1 and abs(y - (y0 + y1) / 2) < 18 for x, y in icons)
    return rows


def worth_of(rgb: np.ndarray) -> int:
    """What one picture stands for: the number after the first of them."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    _, y0, x1, y1 = find_text(grey, "=", range(20, 21))
    return int(read_text(grey, (x1 + 5, y0 - 12, x1 + 64, y1 + 12), range(20, 21)))
