"""Lines of text that OCR took together although they are labels side by side, cut at the wide gaps between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from saccade.tools.look import PixelArray
from saccade.tools.ocr import TextLine

_WIDE: Final = 0.5
"""A gap of so many heights of the line divides labels; between words of one label it is about half of that."""
_INK: Final = 60
"""Least difference from the ground, summed over the channels."""


def split_lines(rgb: PixelArray, lines: Sequence[TextLine]) -> tuple[TextLine, ...]:
    """The lines, each cut where more than half its height of ground stands between two of its words."""
    return tuple(part for line in lines for part in _parts(rgb, line))


def _parts(rgb: PixelArray, line: TextLine) -> list[TextLine]:
    words = line.text.split()
    left, top, right, bottom = line.box
    if len(words) < 2 or bottom - top > right - left:
        return [line]
    gaps = _gaps(rgb[top:bottom, left:right])
    # As many gaps as there are spaces: the widest ones, from left to right.
    spaces = sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[: len(words) - 1])
    if len(spaces) < len(words) - 1:
        return [line]
    parts, start, begun = [], left, 0
    for number, (begin, end) in enumerate(spaces, 1):
        if end - begin > _WIDE * (bottom - top):
            parts.append(_cut(line, words[begun:number], (start, left + begin)))
            start, begun = left + end, number
    return [*parts, _cut(line, words[begun:], (start, right))]


def _gaps(part: PixelArray) -> list[tuple[int, int]]:
    """First and one past the last column of each stretch without ink, but for those at the ends."""
    ground = np.median(part.reshape(-1, 3), axis=0)
    ink = (np.abs(part.astype(int) - ground).sum(axis=2) > _INK).any(axis=0)
    inked = np.flatnonzero(ink)
    return [(int(a) + 1, int(b)) for a, b in pairwise(inked) if b - a > 1]


def _cut(line: TextLine, words: list[str], columns: tuple[int, int]) -> TextLine:
    left, right = columns
    _, top, _, bottom = line.box
    corners = tuple((float(x), float(y)) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom)))
    return line.model_copy(update={"text": " ".join(words), "box": (left, top, right, bottom), "corners": corners})
