"""Text is looked for in fewer pixels than a picture has, and found where it is in the picture.

The detector takes most of the time of OCR, in proportion to its pixels. It is shown a small picture twice as large at
most, and no long run of rows, or of columns, that are all alike: margins, and the inside of a plot. Text has such runs
only where all letters of a row are straight, for less than their height.
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
_LONGEST_RUN: Final = 16
_RUNS_OF_SIDE: Final = 25
"""Where the short side has more than these many longest runs, a run may be longer: letters are larger, too."""


class CompactDetector:
    """RapidOCR's detector of text, in its place; keeps the size of the running call in it."""

    def __init__(self, detector: Callable[[PixelArray], Any]) -> None:
        self._detector: Any = detector

    def __call__(self, pixels: PixelArray) -> Any:
        """What the detector gives, boxes in coordinates of the picture."""
        short = min(pixels.shape[:2])
        longest = max(_LONGEST_RUN, short // _RUNS_OF_SIDE)
        rows, columns = kept_rows(pixels, longest), kept_rows(pixels.transpose(1, 0, 2), longest)
        compact = np.ascontiguousarray(pixels[rows][:, columns])
        enlarged = min(_SIDE / short, _MOST_ENLARGED)
        self._detector.limit_side_len = round(enlarged * min(compact.shape[:2]))
        found = self._detector(compact)
        if found.boxes is not None:
            places = (_places(found.boxes[..., axis], kept) for axis, kept in enumerate((columns, rows)))
            found.boxes = np.stack(tuple(places), axis=-1).astype(found.boxes.dtype)
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


def _places(coordinates: NDArray[Any], kept: NDArray[np.intp]) -> NDArray[Any]:
    return np.interp(coordinates, np.arange(len(kept)), kept)
