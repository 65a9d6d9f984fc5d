"""Reading maps whose regions have the colours of a legend: the part that programs of `region-map` are made of.

As `reading`, every function is also source text for programs in the sandbox, and imports nothing else.
"""

from __future__ import annotations

import cv2
import numpy as np

from saccade.plugins.worlds.reading.kit import find_text


def colour_beside(rgb: np.ndarray, text: str, size: int, across: int) -> tuple[int, ...]:
    """The colour `across` pixels left of where `text` is printed in `size` pixels per em."""
    x0, y0, _, y1 = find_text(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), text, range(size, size + 1))
    return tuple(int(level) for level in rgb[(y0 + y1) // 2, x0 - across])


def class_of(rgb: np.ndarray, name: str, legend: list[str]) -> str:
    """The text of the legend whose colour a region has."""
    colour = colour_beside(rgb, name, 18, 6)
    return min(
        legend, key=lambda text: sum(abs(a - b) for a, b in zip(colour, colour_beside(rgb, text, 18, 20), strict=True))
    )


def regions_of(rgb: np.ndarray, text: str) -> int:
    """How many regions have the colour of a text of the legend; its own patch is none."""
    colour = colour_beside(rgb, text, 18, 20)
    mask = (np.abs(rgb.astype(int) - colour).max(axis=2) == 0).astype(np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
    # Holes in letters are smaller.
    return int((stats[1:, cv2.CC_STAT_AREA] > 300).sum()) - 1
