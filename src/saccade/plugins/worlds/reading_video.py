"""How programs look for coloured things in a video: few frames first, then nearer where something changes.

`video` is a frame reader with the interface of decord: `len`, indexing, `get_batch`, `get_avg_fps`. Goes into programs
by `program.compose`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import dist
from typing import Any

import cv2
import numpy as np

HUES = {"red": 0, "yellow": 25, "green": 66, "blue": 112, "purple": 140}
Blob = tuple[float, float, int]


def blobs_of(rgb: np.ndarray, colour: str) -> list[Blob]:
    """Return (x, y, area) of every blot of a colour in a frame, its hue within 9 of 180 and not dull."""
    hue, saturation, value = cv2.split(cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV))
    turn = np.abs(hue.astype(int) - HUES[colour])
    mask = (np.minimum(turn, 180 - turn) <= 9) & (saturation > 100) & (value > 70)
    count, _, stats, centres = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    return [
        (float(x), float(y), int(area))
        for (*_, area), (x, y) in zip(stats[1:count], centres[1:count], strict=True)
        if area >= 60
    ]


def coarse(video: Any) -> list[int]:
    """Return frames a quarter of a second apart, the last one too."""
    step = max(1, round(video.get_avg_fps() / 4))
    return sorted({*range(0, len(video), step), len(video) - 1})


def boundary(low: int, high: int, seen: Callable[[int], bool]) -> int:
    """Return the first frame after `low` where `seen` is as at `high`, if it changes once between them."""
    wanted = seen(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) == wanted else (middle, high)
    return high


def span_of(video: Any, colour: str) -> tuple[int, int]:
    """Return the first frame in which a colour is seen and the first without it afterwards."""
    frames = coarse(video)

    def seen(frame: int) -> bool:
        return bool(blobs_of(video[frame].asnumpy(), colour))

    shown = [
        frame
        for frame, pixels in zip(frames, video.get_batch(frames).asnumpy(), strict=True)
        if blobs_of(pixels, colour)
    ]
    before = max((frame for frame in frames if frame < shown[0]), default=-1)
    after = min((frame for frame in frames if frame > shown[-1]), default=-1)
    first = boundary(before, shown[0], seen) if before >= 0 else shown[0]
    end = boundary(shown[-1], after, seen) if after >= 0 else len(video)
    return first, end


def places(video: Any, colour: str) -> list[tuple[int, int]]:
    """Return the place of the largest blot of a colour, to the pixel, in each coarse frame that has one."""
    found = []
    for pixels in video.get_batch(coarse(video)).asnumpy():
        blobs = blobs_of(pixels, colour)
        if blobs:
            x, y, _ = max(blobs, key=lambda blob: blob[2])
            found.append((round(x), round(y)))
    return found


def count_tracks(video: Any, colour: str) -> int:
    """Count the things of a colour in the video: a blot with none near it a quarter of a second before is new."""
    before: list[Blob] = []
    count = 0
    for pixels in video.get_batch(coarse(video)).asnumpy():
        now = blobs_of(pixels, colour)
        count += sum(all(dist(blob[:2], old[:2]) > 30 for old in before) for blob in now)
        before = now
    return count
