"""Messages as an observation: their text, and their pictures as arrays.

The text marks roles and places of media for a reader: `[user]` on a line of its own, `<image>`, `<video>`. A program
may print the same marks; who must tell them apart reads the messages, which are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TypedDict

import numpy as np

from saccade.env.spaces import Pictures
from saccade.media.modes import to_rgb
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, Message, Role, TextPart, VideoPart

RolePart = tuple[Role, TextPart | ImagePart | VideoPart]
"""A part and who said it. A conversation only grows when it is written as these."""


class EnvObservation(TypedDict):
    """What is new in the conversation since the last observation; all of it at the start."""

    text: str
    pictures: Pictures
    """Those that `<image>` stands for in `text`, in order; transparency on white."""


def flat(messages: Iterable[Message]) -> tuple[RolePart, ...]:
    """The parts of `messages` in order."""
    return tuple((message.role, part) for message in messages for part in message.parts)


def as_text(parts: Iterable[RolePart]) -> str:
    """`parts` as one text, a mark before each role."""
    groups = groupby(parts, key=lambda part: part[0])
    return "\n\n".join(f"[{role}]\n{''.join(_written(part) for _, part in group)}" for role, group in groups)


def observation(parts: Iterable[RolePart], store: MediaStore) -> EnvObservation:
    """The observation of `parts`; its arrays are nobody else's. Raises `MediaError` for what `store` cannot give."""
    parts = tuple(parts)
    pictures = (to_rgb(store.open(part).decode()) for _, part in parts if isinstance(part, ImagePart))
    return EnvObservation(
        text=as_text(parts), pictures=tuple(np.array(picture, dtype=np.uint8) for picture in pictures)
    )


def _written(part: TextPart | ImagePart | VideoPart) -> str:
    return part.text if isinstance(part, TextPart) else f"<{part.kind}>"
