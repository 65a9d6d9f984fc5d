"""Where a picture lies in a larger one, pixel for pixel.

Exact only: a copy that was scaled, compressed or drawn on is not found. A place that is not the only one is no answer.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

Packed: TypeAlias = npt.NDArray[np.uint32]
Box: TypeAlias = tuple[int, int, int, int]

SMALLEST: Final = 64
"""Pixels below which a picture may lie anywhere by chance."""
_PROBES: Final = 24
_SAMPLE: Final = 4096


def packed(picture: Image.Image) -> Packed:
    """The pixels as one number each, height × width; transparency is left out."""
    opaque = np.ascontiguousarray(picture.convert("RGB").convert("RGBA"))
    return np.asarray(opaque.view(np.uint32)[..., 0])


def holds_at(large: Packed, small: Packed, left: int, top: int) -> bool:
    """Whether `small` lies in `large` with its corner at (left, top)."""
    height, width = small.shape
    return bool(np.array_equal(large[top : top + height, left : left + width], small))


def only_place(large: Packed, small: Packed) -> Box | None:
    """`xyxy` of the one place where `small` lies in `large`; None if there is none, more than one, or no telling."""
    height, width = small.shape
    rows, columns = large.shape[0] - height + 1, large.shape[1] - width + 1
    if rows < 1 or columns < 1 or small.size < SMALLEST or (rows, columns) == (1, 1):
        return None
    probes = _distinctive(small)
    if probes is None:
        return None
    (y, x), *others = probes
    hits = np.flatnonzero(large[y : y + rows, x : x + columns] == small[y, x])
    tops, lefts = np.divmod(hits, columns)
    for y, x in others:
        same = large[tops + y, lefts + x] == small[y, x]
        tops, lefts = tops[same], lefts[same]
    if not 1 <= len(tops) <= 8:
        return None
    places = [(int(a), int(b)) for a, b in zip(lefts, tops, strict=True) if holds_at(large, small, int(a), int(b))]
    return (*places[0], places[0][0] + width, places[0][1] + height) if len(places) == 1 else None


def _distinctive(small: Packed) -> list[tuple[int, int]] | None:
    """Pixels that tell `small` from others, rare colours first; None if a sample of it has one colour only."""
    flat = small.reshape(-1)
    sample = np.unique(np.linspace(0, flat.size - 1, _SAMPLE).astype(np.intp))
    values, first, counts = np.unique(flat[sample], return_index=True, return_counts=True)
    if len(values) < 2:
        return None
    rare = sample[first[np.argsort(counts, kind="stable")][:_PROBES]]
    spread = sample[:: max(1, len(sample) // _PROBES)]
    return [(int(place) // small.shape[1], int(place) % small.shape[1]) for place in (*rare, *spread)]
