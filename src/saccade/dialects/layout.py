"""How questions, pictures and observations lie in the parts of a message, for dialects without numbered tags."""

from __future__ import annotations

from collections.abc import Sequence

from saccade.dialects.prompt_texts import SYSTEM, Prompts
from saccade.dialects.question import split_at_media
from saccade.record.content import ImagePart, MediaPart, Message, Part, TextPart


def system_message(prompts: Prompts, tools: str = "") -> tuple[Message, ...]:
    """The system message with the list of `tools` in it; none where its text is empty."""
    text = prompts.fill(SYSTEM, {"tools": tools}) if SYSTEM in prompts.templates else ""
    return (Message(role="system", parts=(TextPart(text=text),)),) if text else ()


def question_parts(text: str, media: Sequence[MediaPart], label: str = "") -> tuple[Part, ...]:
    """Media without a placeholder in `text` first, each with a line break after it; the others where theirs stand.

    With a `label` such as `image_` its number and a colon come before each.
    """
    pieces = split_at_media(text, media)
    placed = {piece for piece in pieces if isinstance(piece, int)}
    parts: list[Part] = []
    for index, part in enumerate(media):
        if index not in placed:
            parts += [*_label(label, index), part, TextPart(text="\n")]
    for piece in pieces:
        parts += [TextPart(text=piece)] if isinstance(piece, str) else [*_label(label, piece), media[piece]]
    return join_texts(parts)


def labelled(pictures: Sequence[ImagePart], label: str, first: int) -> tuple[Part, ...]:
    """A line for each picture: its label and number (`image_3: `), counted from `first`, and the picture."""
    parts: list[Part] = []
    for number, picture in enumerate(pictures, first):
        parts += [*_label(label, number), picture, TextPart(text="\n")]
    return tuple(parts)


def join_texts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """`parts` with texts that follow each other joined and empty ones left out."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(text=last.text + part.text)
        elif not isinstance(part, TextPart) or part.text:
            joined.append(part)
    return tuple(joined)


def _label(label: str, number: int) -> tuple[Part, ...]:
    return (TextPart(text=f"{label}{number}: "),) if label else ()
