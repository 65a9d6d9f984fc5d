"""Frames of a video by their number or by time, exactly as the `VideoReader` of the sandbox numbers them.

Frame 0 is the first one shown; second 0 is when it is shown. A time means the frame that is on the screen then: the
last one that starts at or before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from PIL import Image
from pydantic import Field

from saccade.core.plugins import install
from saccade.errors import DecodeError
from saccade.guest.video_stream import Frames, Timeline, VideoError, open_frames
from saccade.tools.base import Cost, Tool, ToolOutcome
from saccade.tools.context import Operation, ToolContext, wrong_format
from saccade.tools.definition import Needs, ToolModel

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


class SelectFrames(Tool[SelectFramesArguments, SelectFramesResult]):
    """Select frames of a video."""

    name = "select_frames"
    suits = (("videos", 0),)
    operation = Operation.FRAME_FETCH
    description = (
        "Take up to 16 frames out of a video as new images, by numbers from 0 or by seconds. A time gives the frame "
        "that is on the screen at that moment."
    )
    arguments = SelectFramesArguments
    result = SelectFramesResult
    needs = Needs(modules=("av",), install=install("video"))
    cost = Cost.MEDIUM

    def run(self, arguments: SelectFramesArguments, context: ToolContext) -> ToolOutcome[SelectFramesResult]:
        """Look the frames up in the timeline, and decode each once."""
        if (arguments.frames is None) is (arguments.seconds is None):
            raise wrong_format("Give either frames or seconds, and not both.")
        name, path = context.video(arguments.video)
        frames = _frames(path)
        numbers = _numbers(arguments, frames.timeline)
        pictures = {number: _image(path, frames, number) for number in sorted(set(numbers))}
        images = [pictures[number] for number in numbers]
        starts = frames.timeline.starts
        listed = tuple(SelectedFrame(frame=number, second=round(starts[number], 6)) for number in numbers)
        value = SelectFramesResult(video=name, frames=listed, size=images[0].size)
        return ToolOutcome(value, tuple(("frame", image) for image in images))


def _numbers(arguments: SelectFramesArguments, timeline: Timeline) -> list[int]:
    """Return the numbers of the frames that are wanted."""
    count = len(timeline.starts)
    for number in arguments.frames or ():
        if number >= count:
            raise wrong_format(f"There is no frame {number}: the video has {count}, from 0 to {count - 1}. Choose one.")
    for second in arguments.seconds or ():
        if second > timeline.seconds:
            raise wrong_format(
                f"There is no second {second:g}: the video ends at {timeline.seconds:.3f}. Choose an earlier one."
            )
    return [*(arguments.frames or ()), *map(timeline.at, arguments.seconds or ())]


def _frames(path: Path) -> Frames:
    try:
        return open_frames(str(path))
    except (VideoError, OSError) as error:
        raise _undecodable(path, error) from error


def _image(path: Path, frames: Frames, number: int) -> Image.Image:
    try:
        return Image.fromarray(frames.picture(number))
    except (VideoError, OSError) as error:
        raise _undecodable(path, error) from error


def _undecodable(path: Path, error: Exception) -> DecodeError:
    return DecodeError(f"{path.name} cannot be decoded as a video: {error}. Give another file.")
