"""What a video file is, and single frames of it: by number of frames, by rate, or at given times.

    probe("clip.mp4")                                   # -> VideoFacts: size, frames, fps, seconds, type
    for frame in sample_frames("clip.mp4", Uniform(8)):
        frame.index, frame.second, frame.image

Frames are numbered in the order in which they are shown, as the `VideoReader` of the sandbox numbers them: it is the
same code. Sizes and pictures are as displayed: turned as the file asks, and longer on one side where its pixels are not
square. Every error is a `MediaError`, or `UnavailableError` where PyAV (the extra `video`) is needed and absent: GIF
and WebP do without. Sound is ignored. Does not promise that every frame of a file is whole: damage that no decoder
notices is not reported.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from PIL import Image

from saccade.core.registry import install
from saccade.errors import DecodeError, MediaError, TooLargeError, UnavailableError
from saccade.media.decode import VIDEO_LIMITS, VideoLimits
from saccade.media.modes import SizeRule, fit

if TYPE_CHECKING:
    from saccade.guest.video_stream import Frames, Timeline

Source = bytes | str | os.PathLike[str]
"""The encoded video, or the path of its file, which is not read as a whole."""

MIME_TYPES: Final = {
    "apng": "image/apng",
    "asf": "video/x-ms-asf",
    "avi": "video/x-msvideo",
    "flv": "video/x-flv",
    "gif": "image/gif",
    "matroska": "video/x-matroska",
    "mov": "video/mp4",
    "mpeg": "video/mpeg",
    "mpegts": "video/mp2t",
    "ogg": "video/ogg",
    "webp": "image/webp",
}
"""By the first name of the container format; others are `video/x-` and that name."""


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """What a record says of a video, see `VideoPart`."""

    width: int
    """Pixels, as displayed."""
    height: int
    frames: int
    fps: float
    """Mean frames per second."""
    seconds: float
    mime: str


@dataclass(frozen=True, slots=True)
class SampledFrame:
    """A frame of a video."""

    index: int
    """Its number, from 0."""
    second: float
    """When it is first shown; frame 0 is shown at second 0."""
    image: Image.Image
    """RGB."""


class Choice(Protocol):
    """Says which frames are wanted."""

    def indices(self, timeline: Timeline) -> Sequence[int]:
        """Return numbers of the frames, in the order in which they are to come.

        Raises `MediaError` if there are no such.
        """


@dataclass(frozen=True, slots=True)
class Uniform:
    """`count` frames from the first to the last, evenly by number; the middle one for 1; all if there are fewer."""

    count: int

    def indices(self, timeline: Timeline) -> Sequence[int]:
        _require(self.count >= 1, f"cannot sample {self.count} frames: ask for one at least")
        last = len(timeline.starts) - 1
        if self.count > last:
            return range(last + 1)
        if self.count == 1:
            return [last // 2]
        return [round(place * last / (self.count - 1)) for place in range(self.count)]


@dataclass(frozen=True, slots=True)
class AtIndices:
    """The frames of these numbers, in their order."""

    numbers: tuple[int, ...]

    def indices(self, timeline: Timeline) -> Sequence[int]:
        most = len(timeline.starts)
        for number in self.numbers:
            _require(0 <= number < most, f"the video has no frame {number}: there are {most}, from 0 on")
        return self.numbers


@dataclass(frozen=True, slots=True)
class AtRate:
    """The frame on the screen at every 1/`fps` second from 0 on, each once; evenly `most` ones if these are more."""

    fps: float
    most: int | None = None

    def indices(self, timeline: Timeline) -> Sequence[int]:
        _require(0 < self.fps <= 1000, f"cannot sample {self.fps} frames per second: give a rate up to 1000")
        times = (place / self.fps for place in range(int(timeline.seconds * self.fps) + 1))
        frames = list(dict.fromkeys(timeline.at(time) for time in times if time < timeline.seconds))
        return frames if self.most is None or len(frames) <= self.most else Uniform(self.most).indices(timeline)


def probe(source: Source, *, limits: VideoLimits = VIDEO_LIMITS, name: str = "") -> VideoFacts:
    """Read all packets, decode the first frame, and say what the video is; errors call it `name`, or by its path.

    Raises:
        TooLargeError: it is beyond `limits`.
        DecodeError: it is empty, broken, of an unknown format, or has no video stream.
        MediaError: the file cannot be read.
        UnavailableError: PyAV is needed and not installed.
    """
    with _reading(source, limits, name) as (frames, beginning):
        timeline = frames.timeline
        return VideoFacts(
            width=timeline.width,
            height=timeline.height,
            frames=len(timeline.starts),
            fps=timeline.fps,
            seconds=timeline.seconds,
            mime=_mime_type(timeline.container, beginning),
        )


def frame_numbers(
    source: Source, choice: Choice, *, limits: VideoLimits = VIDEO_LIMITS, name: str = ""
) -> tuple[int, ...]:
    """Return the numbers of the frames that `choice` names, in its order. Raises as `probe` does, and as the choice."""
    with _reading(source, limits, name) as (frames, _):
        return tuple(choice.indices(frames.timeline))


def sample_frames(
    source: Source,
    choice: Choice,
    *,
    budget: SizeRule | None = None,
    limits: VideoLimits = VIDEO_LIMITS,
    name: str = "",
) -> tuple[SampledFrame, ...]:
    """Return the frames that `choice` names, in its order, each fitted to `budget` if there is one.

    A frame that is broken gives the one shown before it. Raises as `probe` does, `TooLargeError` also if the frames
    together are beyond `limits.sampled_pixels`, and `MediaError` for a choice that the video cannot meet.
    """
    with _reading(source, limits, name) as (frames, _):
        timeline = frames.timeline
        indices = choice.indices(timeline)
        width, height = (timeline.width, timeline.height)
        if budget is not None:
            width, height = budget.size(width, height)
        if len(indices) * width * height > limits.sampled_pixels:
            raise TooLargeError(
                f"{len(indices)} frames of {width}x{height} are over the limit of {limits.sampled_pixels} pixels. "
                "Ask for fewer frames, or give a smaller budget."
            )
        images: dict[int, Image.Image] = {}
        for index in sorted(set(indices)):
            image = Image.fromarray(frames.picture(index))
            images[index] = image if budget is None else fit(image, budget)
        return tuple(SampledFrame(index, timeline.starts[index], images[index].copy()) for index in indices)


@contextmanager
def _reading(source: Source, limits: VideoLimits, name: str = "") -> Iterator[tuple[Frames, bytes]]:
    """The frames of the source and its first bytes; foreign errors become ours."""
    from saccade.guest.video_stream import FrameLimits, ReopenedFile, VideoError, VideoTooLargeError, read_frames

    name = name or ("the video" if isinstance(source, bytes) else os.fspath(source))
    again = "Get it again from its source, or convert it to MP4 (H.264)."
    try:
        file = io.BytesIO(source) if isinstance(source, bytes) else ReopenedFile(str(Path(source)))
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if size > limits.data_bytes:
            raise TooLargeError(
                f"{name} has {size:,} bytes, over the limit of {limits.data_bytes:,}. "
                "Cut it or compress it, or raise the limit (media.max_video_bytes)."
            )
        beginning = file.read(4096) or b""
        file.seek(0)
        frames = read_frames(file, FrameLimits(pixels=limits.pixels, frames=limits.frames))
        if frames.timeline.seconds > limits.seconds:
            length = f"{frames.timeline.seconds:.0f} s long, over the limit of {limits.seconds:.0f} s"
            raise TooLargeError(f"{name} is {length}. Cut it, or raise the limit.")
        yield frames, beginning
    except MediaError:
        raise
    except VideoTooLargeError as error:
        raise TooLargeError(f"{name}: {error}. Scale it down or cut it, or raise the limit.") from error
    except MemoryError as error:
        raise TooLargeError(f"{name} needs more memory than there is for it: {error}. Scale it down.") from error
    except VideoError as error:
        raise DecodeError(f"{name}: {error}. {again}") from error
    except ImportError as error:
        raise UnavailableError(f"{name} cannot be decoded without PyAV. Install it with {install('video')}") from error
    except OSError as error:
        raise MediaError(f"{name} cannot be read: {error}") from error


def _mime_type(container: str, beginning: bytes) -> str:
    """Return the type by the container's name; its first bytes tell apart those that share one."""
    first = container.partition(",")[0]
    if first == "mov" and beginning[4:8] == b"ftyp":
        brand = beginning[8:12]
        return "video/quicktime" if brand == b"qt  " else "video/3gpp" if brand.startswith(b"3gp") else "video/mp4"
    if first == "mov":
        return "video/quicktime"  # only files older than MP4 have no brand
    if first == "matroska" and b"\x42\x82\x84webm" in beginning:
        return "video/webm"
    return MIME_TYPES.get(first) or "video/x-" + "".join(letter for letter in first if letter.isalnum())


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise MediaError(message)
