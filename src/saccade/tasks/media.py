"""Take a user's pictures and videos (path, web address, bytes, Pillow image, numpy array); sample frames of videos.

The bytes of a file decide, not its name, whether it is a still picture or a video (as an animated GIF, WebP or PNG is).
Each page of a PDF or a TIFF is a picture. Errors name files as the user did.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from saccade.core.settings import Settings
from saccade.errors import DecodeError, MediaError, SettingsError, TooLargeError, UnavailableError
from saccade.media.decode import (
    MIME_TYPES,
    OwnMediaSettings,
    broken_link,
    first_bytes,
    header,
    is_url,
    kind,
    named_as,
    refusal,
)
from saccade.media.modes import PixelBudget
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart, VideoSample, clean_text
from saccade.record.task import AnswerType, FrameOf, NamedMedia, Task

if TYPE_CHECKING:
    from saccade.media.video import AtRate, Uniform

# Sample frames of a task's videos before the episode, as pictures or, for dialects that show videos, as videos: the
# same for every model, as with `saccade eval vsi-bench --set frames.fps=1`. A task's id stays, so that runs at several
# rates can be compared. Figure 4 of PyVision-RL has such baselines.

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


class NamedBytes(bytes):
    """The bytes of an encoded file, with the name that it had."""

    name: str

    def __new__(cls, data: bytes, name: str) -> NamedBytes:
        made = super().__new__(cls, data)
        made.name = name
        return made


OwnMedia = str | os.PathLike[str] | bytes | Image.Image | NDArray[Any]
"""A user's picture or video."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
TAKEN = (
    "paths, http(s) addresses (with allow_urls), the bytes of an encoded file, PIL images, and numpy arrays of a "
    "picture (uint8, bool, or floats from 0 to 1; of shape (H, W), (H, W, 3) or (H, W, 4))"
)


@dataclass(frozen=True, slots=True)
class Taken:
    """A picture or video, now in the store."""

    name: str
    """The user's name for it; for a file without the folder."""
    parts: tuple[ImagePart | VideoPart, ...]
    """Several only of a document, a part for each page."""
    note: str = ""
    """A remark for the user."""


def take(media: OwnMedia, store: MediaStore, settings: OwnMediaSettings) -> Taken:
    """Put `media` into `store`.

    Raises:
        SettingsError: it is of another type, or an address and downloads are not allowed.
        MediaError: it cannot be read, or is too large.
        UnavailableError: it may be a video, and what reads videos is not installed.
    """
    if isinstance(media, NamedBytes):
        return _encoded(media, media.name, store, settings)
    if isinstance(media, bytes):
        taken = _encoded(media, "bytes", store, settings)
        return replace(taken, name="video" if isinstance(taken.parts[0], VideoPart) else "picture")
    if isinstance(media, Image.Image):
        return _image(media, store, settings)
    if isinstance(media, np.ndarray):
        return Taken("array", (store.put_image(_checked(_of_array(media), "the array", settings)),))
    if isinstance(media, str) and is_url(media):
        return _downloaded(media, store, settings)
    if isinstance(media, str) and (scheme := _SCHEME.match(media)):
        raise MediaError(
            f"{media} cannot be had: only http:// and https:// are downloaded, not {scheme[0]}. Give a file."
        )
    if isinstance(media, str | os.PathLike):
        path = Path(media)
        if not path.is_file():
            raise MediaError(f"{path} cannot be read: {_why_not(path)}. Check the path.")
        _check_readable(path)
        return _encoded(path, str(path), store, settings)
    raise SettingsError(f"a {type(media).__module__}.{type(media).__qualname__} is no picture here. Taken are {TAKEN}.")


def _why_not(path: Path) -> str:
    if path.is_dir():
        return "it is a folder"
    return broken_link(path).replace("is", "it is", 1) or ("it is no file" if os.path.exists(path) else "No such file")


