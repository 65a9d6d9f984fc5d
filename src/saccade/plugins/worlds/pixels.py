"""Worlds whose questions need the pixels themselves: exact colours, hidden text, what differs between two pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds.canvas import (
    COLOURS,
    Box,
    Colour,
    blank,
    font,
    free_place,
    polygon_points,
    sixteen_bits,
    turned,
)
from saccade.plugins.worlds.signs import backdrop, grain
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

# World `pixel-colour`. Kinds: whether two patches on different surrounds are the same colour; the exact RGB of a patch;
# the lightest of a row of patches; what per cent of a mosaic one colour covers; which colour covers most of it.

Kind = Literal["same", "value", "lightest", "share", "most"]
KINDS: tuple[Kind, ...] = ("same", "value", "lightest", "share", "most")
_INKS = ("red", "yellow", "green", "blue", "purple", "orange")

_PATCHES = """\
import cv2
import numpy as np

pixels = np.array(image_0.convert("RGB"))
# Every patch is framed in pure black; the frame's hole is the patch.
frame = (pixels.max(axis=2) == 0).astype(np.uint8)
contours, tree = cv2.findContours(frame, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
boxes = sorted(cv2.boundingRect(c) for c, links in zip(contours, tree[0]) if links[3] >= 0)
insides = [pixels[y + 2:y + h - 2, x + 2:x + w - 2] for x, y, w, h in boxes]
patches = [np.median(inside.reshape(-1, 3), axis=0).astype(int) for inside in insides]
print([patch.tolist() for patch in patches])
"""
_MOSAIC = f"""\
import numpy as np

COLOURS = { ({name: COLOURS[name] for name in _INKS}) }
pixels = np.array(image_0.convert("RGB")).astype(int)
shares = {{name: float((np.abs(pixels - colour).max(axis=2) < 8).mean()) for name, colour in COLOURS.items()}}
print(shares)
"""
_END: dict[Kind, str] = {
    "same": 'print("yes" if (patches[0] == patches[1]).all() else "no")\n',
    "value": 'print(", ".join(str(level) for level in patches[0]))\n',
    "lightest": "print(1 + max(range(len(patches)), key=lambda n: patches[n].sum()))\n",
    "share": "print(round(100 * shares[WANTED]))\n",
    "most": "print(max(shares, key=shares.get))\n",
}


class PixelColourKnobs(Knobs):
    """How small the differences are."""

    kinds: tuple[Kind, ...] = Field(KINDS, min_length=1)
    least: int = Field(4, ge=1, le=15)
    """Least difference of two patches in levels of 255."""
    cells: int = Field(20, ge=10, le=50)
    """Cells of a mosaic across and down."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    picture: Image.Image
    boxes: tuple[Box, ...]
    question: str
    answer: str
    answer_type: AnswerType
    program: str
    choices: tuple[str, ...] = ()


def draw(rng: Rng, knobs: PixelColourKnobs) -> WorldSample:
    """Return one picture of patches or of a mosaic."""
    kind = rng.choice(knobs.kinds)
    drawn = {"same": _same, "value": _value, "lightest": _lightest, "share": _share, "most": _most}[kind](rng, knobs)
    return WorldSample(
        question=drawn.question,
        media={"image_0": drawn.picture},
        choices=drawn.choices,
        answer=drawn.answer,
        answer_type=drawn.answer_type,
        program=drawn.program + _END[kind],
        evidence=tuple(EvidenceBox(image="image_0", xyxy=box, label=kind) for box in drawn.boxes),
        difficulty=round(1 - knobs.least / 20, 3),
        tags=(kind,),
    )


def _same(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    colour = _colour(rng, 60, 190)
    same = rng.chance(50)
    step = rng.integer(knobs.least, knobs.least + 8) * rng.choice((-1, 1))
    picture, boxes = _row(rng, [colour, colour if same else _lit(colour, step)])
    question = rng.choice(
        ("Do the two framed patches have exactly the same colour?", "Are the two framed squares equal in colour?")
    )
    return _Drawn(picture, boxes, question, "yes" if same else "no", AnswerType.YES_NO, _PATCHES)


def _value(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    colour = _colour(rng, 10, 245)
    picture, boxes = _row(rng, [colour])
    question = "What colour is the framed patch? Answer with red, green, blue from 0 to 255, for example: 12, 200, 7"
    return _Drawn(picture, boxes, question, ", ".join(map(str, colour)), AnswerType.LIST, _PATCHES)


def _lightest(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    base = _colour(rng, 100, 200)
    steps = rng.shuffled([-knobs.least * number for number in range(rng.integer(3, 6))])
    picture, boxes = _row(rng, [_lit(base, step) for step in steps])
    place = steps.index(0)
    question = "Counted from the left, which of the framed patches is the lightest? Answer with its number."
    return _Drawn(picture, (boxes[place],), question, str(place + 1), AnswerType.NUMBER, _PATCHES)


def _share(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    picture, counts = _mosaic(rng, knobs.cells)
    # Shares just between two whole numbers could be rounded either way.
    clear = [name for name, count in counts.items() if 200 * count % (2 * knobs.cells**2) != knobs.cells**2]
    name = rng.choice(clear or tuple(counts))
    question = f"What percentage of the picture is {name}? Round to a whole number."
    answer = str(round(100 * counts[name] / knobs.cells**2))
    program = f'WANTED = "{name}"\n' + _MOSAIC
    return _Drawn(picture, ((0, 0, *picture.size),), question, answer, AnswerType.NUMBER, program)


def _most(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    picture, counts = _mosaic(rng, knobs.cells)
    question = "Which colour covers the largest part of the picture?"
    choices = tuple(sorted(counts))
    answer = max(counts, key=lambda name: counts[name])
    return _Drawn(picture, ((0, 0, *picture.size),), question, answer, AnswerType.CHOICE, _MOSAIC, choices)


def _colour(rng: Rng, low: int, high: int) -> Colour:
    return rng.integer(low, high), rng.integer(low, high), rng.integer(low, high)


def _lit(colour: Colour, step: int) -> Colour:
    return colour[0] + step, colour[1] + step, colour[2] + step


def _row(rng: Rng, colours: list[Colour]) -> tuple[Image.Image, tuple[Box, ...]]:
    """Return framed patches side by side, each on a surround of its own, and the boxes of their insides."""
    field, height = rng.integer(120, 240), rng.integer(160, 400)
    side = rng.integer(24, 60)
    picture, pen = blank((field * len(colours), height), (255, 255, 255))
    boxes = []
    for number, colour in enumerate(colours):
        shade = rng.choice((20, 60, 190, 225))
        pen.rectangle((number * field, 0, (number + 1) * field - 1, height), fill=_colour(rng, shade, shade + 25))
        x = number * field + rng.integer(10, field - side - 10)
        y = rng.integer(10, height - side - 10)
        pen.rectangle((x - 2, y - 2, x + side + 1, y + side + 1), fill=(0, 0, 0))
        pen.rectangle((x, y, x + side - 1, y + side - 1), fill=colour)
        boxes.append((x, y, x + side, y + side))
    return picture, tuple(boxes)


def _mosaic(rng: Rng, cells: int) -> tuple[Image.Image, dict[str, int]]:
    """Return square cells of four colours, and the number of cells of each; one colour has clearly most."""
    side, total = rng.choice((10, 16, 24)), cells * cells
    first = total * rng.integer(29, 36) // 100
    second = first - total * rng.integer(2, 6) // 100
    third = (total - first - second) // 2
    names = rng.sample(_INKS, 4)
    counts = dict(zip(names, (first, second, third, total - first - second - third), strict=True))
    fields = rng.shuffled([name for name, count in counts.items() for _ in range(count)])
    picture, pen = blank((side * cells, side * cells), (255, 255, 255))
    for number, name in enumerate(fields):
        x, y = number % cells * side, number // cells * side
        pen.rectangle((x, y, x + side - 1, y + side - 1), fill=COLOURS[name])
    return picture, counts


WORLD = World("pixel-colour@1", "Compare, name or measure colours by their pixels.", PixelColourKnobs, draw)

# World `rotated-dark-text`: read a word that is turned, mirrored, or nearly lost in the dark.
#
# Words are capitals of one bold face on plain paper with grain. Letters that read as others when they are turned or
# mirrored (as N and Z, or M and W) do occur; the word as a whole has one reading that way up.

TextKind = Literal["rotated", "dark", "mirrored"]
WORDS = (
    *("ANCHOR", "BASKET", "CANDLE", "DRAGON", "ENGINE", "FALCON", "GARDEN", "HARBOR", "JACKET", "KETTLE"),
    *("LADDER", "MARKET", "NAPKIN", "ORANGE", "PARROT", "RABBIT", "SADDLE", "TEMPLE", "VELVET", "WALNUT"),
    *("BRIDGE", "CASTLE", "FOREST", "GUITAR", "HAMMER", "PENCIL", "ROCKET", "SILVER", "TURTLE", "YELLOW"),
)
_QUESTIONS: dict[TextKind, tuple[str, ...]] = {
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

    kinds: tuple[TextKind, ...] = Field(("rotated", "dark", "mirrored"), min_length=1)
    smallest: int = Field(28, ge=20, le=120)
    """Pixels per em."""
    largest: int = Field(64, ge=20, le=120)
    faintest: int = Field(6, ge=4, le=60)
    """Least contrast of kind `dark`, in levels of 255; the greatest is 6 more."""


def draw_text(rng: Rng, knobs: RotatedDarkTextKnobs) -> WorldSample:
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


def _colours(rng: Rng, kind: TextKind, faintest: int) -> tuple[Colour, Colour]:
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


ROTATED_DARK_TEXT_WORLD = World(
    "rotated-dark-text@1",
    "Read a word that is turned, mirrored or hardly lit.",
    RotatedDarkTextKnobs,
    draw_text,
)

# World `spot-difference`: two pictures of the same things, but for some that changed colour, shape, or went away.
#
# Things stand apart from each other and keep their places. The grain of the two pictures differs, so that single pixels
# do as well.

ChangeKind = Literal["count", "where", "colour"]
_CHANGE_INKS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black", "white")
_SHAPES = ("disc", "square", "triangle", "cross")
_PLACES = ("top left", "top right", "bottom left", "bottom right")
_CHANGE_QUESTIONS: dict[ChangeKind, tuple[str, ...]] = {
    "count": (
        "How many things differ between the two pictures?",
        "Compare the two pictures. In how many places are they different?",
    ),
    "where": (
        "One thing differs between the two pictures. In which part of the picture is it?",
        "Find the difference between the two pictures. In which quarter is it?",
    ),
    "colour": (
        "One thing has another colour in the second picture. Which colour does it have there?",
        "Between the pictures one thing changed its colour. What is its colour in the second one?",
    ),
}
_CHANGE_PROGRAM = """\
import cv2
import numpy as np

first = np.array(image_0.convert("RGB")).astype(int)
second = np.array(image_1.convert("RGB")).astype(int)
changed = (np.abs(first - second).max(axis=2) > 40).astype(np.uint8)
changed = cv2.morphologyEx(changed, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
# Pieces of one thing lie nearer to each other than two things do.
count, label, stats, centres = cv2.connectedComponentsWithStats(cv2.dilate(changed, np.ones((REACH, REACH), np.uint8)))
print("differences at", [(int(x), int(y)) for x, y in centres[1:]])
"""
_CHANGE_END: dict[ChangeKind, str] = {
    "count": "print(count - 1)\n",
    "where": """\
x, y = centres[1]
print(("top" if y < first.shape[0] / 2 else "bottom") + " " + ("left" if x < first.shape[1] / 2 else "right"))
""",
    "colour": """\
colour = np.median(second[changed > 0], axis=0)
print(min(COLOURS, key=lambda name: np.abs(colour - COLOURS[name]).sum()))
""",
}


@dataclass(frozen=True, slots=True)
class _Thing:
    box: Box
    shape: str
    ink: str
    shown: bool = True


class SpotDifferenceKnobs(Knobs):
    """How many things there are, how large, and how many differ."""

    kinds: tuple[ChangeKind, ...] = Field(("count", "where", "colour"), min_length=1)
    things: int = Field(16, ge=2, le=40)
    """At most; fewer where the picture is full."""
    most: int = Field(5, ge=1, le=10)
    """Most differences, in kind `count`."""
    smallest: int = Field(24, ge=16, le=60)
    """Side of a thing in pixels; the largest is twice that."""


def draw_change(rng: Rng, knobs: SpotDifferenceKnobs) -> WorldSample:
    """Return a pair of pictures."""
    kind = rng.choice(knobs.kinds)
    size = rng.choice(((640, 480), (800, 600), (720, 720), (960, 640)))
    things = _things(rng, knobs, size)
    count = min(rng.integer(1, knobs.most), len(things)) if kind == "count" else 1
    picked = rng.sample(range(len(things)), count)
    changed = [_changed(rng, thing, kind) if n in picked else thing for n, thing in enumerate(things)]
    scene = backdrop(rng, size, 14)
    pictures = [grain(rng, _drawn(scene, version), 5) for version in (things, changed)]
    box = things[picked[0]].box
    middle = ((box[0] + box[2]) // 2, (box[1] + box[3]) // 2)
    answers = {
        "count": str(count),
        "where": _PLACES[2 * (middle[1] >= size[1] // 2) + (middle[0] >= size[0] // 2)],
        "colour": changed[picked[0]].ink,
    }
    colours = f"COLOURS = { ({name: COLOURS[name] for name in _CHANGE_INKS}) }\n" if kind == "colour" else ""
    return WorldSample(
        question=rng.choice(_CHANGE_QUESTIONS[kind]),
        media={"image_0": pictures[0], "image_1": pictures[1]},
        choices=_PLACES if kind == "where" else (),
        answer=answers[kind],
        answer_type={"count": AnswerType.NUMBER, "where": AnswerType.CHOICE, "colour": AnswerType.TEXT}[kind],
        program=f"REACH = {_reach(knobs)}\n{colours}" + _CHANGE_PROGRAM + _CHANGE_END[kind],
        evidence=tuple(
            EvidenceBox(image=name, xyxy=things[number].box, label="difference")
            for number in picked
            for name in ("image_0", "image_1")
        ),
        difficulty=round(min(1.0, len(things) / 50 + 8 / knobs.smallest), 3),
        tags=(kind,),
    )


def _reach(knobs: SpotDifferenceKnobs) -> int:
    """Return pixels within which two changed pixels belong to one thing."""
    return knobs.smallest * 3 // 2


def _things(rng: Rng, knobs: SpotDifferenceKnobs, size: tuple[int, int]) -> list[_Thing]:
    taken: list[Box] = []
    things = []
    for _ in range(knobs.things):
        side = rng.integer(knobs.smallest, 2 * knobs.smallest)
        box = free_place(rng, (side, side), (8, 8, size[0] - 8, size[1] - 8), taken, gap=_reach(knobs) + 8)
        middle = box and ((box[0] + box[2]) // 2, (box[1] + box[3]) // 2)
        # Nothing stands on the line between two quarters.
        if not box or not middle or abs(middle[0] - size[0] // 2) < side or abs(middle[1] - size[1] // 2) < side:
            continue
        taken.append(box)
        things.append(_Thing(box, rng.choice(_SHAPES), rng.choice(_CHANGE_INKS)))
    return things or [_Thing((40, 40, 80, 80), "disc", "red")]


def _changed(rng: Rng, thing: _Thing, kind: ChangeKind) -> _Thing:
    change = "colour" if kind == "colour" else rng.choice(("colour", "shape", "gone"))
    if change == "colour":
        return replace(thing, ink=rng.choice([ink for ink in _CHANGE_INKS if ink != thing.ink]))
    if change == "shape":
        return replace(thing, shape=rng.choice([shape for shape in _SHAPES if shape != thing.shape]))
    return replace(thing, shown=False)


def _drawn(scene: Image.Image, things: list[_Thing]) -> Image.Image:
    picture = scene.copy()
    pen = ImageDraw.Draw(picture)
    for thing in things:
        x0, y0, x1, y1 = thing.box[0], thing.box[1], thing.box[2] - 1, thing.box[3] - 1
        fill, third = COLOURS[thing.ink], (x1 - x0) // 3
        if not thing.shown:
            continue
        if thing.shape == "disc":
            pen.ellipse((x0, y0, x1, y1), fill=fill)
        elif thing.shape == "square":
            pen.rectangle((x0, y0, x1, y1), fill=fill)
        elif thing.shape == "triangle":
            pen.polygon(polygon_points(((x0 + x1) // 2, (y0 + y1) // 2), (x1 - x0) // 2, 3), fill=fill)
        else:
            pen.rectangle((x0 + third, y0, x1 - third, y1), fill=fill)
            pen.rectangle((x0, y0 + third, x1, y1 - third), fill=fill)
    return picture


SPOT_DIFFERENCE_WORLD = World(
    "spot-difference@1", "Find what differs between two pictures.", SpotDifferenceKnobs, draw_change
)
