"""Videos made on the spot whose every frame carries its number as eight grey blocks, so that lossy codecs keep it."""

from __future__ import annotations

import io
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
