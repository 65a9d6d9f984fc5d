"""Videos made on the spot whose every frame carries its number as eight grey blocks, so that lossy codecs keep it."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 128, 64
_BITS = 8
_SIDE = 16


def coded(number: int, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """RGB picture whose upper half says `number` in binary, most significant bit first, and whose lower half is red."""
    picture = np.zeros((height, width, 3), np.uint8)
    picture[_SIDE * 2 :] = (200, 30, 30)
    for bit in range(_BITS):
        if number >> (_BITS - 1 - bit) & 1:
            picture[: _SIDE * 2, bit * _SIDE : (bit + 1) * _SIDE] = 255
    return picture


def number_of(picture: Any) -> int:
    """The number that a decoded frame (array or Pillow image) of unchanged size carries."""
    grey = np.asarray(picture)[..., :3].astype(int).mean(axis=-1)
    bits = [grey[4:28, bit * _SIDE + 4 : (bit + 1) * _SIDE - 4].mean() > 127 for bit in range(_BITS)]
    return sum(int(on) << (_BITS - 1 - bit) for bit, on in enumerate(bits))


READ = f"""
def number_of(picture):
    import numpy as np
    grey = np.asarray(picture)[..., :3].astype(int).mean(axis=-1)
    side = {_SIDE}
    bits = [grey[4:28, b * side + 4 : (b + 1) * side - 4].mean() > 127 for b in range({_BITS})]
    return sum(int(on) << ({_BITS} - 1 - b) for b, on in enumerate(bits))
"""
"""`number_of` as code for a guest."""


def clip(
    codec: str,
    container: str,
    times: Sequence[int] | int,
    *,
    rate: int = 25,
    time_base: Fraction | None = None,
    options: dict[str, str] | None = None,
    **stream_options: Any,
) -> bytes:
    """An encoded video: `times` are the presentation times of its frames in `time_base`, or their number."""
    import av

    target = io.BytesIO()
    base = time_base or Fraction(1, rate)
    with av.open(target, "w", format=container) as output:
        stream: Any = output.add_stream(codec, rate=rate, options=options or {})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = base
        for name, value in stream_options.items():
            setattr(stream.codec_context, name, value)
        for number, time in enumerate(range(times) if isinstance(times, int) else times):
            frame: Any = av.VideoFrame.from_ndarray(coded(number), format="rgb24")
            frame.pts, frame.time_base = time, base
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return target.getvalue()


def h264(frames: int = 60, **options: Any) -> bytes:
    """MP4 with B-frames and a key frame every 12 frames."""
    return clip("libx264", "mp4", frames, options={"bf": "3", "g": "12", "b_strategy": "0"}, **options)


def vp9(frames: int = 40) -> bytes:
    """WebM with hidden reference frames."""
    options = {"g": "15", "auto-alt-ref": "1", "lag-in-frames": "10", "deadline": "good", "cpu-used": "8"}
    return clip("libvpx-vp9", "webm", frames, options=options)


def variable_rate(times: Iterable[int]) -> bytes:
    """Matroska whose frames are shown at `times` in milliseconds."""
    return clip("libx264", "matroska", list(times), time_base=Fraction(1, 1000), options={"bf": "2", "g": "10"})


def gif(frames: int = 12, duration: int = 80, kind: str = "GIF") -> bytes:
    """An animated GIF (or WebP); each frame is shown for `duration` milliseconds."""
    target = io.BytesIO()
    first, *rest = (Image.fromarray(coded(number)) for number in range(frames))
    first.save(target, kind, save_all=True, append_images=rest, duration=duration, loop=0, lossless=True)
    return target.getvalue()


def without_start(video: bytes, packets: int) -> bytes:
    """The same stream in Matroska without its first packets: it begins in the middle of a group of pictures."""
    import av

    target = io.BytesIO()
    with av.open(io.BytesIO(video)) as source, av.open(target, "w", format="matroska") as output:
        stream = source.streams.video[0]
        copy = output.add_stream_from_template(stream)
        for number, packet in enumerate(source.demux(stream)):
            if packet.size and number >= packets:
                packet.stream = copy
                output.mux(packet)
    return target.getvalue()


def turned(video: bytes, matrix: tuple[int, ...]) -> bytes:
    """An MP4 whose header asks for a transformation: the first six numbers of a display matrix, in 1/65536."""
    at = video.index(b"tkhd") + 4 + 40
    numbers = struct.pack(">9i", *matrix[:2], 0, *matrix[2:4], 0, *matrix[4:6], 1 << 30)
    return video[:at] + numbers + video[at + 36 :]


CLOCKWISE = (0, 1 << 16, -(1 << 16), 0, HEIGHT << 16, 0)
"""The matrix of a telephone that was held upright."""


def huge(width: int = 16_000, height: int = 16_000) -> bytes:
    """A small VP8 file that announces a frame of that size and holds none."""
    body = bytes(4000)
    tag = (1 << 4) | (len(body) // 2 << 5)  # a key frame, to be shown, and the size of its first part
    frame = struct.pack("<I", tag)[:3] + b"\x9d\x01\x2a" + struct.pack("<HH", width, height) + body
    header = struct.pack("<4sHH4sHHIIII", b"DKIF", 0, 32, b"VP80", width, height, 25, 1, 1, 0)
    return header + struct.pack("<IQ", len(frame), 0) + frame
