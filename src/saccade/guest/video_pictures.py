"""Frames of an animated GIF or WebP, by Pillow. Transparent pixels are shown on white."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image
from PIL.GifImagePlugin import GifImageFile
from PIL.WebPImagePlugin import WebPImageFile

from .video_timeline import FrameLimits, FramePixels, Resize, Timeline, VideoError, VideoTooLargeError, mean_rate

_UNSAID_MS = 100
"""How long a frame is shown whose file says 0: what viewers do."""


class PictureFrames:
    """`Frames` of a file that Pillow reads. A seek backwards decodes again from the first frame."""

    def __init__(self, file: io.RawIOBase | io.BytesIO, limits: FrameLimits) -> None:
        try:
            self._image = _opened(file)
            width, height = self._image.size
            starts, end = self._times(limits)
        except (VideoError, MemoryError):
            raise
        except Exception as error:  # decoders of broken pictures raise what they like
            raise VideoError(f"the file is broken: {error or type(error).__name__}") from error
        self.timeline = Timeline(
            width=width,
            height=height,
            starts=tuple(starts),
            seconds=end,
            fps=mean_rate(len(starts), end),
            keys=(0,),
            container=str(self._image.format).lower(),
        )

    def picture(self, index: int, size: Resize = None) -> FramePixels:
        try:
            self._image.seek(index)
            frame: Image.Image = self._image.convert("RGBA")
            ground = Image.new("RGBA", frame.size, "white")
            shown = Image.alpha_composite(ground, frame).convert("RGB")
        except MemoryError:
            raise
        except Exception as error:
            raise VideoError(f"frame {index} cannot be decoded: {error or type(error).__name__}") from error
        # A frame of a GIF can be larger than the header said.
        size = size or (self.timeline.width, self.timeline.height)
        if size != shown.size:
            shown = shown.resize(size, Image.Resampling.BICUBIC)
        return np.array(shown)

    def _times(self, limits: FrameLimits) -> tuple[list[float], float]:
        """Start of every frame and the end of the last, in seconds."""
        starts: list[float] = []
        elapsed = 0
        image: Any = self._image
        while len(starts) <= limits.frames:
            try:
                image.seek(len(starts))
            except EOFError:
                return starts, elapsed / 1000
            width, height = image.size
            if width * height > limits.pixels:
                raise VideoTooLargeError(f"a frame of {width}x{height} pixels is over the limit of {limits.pixels}")
            image.load()
            starts.append(elapsed / 1000)
            elapsed += int(image.info.get("duration") or _UNSAID_MS)
        raise VideoTooLargeError(f"the animation has more than {limits.frames} frames")


def _opened(file: io.RawIOBase | io.BytesIO) -> Image.Image:
    """The file with its header read. Not by `Image.open`, which warns of sizes that have limits here."""
    # Pillow expects a buffer's `read`, which gives all that is asked for.
    buffered = io.BufferedReader(file) if isinstance(file, io.RawIOBase) else file
    beginning = buffered.read(4)
    buffered.seek(0)
    reader = GifImageFile if beginning == b"GIF8" else WebPImageFile
    return reader(buffered)
