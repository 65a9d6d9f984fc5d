"""Frames of a video by their number or by time, decoded exactly, from the start.

Frame 0 is the first one shown; second 0 is when it is shown. A time means the frame that is on the screen then: the
last one that starts at or before it. Decoding from the start is exact for every file and slow for late frames of long
ones. A rotation that is only noted in the file's metadata is not applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from PIL import Image
from pydantic import Field

from saccade.errors import DecodeError
from saccade.tools.arguments import ToolModel
from saccade.tools.base import Cost, Needs, Outcome, Tool
from saccade.tools.context import ToolContext
from saccade.tools.problem import wrong_format

FrameNumber = Annotated[int, Field(ge=0, le=10_000_000)]
Second = Annotated[float, Field(ge=0, le=1e6)]


class SelectFramesArguments(ToolModel):
    """Which frames of which video: numbers or times, not both."""

    frames: Annotated[
        tuple[FrameNumber, ...] | None, Field(min_length=1, max_length=16, description="Frame numbers, from 0.")
    ] = None
    seconds: Annotated[
        tuple[Second, ...] | None, Field(min_length=1, max_length=16, description="Times in seconds from the start.")
    ] = None
    video: Annotated[str | None, Field(description="Name of the video. Default: the first one.")] = None


class SelectedFrame(ToolModel):
    """One frame, in the order asked for."""

    frame: int
    """Its number, from 0."""
    second: float
    """When it is first shown."""


class SelectFramesResult(ToolModel):
    """The frames; the new images are in the same order."""

    video: str
    frames: tuple[SelectedFrame, ...]
    size: tuple[int, int]
    """Width and height of each, in pixels."""


@dataclass(frozen=True, slots=True)
class _Frame:
    number: int
    second: float
    picture: Any  # av.VideoFrame: converted to RGB only if it is chosen


class SelectFrames(Tool[SelectFramesArguments, SelectFramesResult]):
    """Select frames of a video."""

    name = "select_frames"
    description = (
        "Take up to 16 frames out of a video as new images, by frame number counted from 0 (frames) or by time in "
        "seconds (seconds). A time gives the frame that is on the screen at that moment."
    )
    arguments = SelectFramesArguments
    result = SelectFramesResult
    needs = Needs(modules=("av",), install='pip install "saccade[video]"')
    cost = Cost.MEDIUM

    def run(self, arguments: SelectFramesArguments, context: ToolContext) -> Outcome[SelectFramesResult]:
        """Decode up to the last frame that is wanted."""
        if (arguments.frames is None) is (arguments.seconds is None):
            raise wrong_format("Give either frames or seconds, and not both.")
        name, path = context.video(arguments.video)
        if arguments.frames is not None:
            chosen = _by_number(path, arguments.frames)
        else:
            chosen = _by_time(path, arguments.seconds or ())
        images = [image for _, image in chosen]
        listed = tuple(SelectedFrame(frame=frame.number, second=round(frame.second, 6)) for frame, _ in chosen)
        value = SelectFramesResult(video=name, frames=listed, size=images[0].size)
        return Outcome(value, tuple(("frame", image) for image in images))


Chosen = list[tuple[_Frame, Image.Image]]


def _by_number(path: Path, wanted: tuple[int, ...]) -> Chosen:
    found: dict[int, tuple[_Frame, Image.Image]] = {}
    last = max(wanted)
    count = 0
    for frame in _decoded(path):
        count += 1
        if frame.number in wanted:
            found[frame.number] = frame, frame.picture.to_image()
        if frame.number == last:
            break
    if last not in found:
        raise wrong_format(f"There is no frame {last}: the video has {count}, from 0 to {count - 1}. Choose one.")
    return [found[number] for number in wanted]


def _by_time(path: Path, wanted: tuple[float, ...]) -> Chosen:
    found: dict[float, tuple[_Frame, Image.Image]] = {}
    waiting = sorted(set(wanted))
    previous: _Frame | None = None
    step = 0.0
    for frame in _decoded(path):
        while waiting and previous is not None and waiting[0] < frame.second:
            found[waiting.pop(0)] = previous, previous.picture.to_image()
        if not waiting:
            break
        step = frame.second - previous.second if previous else 0.0
        previous = frame
    if previous is not None:
        # The last frame stays on the screen as long as the one before it did.
        while waiting and waiting[0] <= previous.second + step:
            found[waiting.pop(0)] = previous, previous.picture.to_image()
        if waiting:
            end = previous.second + step
            raise wrong_format(
                f"There is no second {waiting[0]:g}: the video ends at {end:.3f}. Choose an earlier one."
            )
    return [found[second] for second in wanted]


def _decoded(path: Path) -> Iterator[_Frame]:
    """Frames in the order in which they are shown; at least one.

    Raises:
        DecodeError: the file is missing, broken, or has no video.
    """
    import av

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise DecodeError(f"{path.name} has no video stream; give a file that has one")
            start: float | None = None
            for number, picture in enumerate(container.decode(video=0)):
                shown = picture.time if picture.time is not None else float(number)
                start = shown if start is None else start
                yield _Frame(number, float(shown - start), picture)
            if start is None:
                raise DecodeError(f"{path.name} has no frame that can be decoded; give another file")
    except (av.FFmpegError, OSError) as error:
        raise DecodeError(f"{path.name} cannot be decoded as a video: {error}. Give another file.") from error
