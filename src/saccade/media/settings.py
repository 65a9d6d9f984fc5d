"""How large pictures and videos may be, and how large a picture is shown: settings of `ask` and `eval`."""

from __future__ import annotations

from typing import Final

from pydantic import Field, PositiveFloat, PositiveInt

from saccade.media.decode import DecodeLimits
from saccade.media.video import VideoLimits
from saccade.record.settings import Settings

_LEAST_SHOWN: Final = 28 * 28
_LIMITS: Final = DecodeLimits()
_VIDEO_LIMITS: Final = VideoLimits()


class MediaSettings(Settings):
    """Of the pictures of any task."""

    max_pixels: PositiveInt = _LIMITS.pixels
    """Width times height of one picture. Decoding takes 8 bytes a pixel for a moment, then 4 while a sandbox has it."""
    max_bytes: PositiveInt = _LIMITS.data_bytes
    """Of a picture's file."""
    shown_pixels: int = Field(36_000_000, ge=_LEAST_SHOWN)
    """A larger picture is shown to the model scaled down to it, with a line that says so; code has it at full size."""

    @property
    def limits(self) -> DecodeLimits:
        return DecodeLimits(data_bytes=self.max_bytes, pixels=self.max_pixels)


class OwnMediaSettings(MediaSettings):
    """Of pictures and videos that a user brings."""

    max_video_bytes: PositiveInt = _VIDEO_LIMITS.data_bytes
    """Of a video's file; for code to read it, `session.file_bytes` must allow it too."""
    allow_urls: bool = False
    """Whether http:// and https:// addresses are downloaded."""
    url_bytes: PositiveInt = 256 << 20
    """Most bytes of one download."""
    url_seconds: PositiveFloat = 60.0
    """Longest time of one download."""

    @property
    def video_limits(self) -> VideoLimits:
        """For reading videos."""
        return VideoLimits(data_bytes=self.max_video_bytes)
