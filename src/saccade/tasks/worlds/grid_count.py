"""World `grid-count`: how many rows and columns has a ruled grid, empty or with a word in every cell?

The grid has a line at every border. Row heights and column widths are equal but for the rounding to pixels.
"""

from __future__ import annotations

from typing import Literal

from PIL import ImageFont
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import blank, font, put_text_centred, text_size
from saccade.tasks.worlds.rng import Rng

Kind = Literal["rows", "columns", "both"]
WORDS = [
    "ant",
    "bed",
    "cup",
    "dew",
    "elm",
    "fig",
    "gem",
    "hat",
    "ink",
    "jar",
    "kid",
    "log",
    "map",
    "net",
    "oak",
    "pen",
    "rug",
    "sky",
    "tea",
    "urn",
    "van",
    "wax",
    "yew",
    "zoo",
    "bird",
    "coat",
    "desk",
    "fern",
    "gate",
    "hill",
    "iron",
    "lake",
    "milk",
    "nest",
    "pear",
    "rope",
    "sand",
    "tree",
    "wind",
]
_INKS = ((0, 0, 0), (40, 40, 46), (24, 48, 110), (120, 20, 30))
_QUESTIONS = {
    "rows": ("How many rows does the grid have?", "Count the rows of the table."),
    "columns": ("How many columns does the grid have?", "Count the columns of the table."),
    "both": ("How many rows and how many columns does the grid have? Answer with rows, columns; for example: 5, 6",),
}
PROGRAM = """\
import numpy as np

grey = np.array(image_0.convert("L")).astype(int)
ink = np.abs(grey - np.median(grey)) > 60
ys, xs = np.nonzero(ink)
ink = ink[ys.min():ys.max() + 1, xs.min():xs.max() + 1]


def lines(full):
    # A ruled line is ink nearly all the way; a row of words is not.
    ruled = np.concatenate([[False], full > 0.8, [False]])
    return int((ruled[1:] & ~ruled[:-1]).sum())


rows, columns = lines(ink.mean(axis=1)) - 1, lines(ink.mean(axis=0)) - 1
print("rows", rows, "columns", columns)
"""
_PRINT = {"rows": "print(rows)\n", "columns": "print(columns)\n", "both": 'print(f"{rows}, {columns}")\n'}


class GridCountKnobs(Knobs):
    """Size of the grid, and how often its cells hold words."""

    kinds: tuple[Kind, ...] = Field(("rows", "columns", "both"), min_length=1)
    fewest: int = Field(3, ge=1, le=30)
    """Rows or columns."""
    most: int = Field(10, ge=1, le=30)
    words: int = Field(50, ge=0, le=100)
    """Per cent of the pictures that have words in their cells."""


def draw(rng: Rng, knobs: GridCountKnobs) -> WorldSample:
    """One picture of a grid."""
    most = max(knobs.fewest, knobs.most)
    rows, columns = rng.integer(knobs.fewest, most), rng.integer(knobs.fewest, most)
    width, height = rng.choice((500, 720, 1000, 1400)), rng.choice((500, 720, 1000))
    line = rng.integer(2, max(2, min(width // columns, height // rows) // 14))
    paper = rng.choice(((255, 255, 255), (250, 247, 238), (238, 243, 250)))
    ink = rng.choice(_INKS)
    picture, pen = blank((width, height), paper)
    left, top = rng.integer(0, width // 10), rng.integer(0, height // 10)
    right, bottom = width - 1 - line - rng.integer(0, width // 10), height - 1 - line - rng.integer(0, height // 10)
    xs = [left + (right - left) * step // columns for step in range(columns + 1)]
    ys = [top + (bottom - top) * step // rows for step in range(rows + 1)]
    for x in xs:
        pen.rectangle((x, top, x + line - 1, bottom + line - 1), fill=ink)
    for y in ys:
        pen.rectangle((left, y, right + line - 1, y + line - 1), fill=ink)
    with_words = rng.chance(knobs.words)
    if with_words:
        face = _face((xs[1] - xs[0] - line) * 3 // 4, (ys[1] - ys[0] - line) * 3 // 4)
        for row in range(rows):
            for column in range(columns):
                centre = (xs[column] + xs[column + 1] + line) // 2, (ys[row] + ys[row + 1] + line) // 2
                put_text_centred(pen, centre, rng.choice(WORDS), face, ink)
    kind = rng.choice(knobs.kinds)
    return WorldSample(
        question=rng.choice(_QUESTIONS[kind]),
        media={"image_0": picture},
        answer={"rows": str(rows), "columns": str(columns), "both": f"{rows}, {columns}"}[kind],
        answer_type=AnswerType.LIST if kind == "both" else AnswerType.NUMBER,
        program=PROGRAM + _PRINT[kind],
        evidence=(EvidenceBox(image="image_0", xyxy=(left, top, right + line, bottom + line), label="grid"),),
        difficulty=min(1.0, max(rows, columns) / 20),
        tags=(kind, "words" if with_words else "empty"),
    )


def _face(width: int, height: int) -> ImageFont.FreeTypeFont:
    """The largest face up to 32 pixels per em whose longest word fits."""
    for size in range(32, 8, -2):
        face = font(size)
        if max(text_size(word, face)[0] for word in WORDS) <= width and size <= height:
            return face
    return font(8)


WORLD = World("grid-count@1", "Count the rows and columns of a grid, empty or with words.", GridCountKnobs, draw)
