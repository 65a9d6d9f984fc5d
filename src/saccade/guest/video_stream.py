"""Frames of a video by their number, exactly, in one thread: by PyAV, or by Pillow for GIF and WebP.

Of a stream the packets are read once. A frame is found by seeking to the last key frame shown at or before it and
decoding on; a broken one gives the one shown before it. Where packets carry no usable times, frames are counted by
decoding all of them, and found by decoding from the start.
"""

from __future__ import annotations

import contextlib
import io
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.GifImagePlugin import GifImageFile
from PIL.WebPImagePlugin import WebPImageFile

if TYPE_CHECKING:
    from av import VideoFrame

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
    """What is known of a video; its size as displayed: with square pixels, and turned as the file asks."""

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
        """Return RGB pixels (height, width, 3), scaled to `size` (width, height) if given. Raises `VideoError`."""


def mean_rate(frames: int, seconds: float, declared: float | None = None) -> float:
    """Return frames per second as counted, or as declared if that is the same but for rounded times."""
    counted = frames / seconds
    if declared is not None and abs(declared / counted - 1) < 0.02:
        return declared
    return counted


_UNSAID_SECONDS = 0.04
"""How long a single frame is shown when nothing says it."""


class Packet(NamedTuple):
    """What the index needs of a packet; times in units of the stream."""

    pts: int
    """When its frame is shown."""
    time: int
    """When it is decoded: what containers seek by."""
    key: bool
    duration: int


class KeyFrame(NamedTuple):
    """A frame that is decoded without others."""

    number: int
    time: int


@dataclass(frozen=True, slots=True)
class Index:
    """Numbers of the frames of a stream, from the times in its packets: frame 0 is the first one shown.

    Right for B-frames (stored in another order than shown), for variable frame rates, and where the header states no
    count. Frames that cannot be decoded because the stream was cut at its beginning do not count.
    """

    numbers: dict[int, int] | None
    """Time of presentation -> number of the frame; None if frames can only be counted."""
    keys: tuple[KeyFrame, ...]
    """In order; empty if frames can only be counted."""
    starts: tuple[float, ...]
    seconds: float

    def key_before(self, index: int) -> KeyFrame | None:
        """Return the last key frame shown at or before frame `index`, or the earlier one that the frame needs."""
        place = bisect_right(self.keys, index, key=lambda key: key.number)
        return self.keys[place - 1] if place else None


def numbered(packets: Sequence[Packet] | None, first: int | None, unit: float, rate: float | None) -> Index | None:
    """Return the index by times; None if times are missing, doubled, or not those of the frames.

    `first` is the time of the first frame that can be decoded, `unit` the seconds of a unit of time, `rate` the frames
    per second that the header declares.
    """
    if packets is None or first is None:
        return None
    shown = sorted(packet for packet in packets if packet.pts >= first)
    numbers = {packet.pts: number for number, packet in enumerate(shown)}
    if not shown or shown[0].pts != first or len(numbers) < len(shown):
        return None
    starts = tuple((packet.pts - first) * unit for packet in shown)
    return Index(
        numbers=numbers,
        keys=tuple(KeyFrame(number, packet.time) for number, packet in enumerate(shown) if packet.key),
        starts=starts,
        seconds=starts[-1] + (shown[-1].duration * unit or _step(starts, rate)),
    )


def counted(times: Iterable[float | None], rate: float | None, most: int) -> Index:
    """Return the index of frames that can only be counted; where their `times` are no use, they are `rate` a second."""
    given: list[float | None] = []
    for time in times:
        if len(given) == most:
            raise VideoTooLargeError(f"the video has more than {most} frames")
        given.append(time)
    known = [time for time in given if time is not None]
    if len(known) == len(given) and all(a < b for a, b in pairwise(known)):
        starts = tuple(time - known[0] for time in known)
    else:
        starts = tuple(number / rate if rate else number * _UNSAID_SECONDS for number in range(len(given)))
    return Index(numbers=None, keys=(), starts=starts, seconds=starts[-1] + _step(starts, rate))


def _step(starts: Sequence[float], rate: float | None) -> float:
    """Return how long the last frame is shown: as long as the mean one."""
    if len(starts) > 1 and starts[-1] > 0:
        return starts[-1] / (len(starts) - 1)
    return 1 / rate if rate else _UNSAID_SECONDS


_FORMATS = "mov,mp4,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,ogg,asf,h264,hevc,ivf,obu,apng,yuv4mpegpipe,nut,mxf"
"""Containers that are read. Left out on purpose: playlists and whatever else opens further files or addresses."""


