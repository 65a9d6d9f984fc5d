"""A task made ready for a dialect: videos as frames where they are wanted, large pictures shown small, room for files.

What is done here is said: in the record's notes, and to the model in a word behind each picture. A video that does not
fit into a session is refused here, before a model is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from saccade.dialects.base import Dialect, Opening, opened
from saccade.dialects.question import VideoNotShownError
from saccade.episode.settings import EpisodeSettings, SessionLimits
from saccade.episode.shown import ShownAs, of_videos, scaled_down
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import Task
from saccade.sandbox.registry import has_own_limits
from saccade.tasks.media import FrameSettings, framed, own_name, sampled

FRAMES_OF_ASK = FrameSettings(fps=1.0, most=16)
"""What `saccade ask` shows of a video whose dialect shows pictures only."""
_ARRAY_PIXELS = 100_000_000
"""Pixels of which a session with the usual memory can make an array as a whole."""
_BYTES_OF_ARRAY = 8
"""Per pixel: numpy reads an RGB picture into 3 bytes, twice at its worst moment."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an episode of the task is played with."""

    task: Task
    dialect: Dialect
    shown: Mapping[str, ShownAs]
    opening: Opening
    """How the dialect begins with it, all pictures as they are."""
    notes: tuple[str, ...] = ()


def prepared(task: Task, dialect: Dialect, settings: EpisodeSettings, store: MediaStore) -> Prepared:
    """Return the task for an evaluation: frames only where the settings ask for them, with no word about them.

    Raises `SettingsError`: the dialect cannot show the task, or a session has no room for its files; `MediaError`: a
    video or a picture cannot be read.
    """
    task = _with_frames(task, dialect, settings, store)
    shown = scaled_down(task, settings.media.shown_pixels, store, dialect)
    opening = opened(dialect, task)
    check_room(task, dialect, opening, store, local=not has_own_limits(settings.sandbox))
    return Prepared(task, dialect, shown, opening)


def prepared_to_ask(task: Task, dialect: Dialect, settings: EpisodeSettings, store: MediaStore) -> Prepared:
    """Return the task for a user: also frames where the dialect shows no video, and memory for large pictures.

    Raises as `prepared` does.
    """
    notes = []
    with_frames = _with_frames(task, dialect, settings, store)
    try:
        opening = opened(dialect, with_frames)
    except VideoNotShownError:
        wanted = FRAMES_OF_ASK.model_copy(update=settings.frames.model_dump(exclude_defaults=True))
        with_frames = framed(task, wanted, store)
        opening = opened(dialect, with_frames)
        why = f", since dialect {dialect.id} shows pictures only"
        notes += _of_frames(with_frames, wanted, why)
    else:
        if with_frames is not task:
            notes += _of_frames(with_frames, settings.frames, "")
        elif settings.frames.given:
            images_only = all(isinstance(item.part, ImagePart) for item in task.media)
            why = "there is no video" if images_only else "neither frames.fps nor frames.count is set"
            notes.append(f"{settings.frames.given} changes nothing: {why}")
    if not with_frames.media:
        return Prepared(with_frames, dialect, {}, opening, tuple(notes))
    shown = scaled_down(with_frames, settings.media.shown_pixels, store, dialect)
    names = {item.part.sha256: own_name(item.name) for item in with_frames.media}
    notes += [f"{names[sha256]}: {item.note}" for sha256, item in shown.items()]
    roomy = dialect
    if not has_own_limits(settings.sandbox) and settings.session.memory_bytes is None:
        roomy = _with_memory(dialect, with_frames)
        if roomy is not dialect:
            memory = roomy.sandbox.memory_bytes / 1e9
            notes.append(f"a call may use {memory:.1f} GB of memory, for the large picture (session.memory_bytes)")
    check_room(with_frames, roomy, opening, store, local=not has_own_limits(settings.sandbox))
    return Prepared(with_frames, roomy, {**of_videos(with_frames), **shown}, opening, tuple(notes))


def _with_frames(task: Task, dialect: Dialect, settings: EpisodeSettings, store: MediaStore) -> Task:
    """Return frames as pictures, or videos of these frames where the dialect shows those.

    Itself if none are asked for.
    """
    if not settings.frames.rate:
        return task
    return (sampled if dialect.shows_videos else framed)(task, settings.frames, store)


def check_room(task: Task, dialect: Dialect, opening: Opening, store: MediaStore, *, local: bool) -> None:
    """Raises `SettingsError` if files of the opening are larger than a session of this machine takes."""
    if not local:
        return
    media = {item.name: item.part for item in task.media}
    names = [*opening.files.values(), *opening.bindings.values()]
    files = {
        name: store.path(media[name].sha256).stat().st_size
        for name in names
        if name in opening.files.values() or not isinstance(media[name], ImagePart)
    }
    limits = dialect.sandbox
    name, size = max(files.items(), key=lambda item: item[1], default=("", 0))
    if size > limits.file_bytes:
        raise SettingsError(
            f"{own_name(name)} has {size:,} bytes, and a file of a session may have {limits.file_bytes:,}. "
            f"Allow more with session.file_bytes={size}, or have frames of a video shown (frames.fps=1)."
        )
    if sum(files.values()) > limits.workspace_bytes:
        raise SettingsError(
            f"the files of task {task.id} have {sum(files.values()):,} bytes, and those of a session may have "
            f"{limits.workspace_bytes:,}. Allow more with session.workspace_bytes={2 * sum(files.values())}."
        )


def _of_frames(task: Task, settings: FrameSettings, why: str) -> list[str]:
    seconds: dict[str, list[float]] = {}
    for item in task.media:
        if item.frame is not None:
            seconds.setdefault(item.frame.video, []).append(item.frame.second)
    rate = f"{settings.rate}, at most {settings.most}" if settings.count is None else "evenly"
    samples = {item.name: item.part.sample for item in task.media if isinstance(item.part, VideoPart)}
    native = [
        f"{own_name(name)} is shown as one video of {len(sample.indices)} frames ({rate}){why}; frames.fps and "
        "frames.most choose others"
        for name, sample in samples.items()
        if sample is not None
    ]
    return native + [
        f"{own_name(video)} is shown as {len(times)} frame{'s' * (len(times) > 1)} ({rate}; {times[0]:.2f} s to "
        f"{times[-1]:.2f} s){why}; frames.fps and frames.most choose others"
        for video, times in seconds.items()
    ]


def _with_memory(dialect: Dialect, task: Task) -> Dialect:
    pixels = max(
        (item.part.width * item.part.height for item in task.media if isinstance(item.part, ImagePart)), default=0
    )
    if pixels <= _ARRAY_PIXELS:
        return dialect
    return SessionLimits(memory_bytes=dialect.sandbox.memory_bytes + _BYTES_OF_ARRAY * pixels).applied(dialect)
