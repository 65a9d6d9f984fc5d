"""Reading printed forms: the part that programs of `form-page` are made of.

As `reading`, every function is also source text for programs in the sandbox, and imports nothing else.
"""

from __future__ import annotations

import numpy as np

from saccade.plugins.worlds.reading.kit import coverage, find_text, read_text, text_boxes

PRINT = range(18, 19)
"""Pixels per em of everything but the title."""


def cells_after(grey: np.ndarray, text: str) -> list[str]:
    """What is printed to the right of a text, in the same row, cell by cell."""
    _, y0, x1, y1 = find_text(grey, text, PRINT)
    strip = (coverage(grey[y0 - 5 : y1 + 5, x1 + 14 :]) > 0.35).astype(np.uint8)
    boxes = sorted(text_boxes(strip, 15))
    return [read_text(grey, (x0 + x1 + 14, y0 - 5, x2 + x1 + 14, y1 + 5), PRINT) for x0, _, x2, _ in boxes]


def rows_below(grey: np.ndarray, text: str) -> int:
    """How many rows are printed below a text in its column."""
    x0, _, x1, y1 = find_text(grey, text, PRINT)
    column = coverage(grey[y1 + 4 :, x0 : x1 + 30]) > 0.5
    # A rule is ink all the way, a row of words is not.
    inked = np.concatenate([[False], column.any(axis=1) & (column.mean(axis=1) < 0.9), [False]])
    edges = np.flatnonzero(inked[1:] != inked[:-1])
    return int(sum(end - start > 6 for start, end in zip(edges[::2], edges[1::2], strict=True)))
