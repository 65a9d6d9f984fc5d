"""Frames of a video by their number, in the order in which they are shown, exactly.

    frames = open_frames("clip.mp4")     # reads the packets once; decodes the first frame
    frames.timeline.starts[7]            # second at which frame 7 is shown
    frames.picture(7)                    # RGB pixels of frame 7

One implementation for each way of decoding: `video_stream` (PyAV) and `video_pictures` (Pillow: GIF and WebP).
Used by the jail's `VideoReader` and by the host. Promises no speed for files that cannot be sought in.
"""

from __future__ import annotations

import io

from .video_pictures import PictureFrames
from .video_source import ReopenedFile
from .video_stream import StreamFrames
from .video_timeline import FrameLimits, Frames, VideoError


def open_frames(path: str, limits: FrameLimits | None = None) -> Frames:
    """The frames of a file.

    Raises OSError as `open` does, `VideoError`, and ImportError where PyAV is needed and not installed.
    """
    return read_frames(ReopenedFile(path), limits)


def read_frames(file: io.RawIOBase | io.BytesIO, limits: FrameLimits | None = None) -> Frames:
    """As `open_frames`, for a seekable binary file object, which must stay usable."""
    beginning = file.read(16) or b""
    if not beginning:
        raise VideoError("the file is empty: it holds no video")
    file.seek(0)
    still = beginning.startswith(b"GIF8") or (beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP")
    limits = limits or FrameLimits()
    return PictureFrames(file, limits) if still else StreamFrames(file, limits)
