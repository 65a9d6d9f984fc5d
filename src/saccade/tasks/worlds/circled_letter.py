"""World `circled-letter`: which letter of a word is circled?

The oval surrounds its letter without covering it; it may run through the neighbours. All letters are lower case.
"""

from __future__ import annotations

from PIL import ImageDraw
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import COLOURS, Box, Face, blank, font, put_text
from saccade.tasks.worlds.rng import Rng

_FACES: tuple[Face, ...] = ("sans", "sans-bold", "serif", "serif-bold", "mono")
_WORDS = (
    *("acknowledge", "subdermatology", "blacksmith", "question", "jungle", "exotic", "pharmacy", "rhythm", "vivid"),
    *("zebra", "cowboy", "quartz", "kitchen", "mosquito", "wallflower", "typeface", "hexagon", "bookkeeper", "jigsaw"),
)
QUESTIONS = (
    "Which letter is circled in {colour}?",
    "Which letter does the {colour} oval surround?",
    "One letter of the word is marked by a {colour} oval. Which one?",
)
PROGRAM = """\
import cv2
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

pixels = np.array(image_0.convert("RGB")).astype(int)
chroma = pixels.max(axis=2) - pixels.min(axis=2)
ys, xs = np.nonzero(chroma > 80)
middle = (xs.min() + xs.max()) / 2
inside = (slice(ys.min(), ys.max() + 1), slice(xs.min(), xs.max() + 1))
print("oval", xs.min(), ys.min(), xs.max(), ys.max())
ink = (pixels.max(axis=2) < 128) & (chroma < 60)
# Letters stand apart: every stretch of inked columns is one (the oval cuts only the neighbours).
inked = np.concatenate([[False], ink.any(axis=0), [False]])
edges = np.flatnonzero(inked[1:] != inked[:-1]).reshape(-1, 2)
left, right = min(edges, key=lambda edge: abs(edge.mean() - middle))
rows = np.flatnonzero(ink[:, left:right].any(axis=1))
letter = np.pad(ink[rows[0]:rows[-1] + 1, left:right].astype(np.float32), 1)
print("letter", left, rows[0], right, rows[-1] + 1)


def difference(text, name):
    face = ImageFont.truetype(matplotlib.get_data_path() + "/fonts/ttf/" + name, 96)
    page = Image.new("L", (300, 300))
    ImageDraw.Draw(page).text((90, 90), text, font=face, fill=255)
    glyph = np.array(page.crop(page.getbbox()), np.float32) / 255
    h, w = letter.shape[0] - 2, letter.shape[1] - 2
    narrow = abs(np.log((glyph.shape[1] / glyph.shape[0]) / (w / h)))
    glyph = np.pad(cv2.resize(glyph, (w, h), interpolation=cv2.INTER_AREA), 1)
    return float(np.abs(glyph - letter).mean()) + 0.3 * narrow


FACES = ["DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSansMono"]
fits = [(difference(text, face + ".ttf"), text) for text in "abcdefghijklmnopqrstuvwxyz" for face in FACES]
print(min(fits)[1])
"""


class CircledLetterKnobs(Knobs):
    """Size of the letters and the space between them."""

    smallest: int = Field(28, ge=16, le=120)
    """Pixels per em."""
    largest: int = Field(90, ge=16, le=120)
    space_percent: int = Field(12, ge=8, le=80)
    """Blank between two letters in per cent of the em; small ones put more of the oval on the neighbours."""


def draw(rng: Rng, knobs: CircledLetterKnobs) -> WorldSample:
    """One picture of a word with an oval round one letter."""
    size = rng.integer(knobs.smallest, max(knobs.smallest, knobs.largest))
    face = font(size, rng.choice(_FACES))
    word = rng.choice(_WORDS)
    chosen = rng.integer(0, len(word) - 1)
    colour = rng.choice(("red", "green", "blue", "orange", "purple"))
    space = max(3, size * knobs.space_percent // 100)
    left, top = rng.integer(size, 3 * size), rng.integer(size, 3 * size)
    width = left + sum(int(face.getbbox(letter)[2]) + space for letter in word) + rng.integer(size, 2 * size)
    picture, pen = blank((width, top + 3 * size), (255, 255, 255))
    x, boxes = left, []
    for letter in word:
        _, above, _, _ = face.getbbox(letter)
        box = put_text(pen, (x, top + int(above)), letter, face, (0, 0, 0))
        boxes.append(box)
        x = box[2] + space
    _oval(pen, boxes[chosen], colour, max(2, size // 16))
    return WorldSample(
        question=rng.choice(QUESTIONS).format(colour=colour),
        media={"image_0": picture},
        answer=word[chosen],
        answer_type=AnswerType.TEXT,
        program=PROGRAM,
        evidence=(EvidenceBox(image="image_0", xyxy=boxes[chosen], label="circled letter"),),
        difficulty=round(max(0.0, 1 - size / 120), 3),
        tags=("letter",),
        notes={"word": word},
    )


def _oval(pen: ImageDraw.ImageDraw, letter: Box, colour: str, width: int) -> None:
    # An ellipse through the corners of a box is the square root of two times as wide and high.
    more_x = (letter[2] - letter[0]) * 42 // 200 + width + 3
    more_y = (letter[3] - letter[1]) * 42 // 200 + width + 3
    oval = (letter[0] - more_x, letter[1] - more_y, letter[2] + more_x, letter[3] + more_y)
    pen.ellipse(oval, outline=COLOURS[colour], width=width)


WORLD = World("circled-letter@1", "Name the letter of a word that an oval surrounds.", CircledLetterKnobs, draw)
