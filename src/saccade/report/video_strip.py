"""A video of the task as a page shows it: a strip of its frames, and where the file lies for a player.

The frames are evenly spaced and say at which second; those that a call gave back follow with the numbers of their
turns. Which second of the video a call looked at is not recorded, so it is not said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from saccade.errors import MediaError, UnavailableError
from saccade.media.budget import PixelBudget
from saccade.media.store import MediaStore
from saccade.media.video import Uniform, sample_frames
from saccade.record.content import VideoPart
from saccade.record.turn import Turn
from saccade.report.picture_book import PictureBook, ShownMedia

FRAMES: Final = 8
"""Frames of a strip, evenly spaced."""
_FACTOR: Final = 4
_PIXELS: Final = 320 * 240


@dataclass(frozen=True, slots=True)
class StripFrame:
    """A frame of a video."""

    picture: ShownMedia
    caption: str
    turn: int | None
    """From 1, of the call that gave it back; None for one of the evenly spaced."""


@dataclass(frozen=True, slots=True)
class VideoView:
    """A video of the task."""

    facts: str
    """Its size and length in words."""
    frames: tuple[StripFrame, ...]
    """Evenly spaced."""
    looked: tuple[StripFrame, ...]
    """Pictures that calls gave back, in their order."""
    href: str
    """The file from the folder of the page; empty if it is not below it."""
    problem: str = ""
    """Why there are no frames."""


def video_view(part: VideoPart, turns: Sequence[Turn], book: PictureBook) -> VideoView:
    """The video, with the pictures that came back in `turns`."""
    facts = f"{part.width}×{part.height}, {part.seconds:.1f} s, {part.frames:,} frames"
    looked = tuple(
        StripFrame(book.add(picture.image), f"turn {number}", number)
        for number, turn in enumerate(turns, 1)
        if turn.execution is not None
        for picture in turn.execution.pictures
    )
    store = book.store
    if store is None:
        return VideoView(facts, (), looked, "", "there is no media folder beside the record")
    try:
        frames = _sampled(part, store, book)
    except UnavailableError:
        return VideoView(facts, (), looked, _href(part, store, book), "frames need: pip install 'saccade[video]'")
    except (MediaError, OSError) as error:
        why = "missing" if not store.path(part.sha256).is_file() else f"cannot be read: {type(error).__name__}"
        return VideoView(facts, (), looked, "", f"{why} ({part.sha256[:12]}…)")
    return VideoView(facts, frames, looked, _href(part, store, book))


def _sampled(part: VideoPart, store: MediaStore, book: PictureBook) -> tuple[StripFrame, ...]:
    budget = PixelBudget(_FACTOR, _FACTOR**2, _PIXELS)
    frames = sample_frames(store.path(part.sha256), Uniform(min(FRAMES, part.frames)), budget=budget)
    return tuple(
        StripFrame(book.add_image(frame.image, f"{part.sha256[:20]}-{frame.index}"), f"{frame.second:.1f} s", None)
        for frame in frames
    )


def _href(part: VideoPart, store: MediaStore, book: PictureBook) -> str:
    """The file from the folder of the page, if it lies below it; else empty: a page that is sent on has no paths."""
    if book.folder is None:
        return ""
    file, folder = store.path(part.sha256).resolve(), book.folder.resolve()
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else ""
