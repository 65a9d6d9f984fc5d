"""Show pictures to a model otherwise than they are: smaller, or with a word about where they come from.

The messages change and nothing else: variables, files and tools have the picture itself. A note stands right behind
its picture, in square brackets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from saccade.dialects.base import Dialect, Opening, join_texts, opened
from saccade.dialects.boxes import SENTENCES
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, Message, Part, TextPart
from saccade.record.task import Task
from saccade.tasks.media import own_name


@dataclass(frozen=True, slots=True)
class ShownAs:
    """How a picture is shown."""

    part: ImagePart
    note: str


def as_shown(opening: Opening, shown: Mapping[str, ShownAs]) -> Opening:
    """Return the opening with the pictures of `shown`, by sha256, in its messages."""
    return replace(opening, messages=messages_as_shown(opening.messages, shown)) if shown else opening


def messages_as_shown(messages: Sequence[Message], shown: Mapping[str, ShownAs]) -> tuple[Message, ...]:
    """Return messages with the pictures of `shown`, by sha256, each followed by its note."""
    return tuple(_message(item, shown) for item in messages)


def opened_as_shown(task: Task, dialect: Dialect, shown: Mapping[str, ShownAs]) -> Opening:
    """Return how the dialect begins if all that it is told of the pictures is about them as they are shown."""
    media = [
        item.model_copy(update={"part": other.part}) if (other := shown.get(item.part.sha256)) else item
        for item in task.media
    ]
    small = {item.part.sha256: item for item in shown.values()}
    return as_shown(opened(dialect, task.model_copy(update={"media": tuple(media)})), small)


def scaled_down(task: Task, most_pixels: int, store: MediaStore, dialect: Dialect) -> dict[str, ShownAs]:
    """Return the pictures of the task that have more than `most_pixels`, scaled down to it, by sha256, with a word
    about it. Raises `MediaError` if one cannot be decoded.
    """
    large = {
        item.part.sha256: item.part
        for item in task.media
        if isinstance(item.part, ImagePart) and item.part.width * item.part.height > most_pixels
    }
    return {name: scaled(part, store.put_smaller(part, most_pixels), dialect) for name, part in large.items()}


def of_videos(task: Task) -> dict[str, ShownAs]:
    """Return the frames among the task's pictures, each with its video and its times, by sha256."""
    shown: dict[str, ShownAs] = {}
    for item in task.media:
        if item.frame is None or not isinstance(item.part, ImagePart):
            continue
        before = shown.get(item.part.sha256)  # two moments can look alike
        said = f"{item.frame.second:.2f} s"
        note = f"{before.note}, {said}" if before else f"{own_name(item.frame.video)}, frame at {said}"
        shown[item.part.sha256] = ShownAs(item.part, note)
    return shown


def scaled(part: ImagePart, small: ImagePart, dialect: Dialect | None) -> ShownAs:
    """Return the picture as `small`, with a word about it, in terms of the dialect where it is known."""
    full, seen = f"{part.width}x{part.height}", f"{small.width}x{small.height}"
    scale = part.width / small.width
    note = f"this picture has {full} pixels and is shown scaled down to {seen}, 1 pixel for {scale:.2f}"
    if dialect is not None and dialect.code_sees_shown:
        note += "; code has it as shown"
    elif dialect is not None and dialect.offers_tools:
        note += f". {SENTENCES[dialect.boxes]}"
    return ShownAs(small, note)


def _message(message: Message, shown: Mapping[str, ShownAs]) -> Message:
    parts: list[Part] = []
    for part in message.parts:
        other = shown.get(part.sha256) if isinstance(part, ImagePart) else None
        parts += [part] if other is None else [other.part, TextPart(text=f"[{other.note}]")]
    return message.model_copy(update={"parts": join_texts(parts)})