class StreamFrames:
    """`Frames` of a file that PyAV reads."""

    def __init__(self, file: io.RawIOBase | io.BytesIO, limits: FrameLimits) -> None:
        try:
            import av
        except ImportError as error:
            raise ImportError(
                "PyAV is not installed here, so frames of this video cannot be read; try cv2.VideoCapture(path)"
            ) from error
        self._av = av
        self._file = file
        self._limits = limits
        self._container: Any = None
        self._order: Index | None = None
        with self._translated("the file cannot be read as a video"):
            self.timeline = self._read()

    def picture(self, index: int, size: Resize = None) -> FramePixels:
        with self._translated(f"frame {index} cannot be decoded"):
            frame = self._frame(index)
            width, height = size or (self.timeline.width, self.timeline.height)
            if self._turns % 2:
                width, height = height, width
            plain = frame.reformat(width=width, height=height, format="rgb24", threads=1)
            pixels: Any = plain.to_ndarray()
            return np.ascontiguousarray(np.rot90(pixels, self._turns))

    def _read(self) -> Timeline:
        """Read the packets and decode the first frame."""
        self._restart()
        packets = self._scan()
        self._restart()
        first = next((frame for _, frame in self._running), None)
        if first is None:
            raise VideoError("no frame of the video can be decoded")
        self._turns = round((first.rotation or 0) / 90) % 4
        unit = float(self._stream.time_base or 1)
        rate = float(self._stream.average_rate or 0) or None
        order = numbered(packets, first.pts, unit, rate)
        if order is None:
            self._restart()
            order = counted((frame.time for _, frame in self._running), rate, self._limits.frames)
        self._order = order
        self._restart()
        width, height = self._displayed(first)
        if self._turns % 2:
            width, height = height, width
        return Timeline(
            width=width,
            height=height,
            starts=order.starts,
            seconds=order.seconds,
            fps=mean_rate(len(order.starts), order.seconds, rate),
            keys=tuple(key.number for key in order.keys) or (0,),
            container=self._container.format.name,
        )

    def _displayed(self, frame: Any) -> tuple[int, int]:
        """Return the size at which pixels are square, as players show it: the side that is too short is made longer."""
        shape = self._stream.sample_aspect_ratio or 1
        width, height = round(frame.width * max(1, shape)), round(frame.height * max(1, 1 / shape))
        if width * height > self._limits.pixels:
            raise VideoTooLargeError(
                f"a frame of {width}x{height} pixels (its pixels are {shape} times as wide as high) is over the limit "
                f"of {self._limits.pixels}"
            )
        return width, height

    def _restart(self) -> None:
        """Open the container anew, ready to decode from its start in this thread only."""
        if self._container is not None:
            self._container.close()
        self._file.seek(0)
        self._container = self._av.open(
            self._file,
            container_options={"format_whitelist": _FORMATS, "protocol_whitelist": ""},
            metadata_errors="replace",
            buffer_size=1 << 17,
        )
        if not self._container.streams.video:
            raise VideoError("the file has no video stream")
        self._stream = self._container.streams.video[0]
        coder = self._stream.codec_context
        if coder is None:
            raise VideoError("there is no decoder for this kind of video")
        if coder.width * coder.height > self._limits.pixels:
            raise VideoTooLargeError(
                f"a frame of {coder.width}x{coder.height} pixels is over the limit of {self._limits.pixels}"
            )
        coder.thread_type, coder.thread_count = "NONE", 1
        coder.options = {"max_pixels": str(self._limits.pixels)}
        self._running = self._decoded()
        self._next = 0

    def _packets(self) -> Iterator[Any]:
        """Yield the packets of the stream; a file that was cut ends early."""
        try:
            for packet in self._container.demux(self._stream):
                if packet.size:
                    yield packet
        except self._av.error.InvalidDataError:
            return

    def _scan(self) -> list[Packet] | None:
        """Return what the index needs of every packet that gives a frame, or None if one has no time."""
        packets: list[Packet] = []
        for packet in self._packets():
            if packet.is_discard:
                continue
            if packet.pts is None:
                return None
            if len(packets) == self._limits.frames:
                raise VideoTooLargeError(f"the video has more than {self._limits.frames} frames")
            time = packet.pts if packet.dts is None else packet.dts
            packets.append(Packet(packet.pts, time, packet.is_keyframe, packet.duration or 0))
        return packets

    def _decoded(self) -> Iterator[tuple[int, VideoFrame]]:
        """Yield number and frame from here on, in the order of presentation; packets that are broken give none."""
        numbers = self._order.numbers if self._order is not None else None
        count = 0
        for packet in self._packets_and_end():
            try:
                frames = packet.decode()
            except self._av.error.InvalidDataError:
                continue
            for frame in frames:
                number = count if numbers is None else numbers.get(frame.pts)
                count += 1
                if number is not None:
                    yield number, frame

    def _packets_and_end(self) -> Iterator[Any]:
        """Yield the packets, then an empty one that makes the decoder give what it holds back."""
        yield from self._packets()
        end = self._av.Packet()
        end.stream = self._stream
        yield end

    def _frame(self, index: int) -> VideoFrame:
        """Return the frame `index`, or the one shown before it if it is broken."""
        assert self._order is not None
        key = self._order.key_before(index)
        if index < self._next or (key is not None and key.number > self._next):
            self._go(None if key is None else key.time)
        shown = self._forward(index)
        if shown is None:
            # The container has put us too late.
            self._restart()
            shown = self._forward(index)
        if shown is None:
            raise VideoError(f"frame {index} cannot be decoded, nor any before it")
        return shown

    def _forward(self, index: int) -> VideoFrame | None:
        """Decode up to frame `index`: the last one that is not after it."""
        shown = None
        for number, frame in self._running:
            self._next = number + 1
            if number <= index:
                shown = frame
            if number >= index:
                return shown
        self._next = len(self.timeline.starts)
        return shown

    def _go(self, time: int | None) -> None:
        """Go on from the key frame at `time` (of decoding, in units of the stream), or from the start."""
        if time is not None:
            with contextlib.suppress(self._av.error.FFmpegError):
                self._container.seek(time, stream=self._stream, backward=True)
                self._running = self._decoded()
                return
        self._restart()

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Errors of PyAV as `VideoError`, or MemoryError; those of reading the file stay as they are."""
        try:
            yield
        except self._av.error.FFmpegError as error:
            if isinstance(error, MemoryError):
                raise MemoryError(f"{what}: there is not enough memory for it") from None
            raise VideoError(f"{what}: {error.strerror or type(error).__name__}") from None


_UNSAID_MS = 100
"""How long a frame is shown whose file says 0: what viewers do."""


class PictureFrames:
    """`Frames` of an animated GIF or WebP, by Pillow, on white. A seek backwards decodes again from the first frame."""

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
    """Return the file with its header read. Not by `Image.open`, which warns of sizes that have limits here."""
    # Pillow expects a buffer's `read`, which gives all that is asked for.
    buffered = io.BufferedReader(file) if isinstance(file, io.RawIOBase) else file
    beginning = buffered.read(4)
    buffered.seek(0)
    reader = GifImageFile if beginning == b"GIF8" else WebPImageFile
    return reader(buffered)


_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Does not wait for a writer where the path is a FIFO."""