def _check_readable(path: Path) -> None:
    """Raise now, so that a later `OSError` must concern the media folder."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise MediaError(f"{path} cannot be read: {error.strerror or error}. Check the path.") from error


def _downloaded(url: str, store: MediaStore, settings: OwnMediaSettings) -> Taken:
    if not settings.allow_urls:
        raise SettingsError(
            f"{url} is an address of the web, and nothing is downloaded unless you allow it: "
            "--allow-urls (in Python allow_urls=True, in a file media.allow_urls = true). Or give a file."
        )
    from saccade.media.download import download, name_in

    with tempfile.TemporaryDirectory(prefix="saccade-url-") as folder:
        target = Path(folder) / "download"
        download(url, target, most_bytes=settings.url_bytes, seconds=settings.url_seconds)
        return _encoded(target, url, store, settings, short=name_in(url))


def _encoded(
    source: bytes | Path, name: str, store: MediaStore, settings: OwnMediaSettings, *, short: str = ""
) -> Taken:
    """Take an encoded file; errors call it `name`."""
    short = short or Path(name).name
    with _calling(name):
        head = first_bytes(source)
        about = None if kind(head) == "pdf" or (named_as("video", name) and not kind(head)) else header(source)
        if kind(head) or (about is not None and not about.moving):
            pages = store.put_pages(source)
            return Taken(short, pages.parts, f"{short}: {pages.note}" if pages.note else "")
        if said := refusal(head):
            raise DecodeError(said)
    try:
        return Taken(short, (store.put_video(source, limits=settings.video_limits, name=name),))
    except (DecodeError, UnavailableError) as error:
        if about is not None or named_as("video", name):
            raise
        if isinstance(error, DecodeError) and not named_as("image", name):
            raise DecodeError(
                f"{name} is neither a picture of a known format ({', '.join(MIME_TYPES)}), nor a PDF, nor a video that "
                "FFmpeg can read. Convert it to PNG, JPEG or MP4."
            ) from error
        with _calling(name):
            store.put_bytes(source if isinstance(source, bytes) else source.read_bytes()[:1024])
        raise


@contextmanager
def _calling(name: str) -> Iterator[None]:
    """Prefix errors about a picture with its name."""
    try:
        yield
    except (DecodeError, TooLargeError, UnavailableError) as error:
        said = "is no picture that can be used" if isinstance(error, DecodeError) else "cannot be used"
        raise type(error)(f"{name} {said}: {error}") from error


def _image(image: Image.Image, store: MediaStore, settings: OwnMediaSettings) -> Taken:
    path = getattr(image, "filename", "")
    name = Path(path).name if isinstance(path, str) and path else "picture"
    several = getattr(image, "n_frames", 1) > 1 and image.format != "MPO"
    with _calling(name):
        checked = _checked(image, name, settings)
        try:
            upright = ImageOps.exif_transpose(checked)
        except (OSError, SyntaxError, ValueError) as error:
            raise DecodeError(f"{error}. The file behind it is broken or closed.") from error
        part = store.put_image(upright)
    note = f"{name} has {image.n_frames} frames or pages: the current one is used" if several else ""  # type: ignore[attr-defined]
    return Taken(name, (part,), note)


def _of_array(array: NDArray[Any]) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    shaped = array.size and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4)))
    if shaped and array.dtype == np.bool_:
        return Image.fromarray(array.astype(np.uint8) * np.uint8(255))
    if shaped and array.dtype == np.uint8:
        return Image.fromarray(np.ascontiguousarray(array))
    if shaped and array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1:
        return Image.fromarray((array * 255 + 0.5).astype(np.uint8))
    ends = f", with values from {array.min()} to {array.max()}" if array.size and array.dtype.kind in "iuf" else ""
    raise SettingsError(
        f"an array of shape {array.shape} and type {array.dtype}{ends} is no picture here. Taken are {TAKEN}."
    )


def _checked(image: Image.Image, name: str, settings: OwnMediaSettings) -> Image.Image:
    pixels = image.width * image.height
    if not pixels:
        raise DecodeError(f"{name} has no pixels: it is {image.width}x{image.height}")
    if pixels > settings.max_pixels:
        raise TooLargeError(
            f"{name} has {image.width}x{image.height} pixels, {pixels:,} in all: over the limit of "
            f"{settings.max_pixels:,}. Scale it down first, or raise the limit (media.max_pixels)."
        )
    return image


@dataclass(frozen=True, slots=True)
class Brought:
    """A task from a user's media, and remarks on how these were read."""

    task: Task
    notes: tuple[str, ...] = ()


def task_from_files(question: str, media: Sequence[OwnMedia], store: MediaStore, choices: Sequence[str] = ()) -> Task:
    """Make a task of a question about the user's pictures and videos, copied into `store`. Raises as `brought`."""
    return brought(question, media, store, choices).task


def brought(
    question: str,
    media: Sequence[OwnMedia],
    store: MediaStore,
    choices: Sequence[str] = (),
    settings: OwnMediaSettings | None = None,
) -> Brought:
    """Make a task; its media are copied into `store`. Its id depends only on question, choices and media.

    Raises:
        SettingsError: the question is empty, or something is of a type that is not taken.
        MediaError: a file cannot be read, is neither a picture nor a video, or is too large.
        UnavailableError: a file is a video, and what reads videos is not installed.
    """
    question = clean_text(question)
    if not question.strip():
        raise SettingsError("the question is empty. Say what you want to know.")
    settings = settings or OwnMediaSettings()
    store = store.limited(settings.limits)
    parts = [take(item, store, settings) for item in media]
    pages = [
        (f"{item.name}, page {page}" if len(item.parts) > 1 else item.name, part)
        for item in parts
        for page, part in enumerate(item.parts, 1)
    ]
    named = tuple(NamedMedia(name=f"{at}-{clean_text(name)}", part=part) for at, (name, part) in enumerate(pages))
    choices = tuple(map(clean_text, choices))
    if twice := next((choice for choice in choices if choices.count(choice) > 1), None):
        raise SettingsError(f"the choice {twice!r} is given twice. Give each once.")
    digest = sha256("\0".join([question, *choices, *(item.part.sha256 for item in named)]).encode()).hexdigest()
    task = Task(
        id=f"ask-{digest[:12]}",
        question=question,
        media=named,
        choices=choices,
        answer_type=AnswerType.CHOICE if choices else AnswerType.TEXT,
        source="ask",
    )
    return Brought(task, tuple(item.note for item in parts if item.note))


def own_name(name: str) -> str:
    """Return the user's own name of media whose name in a task is `name`: without the number that makes it unique."""
    return re.sub(r"^\d+-", "", name)
