"""What a video is to those who read it: its timeline, its frames by number, its faults, its limits."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FramePixels = NDArray[np.uint8]
Resize = tuple[int, int] | None


class VideoError(RuntimeError):
    """The file is no video, or one that cannot be decoded; the message says why."""


class VideoTooLargeError(VideoError):
    """The video asks for more than the limits allow."""


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """What a video may ask for."""

    pixels: int = 64_000_000
    """Width times height of a frame."""
    frames: int = 2_000_000


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is known of a video once its packets were read.

    Its size is as displayed: with square pixels, and turned as the file asks.
    """

    width: int
    height: int
    starts: tuple[float, ...]
    """Second at which each frame is shown; the first is 0."""
    seconds: float
    """When the last frame ends."""
    fps: float
    """Mean frames per second."""
    keys: tuple[int, ...]
    """Numbers of the frames that are decoded without others."""
    container: str
    """Names of the container format, as its reader gives them: `mov,mp4,m4a,3gp,3g2,mj2`, `matroska,webm`, `gif`."""

    def at(self, second: float) -> int:
        """Return the frame that is on the screen at `second`: the last one that starts at or before it."""
        return max(0, bisect_right(self.starts, second + 1e-6) - 1)

    def end(self, index: int) -> float:
        """Return the second at which frame `index` is followed by the next, or the video ends."""
        return self.starts[index + 1] if index + 1 < len(self.starts) else self.seconds


class Frames(Protocol):
    """A video whose frames can be had by number."""

    timeline: Timeline

    def picture(self, index: int, size: Resize = None) -> FramePixels:
        """Return RGB pixels (height, width, 3) of frame `index`, scaled to `size` (width, height) if given.

        Raises `VideoError` if it cannot be decoded.
        """


def mean_rate(frames: int, seconds: float, declared: float | None = None) -> float:
    """Return frames per second as counted, or as declared if that is the same but for rounded times."""
    counted = frames / seconds
    if declared is not None and abs(declared / counted - 1) < 0.02:
        return declared
    return counted