class ReopenedFile(io.RawIOBase):
    """A file by its path, opened anew for every read: no position that forks share. Raises OSError as `open` does."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = os.path.abspath(path)
        self._position = 0
        fd = os.open(self.path, _READ)
        try:
            self._seal = _seal(fd)
        finally:
            os.close(fd)

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return self._seal[0]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position of the next read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.bytes}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer` from the position on. Raises OSError if the file is another one than at first."""
        fd = os.open(self.path, _READ)
        try:
            if _seal(fd) != self._seal:
                raise OSError(f"{self.path} was changed while it was being read as a video; open it again")
            count = os.preadv(fd, [buffer], self._position)
        finally:
            os.close(fd)
        self._position += count
        return count


def _seal(fd: int) -> tuple[int, int]:
    """Return a file's size and time of change, which a branch's copy shares."""
    state = os.fstat(fd)
    return state.st_size, state.st_mtime_ns


def open_frames(path: str, limits: FrameLimits | None = None) -> Frames:
    """Open a video. Raises OSError as `open` does, `VideoError`, and ImportError where PyAV is needed and missing."""
    return read_frames(ReopenedFile(path), limits)


def read_frames(file: io.RawIOBase | io.BytesIO, limits: FrameLimits | None = None) -> Frames:
    """Open a video like `open_frames`, from a seekable binary file object, which must stay usable."""
    beginning = file.read(16) or b""
    if not beginning:
        raise VideoError("the file is empty: it holds no video")
    file.seek(0)
    still = beginning.startswith(b"GIF8") or (beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP")
    limits = limits or FrameLimits()
    return PictureFrames(file, limits) if still else StreamFrames(file, limits)
