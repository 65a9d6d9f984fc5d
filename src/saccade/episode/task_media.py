"""Whether tasks can be played, before the first of them is: a dialect shows their media, and their graders are there.

Asked is the dialect itself, with a task of as many pictures and videos as a row has. Of a world, which knows no more of
its tasks before they are drawn, the first ones stand for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from saccade.dialects.base import Dialect, opened
from saccade.errors import SettingsError
from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import NamedMedia, Task
from saccade.tasks.media import FrameSettings

if TYPE_CHECKING:
    from saccade.tasks.sources.task_set import OpenSource

if TYPE_CHECKING:
    from saccade.tasks.sources.task_set import OpenSource

_NAMED = 3
"""Ids that a message names."""
_DRAWN = 2
"""Tasks of a world that must all be of no use before it is refused."""
_ANYTHING = "0" * 64


@dataclass(frozen=True, slots=True)
class Unshown:
    """Tasks of a source that a dialect cannot show."""

    source: str
    ids: tuple[str, ...]
    of: int
    """Tasks of the source that were looked at."""
    what: str
    why: str

    @property
    def all(self) -> bool:
        """Whether no task of the source can be played."""
        return len(self.ids) == self.of

    def __str__(self) -> str:
        several = len(self.ids) > 1
        tasks = f"{len(self.ids)} of {self.of} tasks {_plural(self.what) if several else self.what}"
        return (
            f"{self.source}: {tasks} ({', '.join(self.ids[:_NAMED])}{', ...' * (len(self.ids) > _NAMED)}), {self.why}"
        )


def unshown(part: OpenSource, dialect: Dialect, frames: FrameSettings | None = None) -> Iterator[Unshown]:
    """Yield the tasks of a source that cannot be shown, by reason.

    `frames` are those that replace videos; None where a command has no such setting, so that none is advised.
    """
    found, looked_at = _refused(_shapes(part), dialect, frames)
    if part.endless and sum(map(len, found.values())) < looked_at:
        return
    for (what, why), names in found.items():
        yield Unshown(str(part.settings), tuple(names), looked_at, what, why)


def takes_pictures(dialect: Dialect) -> bool:
    """Return whether a task with one picture can be shown."""
    return not _refusal(dialect, "task", (1, 0))


def check_media(parts: Iterable[OpenSource], dialect: Dialect, frames: FrameSettings | None = None) -> None:
    """Refuse sources with a task that cannot be shown, for commands that such a task would end.

    Raises `SettingsError`: says how many they are, which come first, and what to choose.
    """
    for part in parts:
        for problem in unshown(part, dialect, frames):
            raise SettingsError(str(problem))


def check_listed(tasks: Iterable[Task], dialect: Dialect) -> None:
    """Check like `check_media`, for tasks that are there already."""
    shapes = ((task.id, _shape(task.media)) for task in tasks)
    found, looked_at = _refused(shapes, dialect, None)
    for (what, why), names in found.items():
        raise SettingsError(str(Unshown("the list", tuple(names), looked_at, what, why)))


def _shape(media: Sequence[NamedMedia]) -> tuple[int, int]:
    videos = sum(isinstance(item.part, VideoPart) for item in media)
    return len(media) - videos, videos


def _refused(
    shapes: Iterable[tuple[str, tuple[int, int]]], dialect: Dialect, frames: FrameSettings | None
) -> tuple[dict[tuple[str, str], list[str]], int]:
    """Return what such tasks are and why they cannot be shown -> their ids; and how many tasks were looked at."""
    ids: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name, shape in shapes:
        ids[shape].append(name)
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for shape, names in ids.items():
        if problem := _problem(names[0], shape, dialect, frames):
            found[problem] += names
    return found, sum(map(len, ids.values()))


def _shapes(part: OpenSource) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields the ids of tasks with their numbers of pictures and videos, where these are known."""
    from saccade.tasks.sources.folder import WorldReader
    from saccade.tasks.worlds import Clip, draw_sample

    reader = part.reader
    if isinstance(reader, WorldReader) and not reader.drawn:
        for light, spot in zip(part.lights[:_DRAWN], part.spots, strict=False):
            media = draw_sample(reader.world, reader.split, spot, reader.knobs).media.values()
            videos = sum(isinstance(item, Clip) for item in media)
            yield light.id, (len(media) - videos, videos)
        return
    for light in part.lights:
        if light.videos is not None:
            yield light.id, (light.media - light.videos, light.videos)


def _problem(
    name: str, shape: tuple[int, int], dialect: Dialect, frames: FrameSettings | None
) -> tuple[str, str] | None:
    """Return what a task of that shape is and why it cannot be shown; None if it can."""
    pictures, videos = shape
    as_frames = videos > 0 and frames is not None and bool(frames.rate) and not dialect.shows_videos
    said = _refusal(dialect, name, (pictures + 1, 0) if as_frames else shape)
    if not said:
        return None
    if as_frames and not _refusal(dialect, name, shape):
        return "holds a video", f"of which frames are shown ({frames and frames.given}), and {said}"
    if videos and not as_frames and not _refusal(dialect, name, (pictures + 1, 0)):
        ways = ["choose a dialect that takes videos (direct:video, native, pyvision-rl-video)"]
        if frames is not None:
            ways.append("have frames of them shown (--set frames.fps=1)")
        return "holds a video", f"and dialect {dialect.id} shows pictures only. {_advice(ways)}"
    if not videos and not _refusal(dialect, name, (pictures, 1)):
        ways = ["choose a dialect for pictures, such as pyvision-rl-image"]
        return "holds no video", f"and dialect {dialect.id} is for videos. {_advice(ways)}"
    return "cannot be shown", f"for {said}"


def _advice(ways: list[str]) -> str:
    text = ", ".join([*ways, "or leave these tasks out"])
    return f"{text[0].upper()}{text[1:]}."


def _plural(what: str) -> str:
    return {"holds a video": "hold videos", "holds no video": "hold no video"}.get(what, what)


def _refusal(dialect: Dialect, name: str, shape: tuple[int, int]) -> str:
    """Return what the dialect says against a task of that shape; empty if it takes it."""
    try:
        opened(dialect, _task(name, shape))
    except SettingsError as error:
        return str(error)
    return ""


def _task(name: str, shape: tuple[int, int]) -> Task:
    pictures, videos = shape
    picture = ImagePart(sha256=_ANYTHING, width=64, height=64)
    video = VideoPart(sha256=_ANYTHING, width=64, height=64, frames=8, fps=1, seconds=8)
    media = [NamedMedia(name=f"image_{number}", part=picture) for number in range(pictures)]
    media += [NamedMedia(name=f"video_{number}", part=video) for number in range(videos)]
    return Task(id=name, question="?", media=tuple(media))


def grader_problems(parts: Iterable[OpenSource]) -> Iterator[str]:
    """Yields a sentence for each grader that tasks name and that cannot be had: how many tasks, the first, and why."""
    from saccade.grading.registry import missing_graders

    for part in parts:
        for spec, reason in missing_graders(light.grader for light in part.lights).items():
            names = [light.id for light in part.lights if light.grader == spec]
            several = "tasks name" if len(names) > 1 else "task names"
            yield f"{part.settings}: {len(names)} {several} the grader {spec!r} (the first: {names[0]}): {reason}"


def check_graders(parts: Iterable[OpenSource]) -> None:
    """Raises `SettingsError` for the first of `grader_problems`."""
    for problem in grader_problems(parts):
        raise SettingsError(problem)
