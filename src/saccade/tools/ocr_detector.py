"""Text is looked for in fewer pixels than a picture has, and found where it is in the picture.

The detector takes most of the time of OCR, in proportion to its pixels. It is shown a small picture twice as large at
most, and no long run of rows that are all alike: margins above and below, and the inside of a plot. Text has such runs
only where all its letters are straight, for less than their height. Columns all stay: words with less between them
would be taken for one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from saccade.tools.look import PixelArray

_SIDE: Final = 736
"""Short side up to which a picture is enlarged, in pixels, as the engine itself does it."""
_MOST_ENLARGED: Final = 2
"""By half, single letters are missed."""
_LONGEST_RUN: Final = 24
"""Of rows that stay, at least. With 16 fewer labels of charts were read."""
_RUNS_OF_SIDE: Final = 16
"""A run may be as long as this part of the short side: larger pictures may have larger letters."""


class CompactDetector:
    """RapidOCR's detector of text, in its place; keeps the size of the running call in it."""

    def __init__(self, detector: Callable[[PixelArray], Any]) -> None:
        self._detector: Any = detector

    def __call__(self, pixels: PixelArray) -> Any:
        """What the detector gives, boxes in coordinates of the picture."""
        short = min(pixels.shape[:2])
        rows = kept_rows(pixels, max(_LONGEST_RUN, short // _RUNS_OF_SIDE))
        enlarged = min(_SIDE / short, _MOST_ENLARGED)
        self._detector.limit_side_len = round(enlarged * min(len(rows), pixels.shape[1]))
        found = self._detector(pixels[rows])
        if found.boxes is not None:
            found.boxes[..., 1] = np.interp(found.boxes[..., 1], np.arange(len(rows)), rows)
        return found


def kept_rows(pixels: PixelArray, longest: int) -> NDArray[np.intp]:
    """Numbers of the rows of (rows, columns, 3) that remain: of a run of equal ones the first and last `longest // 2`.

    So what lies beside a run keeps its distance to what is left of it, and a box that reaches into a run stays exact.
    """
    numbers = np.arange(len(pixels))
    starts = np.concatenate([[True], (pixels[1:] != pixels[:-1]).any(axis=(1, 2))])
    first = np.flatnonzero(starts)
    run = np.cumsum(starts) - 1
    after_first, before_last = numbers - first[run], np.append(first[1:], len(pixels))[run] - 1 - numbers
    return np.flatnonzero(np.minimum(after_first, before_last) < longest // 2)
