"""Sample frames of a task's videos before the episode, as pictures or, for dialects that show videos, as videos.

    saccade ask clip.mp4 "What falls over?" --set frames.fps=1 ...
    saccade eval vsi-bench --dialect direct --set frames.fps=1 ...

The same frames for every model: uniform in time (`fps`) or in number (`count`), at most `most` of them, each within
`pixels`. A task's id stays, so that runs at several rates can be compared. Figure 4 of PyVision-RL has such baselines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from saccade.core.settings import Settings
from saccade.media.modes import PixelBudget
from saccade.media.store import MediaStore
from saccade.record.content import VideoPart, VideoSample
from saccade.record.task import FrameOf, NamedMedia, Task

if TYPE_CHECKING:
    from saccade.media.video import AtRate, Uniform

_FACTOR = 28


class FrameSettings(Settings):
    """Which frames to sample; with neither `fps` nor `count`, videos stay unchanged."""

    fps: PositiveFloat | None = None
    """Frames of each second."""
    count: PositiveInt | None = None
    """Frames in all."""
    most: PositiveInt = 768
    """Largest number of frames, evenly spaced if `fps` gives more; the default is Qwen2.5-VL's limit."""
    pixels: int = Field(default=768 * _FACTOR**2, ge=_FACTOR**2)
    """Largest number of pixels of a frame; larger ones are scaled down."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.fps is not None and self.count is not None:
            raise ValueError("frames are sampled by fps or by count: give one of the two")
        return self

    @property
    def given(self) -> str:
        """Return the settings that differ from the defaults, as in `frames.fps=1.0`."""
        default = _DEFAULTS
        if self == default:
            return ""
        values = self.model_dump().items()
        return ", ".join(f"frames.{name}={value}" for name, value in values if value != getattr(default, name))

    @property
    def rate(self) -> str:
        """Describe the sampling: `1 fps`, `32 frames`, or nothing."""
        if self.fps is not None:
            return f"{self.fps:g} fps"
        return "" if self.count is None else f"{self.count} frames"


_DEFAULTS = FrameSettings()


def framed(task: Task, settings: FrameSettings, store: MediaStore) -> Task:
    """Replace a task's videos by frames named `video@1.50s#45`; return it unchanged if no frames are requested.

    Raises:
        MediaError: a video cannot be read, or its frames are too many pixels.
        UnavailableError: PyAV is needed and not installed.
    """
    if not settings.rate or not any(isinstance(item.part, VideoPart) for item in task.media):
        return task
    media = [shown for item in task.media for shown in _shown(item, settings, store)]
    return task.model_copy(update={"media": tuple(media)})


def sampled(task: Task, settings: FrameSettings, store: MediaStore) -> Task:
    """Record in a task's videos which frames are shown; unchanged if none are requested. Raises as `framed`."""
    if not settings.rate or not any(isinstance(item.part, VideoPart) for item in task.media):
        return task
    media = [
        item.model_copy(update={"part": _sample(item.part, item.name, settings, store)})
        if isinstance(item.part, VideoPart)
        else item
        for item in task.media
    ]
    return task.model_copy(update={"media": tuple(media)})


def _sample(part: VideoPart, name: str, settings: FrameSettings, store: MediaStore) -> VideoPart:
    from saccade.media.video import frame_numbers

    numbers = frame_numbers(store.path(part.sha256), _choice(settings), name=name)
    return part.model_copy(update={"sample": VideoSample(indices=numbers, pixels=settings.pixels)})


def _choice(settings: FrameSettings) -> Uniform | AtRate:
    from saccade.media.video import AtRate, Uniform

    return Uniform(settings.count) if settings.count is not None else AtRate(settings.fps or 1.0, settings.most)


def _shown(item: NamedMedia, settings: FrameSettings, store: MediaStore) -> list[NamedMedia]:
    if not isinstance(item.part, VideoPart):
        return [item]
    from saccade.media.video import sample_frames

    budget = PixelBudget(_FACTOR, _FACTOR**2, settings.pixels)
    frames = sample_frames(store.path(item.part.sha256), _choice(settings), budget=budget, name=item.name)
    return [
        NamedMedia(
            name=f"{item.name}@{frame.second:.2f}s#{frame.index}",
            part=store.put_image(frame.image),
            frame=FrameOf(video=item.name, sha256=item.part.sha256, index=frame.index, second=frame.second),
        )
        for frame in frames
    ]
