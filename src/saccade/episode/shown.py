"""Pictures that are shown to a model otherwise than they are: smaller, or with a word about where they come from.

The messages change and nothing else: variables, files and tools have the picture itself. A note stands right behind its
picture, in square brackets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from saccade.dialects.base import Opening
from saccade.dialects.layout import join_texts
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, Message, Part, TextPart
from saccade.record.task import Task
from saccade.tasks.from_files import own_name


@dataclass(frozen=True, slots=True)
class ShownAs:
    """How a picture is shown."""

    part: ImagePart
    note: str


def as_shown(opening: Opening, shown: Mapping[str, ShownAs]) -> Opening:
    """The opening with the pictures of `shown`, by sha256, in its messages."""
    return replace(opening, messages=tuple(_message(item, shown) for item in opening.messages)) if shown else opening


def scaled_down(task: Task, most_pixels: int, store: MediaStore) -> dict[str, ShownAs]:
    """The pictures of the task that have more than `most_pixels`, scaled down to it, by sha256.

    Raises:
        MediaError: one cannot be decoded.
    """
    large = {
        item.part.sha256: item.part
        for item in task.media
        if isinstance(item.part, ImagePart) and item.part.width * item.part.height > most_pixels
    }
    return {name: _scaled(part, store.put_smaller(part, most_pixels)) for name, part in large.items()}


def of_videos(task: Task) -> dict[str, ShownAs]:
    """The frames among the task's pictures, each with its video and its times, by sha256."""
    shown: dict[str, ShownAs] = {}
    for item in task.media:
        if item.frame is None or not isinstance(item.part, ImagePart):
            continue
        before = shown.get(item.part.sha256)  # two moments can look alike
        said = f"{item.frame.second:.2f} s"
        note = f"{before.note}, {said}" if before else f"{own_name(item.frame.video)}, frame at {said}"
        shown[item.part.sha256] = ShownAs(item.part, note)
    return shown


def _scaled(part: ImagePart, small: ImagePart) -> ShownAs:
    full, seen = f"{part.width}x{part.height}", f"{small.width}x{small.height}"
    scale = part.width / small.width
    return ShownAs(small, f"this picture has {full} pixels and is shown scaled down to {seen}, 1 pixel for {scale:.2f}")


def _message(message: Message, shown: Mapping[str, ShownAs]) -> Message:
    parts: list[Part] = []
    for part in message.parts:
        other = shown.get(part.sha256) if isinstance(part, ImagePart) else None
        parts += [part] if other is None else [other.part, TextPart(text=f"[{other.note}]")]
    return message.model_copy(update={"parts": join_texts(parts)})
