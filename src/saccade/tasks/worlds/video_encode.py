"""Frames to an encoded clip, H.264 in MP4 or VP9 in WebM, by PyAV (extra `video`).

The encoded bytes may differ between versions of the codec libraries; only the frames given in are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from io import BytesIO
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from saccade.errors import UnavailableError
from saccade.tasks.worlds.base import Clip

if TYPE_CHECKING:
    from av import VideoStream
    from av.container import OutputContainer

VideoCodec = Literal["h264", "vp9"]

_CODECS: dict[VideoCodec, tuple[str, str, str, dict[str, str]]] = {
    "h264": ("libx264", "mp4", "video/mp4", {"crf": "20", "preset": "veryfast", "threads": "1"}),
    "vp9": (
        "libvpx-vp9",
        "webm",
        "video/webm",
        {"crf": "30", "b": "0", "deadline": "realtime", "cpu-used": "8", "threads": "1"},
    ),
}


def encode_clip(frames: Iterable[NDArray[np.uint8]], fps: int, codec: VideoCodec) -> Clip:
    """A clip of RGB frames (H×W×3, at least one, all of one size with even sides) at a constant rate.

    Raises:
        UnavailableError: PyAV is not installed.
        ValueError: there is no frame.
    """
    try:
        import av
    except ImportError as error:
        raise UnavailableError(
            "video worlds encode with PyAV, which is not installed. Run: pip install 'saccade[video]'"
        ) from error
    encoder, container, mime, options = _CODECS[codec]
    file, count, stream = BytesIO(), 0, None
    with av.open(file, "w", format=container) as output:
        for pixels in frames:
            if stream is None:
                stream = _add_stream(output, encoder, Fraction(fps), options)
                stream.height, stream.width = pixels.shape[:2]
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = count
            output.mux(stream.encode(frame))
            count += 1
        if stream is None:
            raise ValueError("a clip needs at least one frame")
        output.mux(stream.encode())
        width, height = stream.width, stream.height
    return Clip(file.getvalue(), width, height, count, float(fps), mime)


def _add_stream(output: OutputContainer, encoder: str, rate: Fraction, options: dict[str, str]) -> VideoStream:
    from av import VideoStream

    stream = output.add_stream(encoder, rate=rate, options=options)
    if not isinstance(stream, VideoStream):
        raise TypeError(f"{encoder} encodes no video")
    stream.pix_fmt = "yuv420p"
    return stream
