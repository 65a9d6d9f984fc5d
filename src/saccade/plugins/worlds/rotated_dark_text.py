"""World `rotated-dark-text`: read a word that is turned, mirrored, or nearly lost in the dark.

Words are capitals of one bold face on plain paper with grain. Letters that read as others when they are turned or
mirrored (as N and Z, or M and W) do occur; the word as a whole has one reading that way up.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds.canvas import Box, Colour, blank, font, sixteen_bits, turned
from saccade.plugins.worlds.signs import grain
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

Kind = Literal["rotated", "dark", "mirrored"]
WORDS = (
    *("ANCHOR", "BASKET", "CANDLE", "DRAGON", "ENGINE", "FALCON", "GARDEN", "HARBOR", "JACKET", "KETTLE"),
    *("LADDER", "MARKET", "NAPKIN", "ORANGE", "PARROT", "RABBIT", "SADDLE", "TEMPLE", "VELVET", "WALNUT"),
    *("BRIDGE", "CASTLE", "FOREST", "GUITAR", "HAMMER", "PENCIL", "ROCKET", "SILVER", "TURTLE", "YELLOW"),
)
_QUESTIONS: dict[Kind, tuple[str, ...]] = {
    "rotated": ("What word is written in the picture?", "The picture holds one word, turned. What does it say?"),
    "dark": ("What word is hidden in this dark picture?", "There is a word in the dark. Which one?"),
    "mirrored": ("The word is mirrored left to right. What does it say?", "Read the mirrored word."),
}
_FINE = 3
"""Pixels of the finer drawing for one pixel of the picture."""

_PROGRAM = """\
import cv2
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

pixels = np.array(image_0.convert("RGB")).astype(np.float32)
soft = cv2.GaussianBlur(pixels, (0, 0), SOFT)
far = np.abs(soft - np.median(soft.reshape(-1, 3), axis=0)).sum(axis=2)
stretched = np.clip(far / np.percentile(far, 99.5), 0, 1)
points = cv2.findNonZero((stretched > 0.5).astype(np.uint8))
(x, y), size, angle = cv2.minAreaRect(points)
if size[0] < size[1]:
    angle += 90
print(f"a line of text at {x:.0f}, {y:.0f}, turned by {angle:.0f} degrees")


def upright(degrees):
    width, height = int(max(size)) + 40, int(min(size)) + 40
    matrix = cv2.getRotationMatrix2D((x, y), degrees, 1)
    matrix[:, 2] += (width / 2 - x, height / 2 - y)
    return cv2.warpAffine(stretched, matrix, (width, height))


def glyph(letter):
    face = ImageFont.truetype(matplotlib.get_data_path() + "/fonts/ttf/DejaVuSans-Bold.ttf", 64)
    page = Image.new("L", (160, 160))
    ImageDraw.Draw(page).text((40, 40), letter, font=face, fill=255)
    return np.array(page.crop(page.getbbox()), np.float32) / 255


