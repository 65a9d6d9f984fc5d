"""Frames of the first video stream of a file, by PyAV, in one thread.

The packets are read once, and numbered by `video_index`. A frame is found by going to the last key frame shown at or
before it and decoding on; a broken one gives the one shown before it. Where packets carry no usable times, frames are
counted by decoding all of them, and found by decoding from the start.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .video_index import Index, Packet, counted, numbered
from .video_timeline import FrameLimits, FramePixels, Resize, Timeline, VideoError, VideoTooLargeError, mean_rate

if TYPE_CHECKING:
    from av import VideoFrame

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
        width, height = (first.width, first.height) if self._turns % 2 == 0 else (first.height, first.width)
        return Timeline(
            width=width,
            height=height,
            starts=order.starts,
            seconds=order.seconds,
            fps=mean_rate(len(order.starts), order.seconds, rate),
            keys=tuple(key.number for key in order.keys) or (0,),
            container=self._container.format.name,
        )

    def _restart(self) -> None:
        """Open the container anew, ready to decode from its start in this thread alone."""
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
        """The packets of the stream; a file that was cut ends early."""
        try:
            for packet in self._container.demux(self._stream):
                if packet.size:
                    yield packet
        except self._av.error.InvalidDataError:
            return

    def _scan(self) -> list[Packet] | None:
        """What the index needs of every packet that gives a frame, or None if one has no time."""
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
        """Number and frame from here on, in the order of presentation; packets that are broken give none."""
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
        """The packets, then an empty one that makes the decoder give what it holds back."""
        yield from self._packets()
        end = self._av.Packet()
        end.stream = self._stream
        yield end

    def _frame(self, index: int) -> VideoFrame:
        """Frame `index`, or the one shown before it if it is broken."""
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
