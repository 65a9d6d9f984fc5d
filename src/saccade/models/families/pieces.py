"""What a message is made of before it is ids: plain texts, tokens of the frame, pictures.

Only a family's frame makes a `SpecialToken`; whatever comes from a record is text, and text never becomes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from saccade.record.content import ImagePart, VideoPart


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """One token of the frame, by its name in the vocabulary."""

    token: str


@dataclass(frozen=True, slots=True)
class PicturePlaceholder:
    """The place of a picture, or of a video."""

    part: ImagePart | VideoPart


Piece = str | SpecialToken | PicturePlaceholder


def joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces with neighbouring texts as one: a chat template's tokens do not stop at the seam either."""
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield text
            text = ""
        yield piece
    if text:
        yield text


def written(pieces: Iterable[Piece]) -> str:
    """The text of `pieces` without pictures, special tokens by their names."""
    return "".join(piece.token if isinstance(piece, SpecialToken) else str(piece) for piece in pieces)