GLYPHS = {letter: glyph(letter) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def difference(seen, letter):
    template = GLYPHS[letter]
    h, w = seen.shape
    narrow = abs(np.log(template.shape[1] / template.shape[0] * h / w))
    template = cv2.resize(template, (w, h), interpolation=cv2.INTER_AREA)
    return float(np.abs(template - seen).mean()) + 0.3 * narrow


def read(line):
    rows = np.flatnonzero((line > 0.5).any(axis=1))
    line = line[rows[0]:rows[-1] + 1]
    inked = np.concatenate([[False], (line > 0.5).any(axis=0), [False]])
    edges = np.flatnonzero(inked[1:] != inked[:-1]).reshape(-1, 2)
    fits = []
    for left, right in edges:
        rows = np.flatnonzero((line[:, left:right] > 0.5).any(axis=1))
        if (rows[-1] - rows[0]) > 0.6 * len(line):
            seen = line[rows[0]:rows[-1] + 1, left:right]
            fits.append(min((difference(seen, letter), letter) for letter in GLYPHS))
    return sum(fit for fit, _ in fits) / len(fits), "".join(letter for _, letter in fits)


"""
_TURN = "print(min(read(upright(angle)), read(upright(angle + 180)))[1])\n"
_MIRROR = "print(min(read(upright(angle)[:, ::-1]), read(upright(angle + 180)[:, ::-1]))[1])\n"


class RotatedDarkTextKnobs(Knobs):
    """How small, how turned and how faint the word is."""

    kinds: tuple[Kind, ...] = Field(("rotated", "dark", "mirrored"), min_length=1)
    smallest: int = Field(28, ge=20, le=120)
    """Pixels per em."""
    largest: int = Field(64, ge=20, le=120)
    faintest: int = Field(6, ge=4, le=60)
    """Least contrast of kind `dark`, in levels of 255; the greatest is 6 more."""


def draw(rng: Rng, knobs: RotatedDarkTextKnobs) -> WorldSample:
    """Return one picture of a word."""
    kind = rng.choice(knobs.kinds)
    word = rng.choice(WORDS)
    size = rng.integer(knobs.smallest, max(knobs.smallest, knobs.largest))
    degrees = {"rotated": rng.integer(20, 340), "dark": rng.integer(-8, 8), "mirrored": rng.integer(-20, 20)}[kind]
    text = _text(word, size)
    if kind == "mirrored":
        text = text[:, ::-1]
    cover = _turned(text, degrees)
    paper, ink = _colours(rng, kind, knobs.faintest)
    height, width = cover.shape
    canvas = (width + rng.integer(60, 300), height + rng.integer(60, 300))
    left, top = rng.integer(20, canvas[0] - width - 20), rng.integer(20, canvas[1] - height - 20)
    picture, _ = blank(canvas, paper)
    picture.paste(ink, (left, top), Image.fromarray(cover))
    picture = grain(rng, picture, 1 if kind == "dark" else rng.integer(0, 8))
    return WorldSample(
        question=rng.choice(_QUESTIONS[kind]),
        media={"image_0": picture},
        answer=word,
        answer_type=AnswerType.TEXT,
        program=f"SOFT = {1.2 if kind == 'dark' else 0.6}\n" + _PROGRAM + (_MIRROR if kind == "mirrored" else _TURN),
        evidence=(EvidenceBox(image="image_0", xyxy=_ink_box(cover, left, top), label="word"),),
        difficulty=round(1 - size / 140, 3),
        tags=(kind,),
    )


def _text(word: str, size: int) -> NDArray[np.uint8]:
    """Return coverage 0..255 of a spaced word, drawn `_FINE` times finer, trimmed to its ink."""
    face = font(size * _FINE, "sans-bold")
    page = Image.new("L", (2 * size * _FINE * len(word), 3 * size * _FINE))
    pen = ImageDraw.Draw(page)
    x = 0
    for letter in word:
        left, _, right, _ = (int(value) for value in face.getbbox(letter))
        # On one baseline: `ls` is left, baseline.
        pen.text((x - left, 2 * size * _FINE), letter, font=face, fill=255, anchor="ls")
        x += right - left + size * _FINE // 8
    return np.asarray(page.crop(page.getbbox()))


def _turned(text: NDArray[np.uint8], degrees: int) -> NDArray[np.uint8]:
    """Return the coverage turned clockwise about its middle, at the picture's own fineness.

    Every fine pixel is fetched from where it comes from, in whole numbers, and blocks of them are averaged.
    """
    height, width = text.shape
    corners = [turned(x, y, degrees) for x in (-width // 2, width // 2) for y in (-height // 2, height // 2)]
    reach_x = max(abs(x) for x, _ in corners) // _FINE + 2
    reach_y = max(abs(y) for _, y in corners) // _FINE + 2
    ys, xs = np.mgrid[-reach_y * _FINE : reach_y * _FINE, -reach_x * _FINE : reach_x * _FINE]
    c, s = sixteen_bits(-degrees)
    from_x = ((xs * c - ys * s) >> 16) + width // 2
    from_y = ((xs * s + ys * c) >> 16) + height // 2
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    fine = np.where(inside, text[np.clip(from_y, 0, height - 1), np.clip(from_x, 0, width - 1)], 0).astype(np.uint32)
    blocks = fine.reshape(2 * reach_y, _FINE, 2 * reach_x, _FINE).sum(axis=(1, 3)) // _FINE**2
    return np.asarray(blocks, np.uint8)


def _colours(rng: Rng, kind: Kind, faintest: int) -> tuple[Colour, Colour]:
    """Draw colours of the paper and of the ink."""
    if kind == "dark":
        level, more = rng.integer(4, 20), rng.integer(faintest, faintest + 6)
        return (level, level, level), (level + more, level + more, level + more)
    paper = rng.choice(((252, 250, 244), (236, 240, 246), (222, 226, 214), (40, 44, 52)))
    light = paper[0] < 128
    ink = rng.choice(((240, 240, 236), (250, 220, 120)) if light else ((20, 20, 24), (30, 50, 120), (120, 30, 30)))
    return paper, ink


def _ink_box(cover: NDArray[np.uint8], left: int, top: int) -> Box:
    ys, xs = np.nonzero(cover > 64)
    return left + int(xs.min()), top + int(ys.min()), left + int(xs.max()) + 1, top + int(ys.max()) + 1


WORLD = World("rotated-dark-text@1", "Read a word that is turned, mirrored or hardly lit.", RotatedDarkTextKnobs, draw)
