"""World `line-crossings`: how often do two bent lines cross?

Both run from left to right with bends at the same places, where they keep a clear distance: a crossing is never at a
bend, and no bend only touches the other line.
"""

from __future__ import annotations

from math import isqrt
from typing import Literal

from PIL import ImageDraw, ImageFont
from pydantic import Field

from saccade.plugins.worlds.canvas import COLOURS, Box, Face, blank, font, put_text, put_text_centred, text_size, turned
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

_PAIRS = (("red", "blue"), ("blue", "red"), ("green", "purple"), ("red", "green"), ("orange", "blue"))
QUESTIONS = (
    "How many times do the {a} line and the {b} line cross?",
    "Count the points at which the {a} and {b} lines meet.",
    "At how many points does the {a} line intersect the {b} line?",
)
PROGRAM = """\
import numpy as np

pixels = np.array(image_0.convert("RGB")).astype(int)
masks = [np.abs(pixels - colour).max(axis=2) < 60 for colour in COLOURS]
rows = np.arange(pixels.shape[0])[:, None]
sides, places = [], []
for x in range(pixels.shape[1]):
    column = [mask[:, x] for mask in masks]
    if not (column[0].any() and column[1].any()):
        continue
    first, second = [np.flatnonzero(one) for one in column]
    # Only columns in which the lines are clear of each other tell which one is above.
    if first.max() < second.min() or second.max() < first.min():
        sides.append(first.max() < second.min())
        places.append(x)
crossings = [places[i] for i in range(1, len(sides)) if sides[i] != sides[i - 1]]
print("crossings near x =", crossings)
print(len(crossings))
"""


class LineCrossingsKnobs(Knobs):
    """How often the lines bend and how near they may come at a bend."""

    fewest_segments: int = Field(2, ge=1, le=8)
    most_segments: int = Field(4, ge=1, le=8)
    clearance: int = Field(6, ge=3, le=30)
    """Least distance of the lines at a bend or an end, in per cent of the picture's side."""


def draw(rng: Rng, knobs: LineCrossingsKnobs) -> WorldSample:
    """Return one picture of two lines."""
    side = rng.choice((384, 512, 768, 1000))
    width = rng.integer(2, max(3, side // 120))
    segments = rng.integer(knobs.fewest_segments, max(knobs.fewest_segments, knobs.most_segments))
    margin = rng.choice((0, side // 12))
    xs = [margin + (side - 1 - 2 * margin) * step // segments for step in range(segments + 1)]
    clear = side * knobs.clearance // 100 + 2 * width
    first, second = [], []
    for _ in xs:
        y = rng.integer(width, side - 1 - width)
        first.append(y)
        second.append(rng.choice([z for z in range(width, side - width) if abs(z - y) >= clear]))
    above = [a < b for a, b in zip(first, second, strict=True)]
    count = sum(above[step] != above[step - 1] for step in range(1, len(above)))
    picture, pen = blank((side, side), (255, 255, 255))
    names = rng.choice(_PAIRS)
    for name, ys in zip(names, (first, second), strict=True):
        pen.line(list(zip(xs, ys, strict=True)), fill=COLOURS[name], width=width, joint="curve")
    evidence = tuple(
        _crossing(xs[step - 1 : step + 1], first[step - 1 : step + 1], second[step - 1 : step + 1], side)
        for step in range(1, len(above))
        if above[step] != above[step - 1]
    )
    return WorldSample(
        question=rng.choice(QUESTIONS).format(a=names[0], b=names[1]),
        media={"image_0": picture},
        answer=str(count),
        answer_type=AnswerType.NUMBER,
        program=f"COLOURS = [{COLOURS[names[0]]}, {COLOURS[names[1]]}]\n" + PROGRAM,
        evidence=evidence,
        difficulty=min(1.0, segments / 8),
        tags=("count",),
    )


def _crossing(xs: list[int], first: list[int], second: list[int], side: int) -> EvidenceBox:
    """Return the box around the crossing of two segments over the same stretch of x, a tenth of the picture wide."""
    start, end = first[0] - second[0], first[1] - second[1]
    x = xs[0] + (xs[1] - xs[0]) * start // (start - end)
    y = first[0] + (first[1] - first[0]) * start // (start - end)
    reach = side // 20
    box = (max(0, x - reach), max(0, y - reach), min(side, x + reach), min(side, y + reach))
    return EvidenceBox(image="image_0", xyxy=box, label="crossing")


WORLD = World("line-crossings@1", "Count the crossings of two bent lines.", LineCrossingsKnobs, draw)

# World `nested-squares`: how many squares stand inside one another?
#
# Every square lies wholly inside the one before it, without touching it; all are drawn with outlines of one colour.

NESTED_SQUARES_PROGRAM = """\
import cv2
import numpy as np

grey = np.array(image_0.convert("L")).astype(int)
ink = (np.abs(grey - np.median(grey)) > 40).astype(np.uint8)
# Every closed outline has one outer contour (without a parent, or inside a hole) and one hole inside it.
contours, tree = cv2.findContours(ink, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
outer = [c for c, links in zip(contours, tree[0]) if links[3] < 0 and links[2] >= 0]
for contour in outer:
    print("square at", cv2.boundingRect(contour))
print(len(outer))
"""

NESTED_SQUARES_QUESTIONS = (
    "How many squares are in the picture?",
    "Count all the squares, those inside others too.",
    "Squares are drawn inside one another here. How many are there in total?",
    "What is the number of nested squares?",
)
_SIDES = (384, 512, 640, 800, 1000)


class NestedSquaresKnobs(Knobs):
    """Range of the number of squares and the least gap between their lines."""

    fewest: int = Field(2, ge=1, le=8)
    most: int = Field(6, ge=1, le=8)
    gap: int = Field(4, ge=2, le=16)
    """Least distance in pixels between the lines of two squares."""


def draw_nested_squares(rng: Rng, knobs: NestedSquaresKnobs) -> WorldSample:
    """Return one picture of nested squares."""
    canvas = rng.choice(_SIDES)
    count = rng.integer(knobs.fewest, max(knobs.fewest, knobs.most))
    width = rng.integer(2, max(2, canvas // 120))
    ink = COLOURS[rng.choice(("black", "red", "blue", "green", "purple", "brown"))]
    picture, pen = blank((canvas, canvas), rng.choice(((255, 255, 255), (248, 246, 240), (236, 242, 248))))
    side = rng.integer(canvas * 55 // 100, canvas * 85 // 100)
    x, y = rng.integer(8, canvas - side - 8), rng.integer(8, canvas - side - 8)
    outer = (x, y, x + side, y + side)
    for left in range(count, 0, -1):
        pen.rectangle((x, y, x + side - 1, y + side - 1), outline=ink, width=width)
        # Room for those still to come, each with its two lines and gaps.
        room = side - 2 * (width + knobs.gap)
        least = (left - 1) * 2 * (width + knobs.gap) + 8
        inner = rng.integer(max(least, room * 55 // 100), max(least, room * 95 // 100))
        inner = min(inner, room)
        x += width + knobs.gap + rng.integer(0, room - inner)
        y += width + knobs.gap + rng.integer(0, room - inner)
        side = inner
    return WorldSample(
        question=rng.choice(NESTED_SQUARES_QUESTIONS),
        media={"image_0": picture},
        answer=str(count),
        answer_type=AnswerType.NUMBER,
        program=NESTED_SQUARES_PROGRAM,
        evidence=(EvidenceBox(image="image_0", xyxy=outer, label="nested squares"),),
        difficulty=count / 8,
        tags=("count",),
    )


NESTED_SQUARES_WORLD = World(
    "nested-squares@1", "Count squares that stand inside one another.", NestedSquaresKnobs, draw_nested_squares
)

# World `touching-circles`: do two circles touch, do they overlap?
#
# Two discs or rings of different colours, in any direction from each other. The gap between their rims is at least
# three pixels, or they overlap by as much: nobody has to judge a hair's breadth. Kind `contact` asks whether there is
# any, kind `overlap` whether they share an area; circles that only touch (none does here) would have the first only.

_INKS = ("red", "orange", "green", "blue", "purple", "pink")
Kind = Literal["contact", "overlap"]
_QUESTIONS: dict[Kind, tuple[str, ...]] = {
    "contact": (
        "Do the two circles touch or overlap?",
        "Are the two circles in contact with each other?",
        "Is there any contact between the two circles?",
    ),
    "overlap": ("Do the two circles overlap?", "Is there an overlap between the two circles?"),
}
TOUCHING_CIRCLES_PROGRAM = """\
import cv2
import numpy as np

pixels = np.array(image_0.convert("RGB"))
paper = np.median(pixels.reshape(-1, 3), axis=0)
ink = np.abs(pixels - paper).max(axis=2) > 60
# The two most frequent inks are the circles' colours; blended pixels of their rims are rarer.
codes, counts = np.unique(pixels[ink].astype(int) @ [65536, 256, 1], return_counts=True)
colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
first = colours[counts.argmax()]
far = np.abs(colours - first).max(axis=1) > 60
second = colours[far][counts[far].argmax()]
circles = []
for colour in (first, second):
    mask = np.abs(pixels - colour).max(axis=2) < 100
    mask &= np.abs(pixels - colour).sum(axis=2) < np.abs(pixels - (second if colour is first else first)).sum(axis=2)
    # Whatever lies on the other circle may hide a part: the circle round the rest is the same.
    hull = cv2.convexHull(np.argwhere(mask)[:, ::-1].astype(np.int32))
    (x, y), radius = cv2.minEnclosingCircle(hull)
    circles.append((x, y, radius))
    print(f"circle at {x:.1f}, {y:.1f} with radius {radius:.1f}")
(x0, y0, r0), (x1, y1, r1) = circles
gap = np.hypot(x1 - x0, y1 - y0) - r0 - r1 - 1
print(f"gap {gap:.1f} pixels")
"""
# Of circles that just touch, the measured gap is off by less than a pixel.
_PRINT: dict[Kind, str] = {
    "contact": 'print("yes" if gap < 1 else "no")\n',
    "overlap": 'print("yes" if gap < -1.2 else "no")\n',
}


class TouchingCirclesKnobs(Knobs):
    """How far apart or how deep in each other the circles may be."""

    kinds: tuple[Kind, ...] = Field(("contact", "overlap"), min_length=1)
    gap_percent: int = Field(12, ge=2, le=100)
    """Greatest gap or overlap in per cent of the smaller radius; small ones are hard to see."""
    least_gap: int = Field(3, ge=2, le=20)
    """Least gap or overlap in pixels."""


def draw_touching_circles(rng: Rng, knobs: TouchingCirclesKnobs) -> WorldSample:
    """Return one picture of two circles."""
    side = rng.choice((384, 512, 768, 1100))
    picture, pen = blank((side, side), (255, 255, 255))
    first = rng.integer(side // 14, side // 7)
    second = first if rng.chance(50) else rng.integer(side // 14, side // 7)
    touching = rng.chance(50)
    gap = rng.integer(knobs.least_gap, max(knobs.least_gap, min(first, second) * knobs.gap_percent // 100))
    wanted = first + second + 1 + (-gap if touching else gap)
    x, y = turned(wanted, 0, rng.integer(0, 359))
    # Rounding to pixels may move the centres by one; the true gap decides.
    touching = isqrt(x * x + y * y) < first + second + 1
    reach = first + second + side // 12
    cx, cy = rng.integer(reach, side - reach), rng.integer(reach, side - reach)
    places = [(cx - x // 2, cy - y // 2, first), (cx - x // 2 + x, cy - y // 2 + y, second)]
    width = rng.choice((0, 2, 4))
    inks = rng.sample(_INKS, 2)
    for (px, py, radius), ink in zip(places, inks, strict=True):
        box = (px - radius, py - radius, px + radius, py + radius)
        if width:
            pen.ellipse(box, outline=COLOURS[ink], width=width)
        else:
            pen.ellipse(box, fill=COLOURS[ink])
    xs = [value for px, _, radius in places for value in (px - radius, px + radius + 1)]
    ys = [value for _, py, radius in places for value in (py - radius, py + radius + 1)]
    box = (min(xs), min(ys), max(xs), max(ys))
    kind = rng.choice(knobs.kinds)
    return WorldSample(
        question=rng.choice(_QUESTIONS[kind]),
        media={"image_0": picture},
        answer="yes" if touching else "no",
        answer_type=AnswerType.YES_NO,
        program=TOUCHING_CIRCLES_PROGRAM + _PRINT[kind],
        evidence=(EvidenceBox(image="image_0", xyxy=box, label="circles"),),
        difficulty=round(1 - min(1.0, gap / min(first, second)), 3),
        tags=(kind, "rings" if width else "discs"),
    )


TOUCHING_CIRCLES_WORLD = World(
    "touching-circles@1", "Do two circles touch or overlap?", TouchingCirclesKnobs, draw_touching_circles
)

# World `circled-letter`: which letter of a word is circled?
#
# The oval surrounds its letter without covering it; it may run through the neighbours. All letters are lower case.

_FACES: tuple[Face, ...] = ("sans", "sans-bold", "serif", "serif-bold", "mono")
_WORDS = (
    *("acknowledge", "subdermatology", "blacksmith", "question", "jungle", "exotic", "pharmacy", "rhythm", "vivid"),
    *("zebra", "cowboy", "quartz", "kitchen", "mosquito", "wallflower", "typeface", "hexagon", "bookkeeper", "jigsaw"),
)
CIRCLED_LETTER_QUESTIONS = (
    "Which letter is circled in {colour}?",
    "Which letter does the {colour} oval surround?",
    "One letter of the word is marked by a {colour} oval. Which one?",
)
CIRCLED_LETTER_PROGRAM = """\
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


def draw_circled_letter(rng: Rng, knobs: CircledLetterKnobs) -> WorldSample:
    """Return one picture of a word with an oval round one letter."""
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
        question=rng.choice(CIRCLED_LETTER_QUESTIONS).format(colour=colour),
        media={"image_0": picture},
        answer=word[chosen],
        answer_type=AnswerType.TEXT,
        program=CIRCLED_LETTER_PROGRAM,
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


CIRCLED_LETTER_WORLD = World(
    "circled-letter@1", "Name the letter of a word that an oval surrounds.", CircledLetterKnobs, draw_circled_letter
)

# World `grid-count`: how many rows and columns has a ruled grid, empty or with a word in every cell?
#
# The grid has a line at every border. Row heights and column widths are equal but for the rounding to pixels.

GridCountKind = Literal["rows", "columns", "both"]
WORDS = """
    ant bed cup dew elm fig gem hat ink jar kid log map net oak pen rug sky tea urn van wax yew zoo bird coat desk
    fern gate hill iron lake milk nest pear rope sand tree wind
""".split()  # noqa: SIM905
_GRID_COUNT_INKS = ((0, 0, 0), (40, 40, 46), (24, 48, 110), (120, 20, 30))
_GRID_COUNT_QUESTIONS = {
    "rows": ("How many rows does the grid have?", "Count the rows of the table."),
    "columns": ("How many columns does the grid have?", "Count the columns of the table."),
    "both": ("How many rows and how many columns does the grid have? Answer with rows, columns; for example: 5, 6",),
}
GRID_COUNT_PROGRAM = """\
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
_GRID_COUNT_PRINT = {"rows": "print(rows)\n", "columns": "print(columns)\n", "both": 'print(f"{rows}, {columns}")\n'}


class GridCountKnobs(Knobs):
    """Size of the grid, and how often its cells hold words."""

    kinds: tuple[GridCountKind, ...] = Field(("rows", "columns", "both"), min_length=1)
    fewest: int = Field(3, ge=1, le=30)
    """Rows or columns."""
    most: int = Field(10, ge=1, le=30)
    words: int = Field(50, ge=0, le=100)
    """Per cent of the pictures that have words in their cells."""


def draw_grid_count(rng: Rng, knobs: GridCountKnobs) -> WorldSample:
    """Return one picture of a grid."""
    most = max(knobs.fewest, knobs.most)
    rows, columns = rng.integer(knobs.fewest, most), rng.integer(knobs.fewest, most)
    width, height = rng.choice((500, 720, 1000, 1400)), rng.choice((500, 720, 1000))
    line = rng.integer(2, max(2, min(width // columns, height // rows) // 14))
    paper = rng.choice(((255, 255, 255), (250, 247, 238), (238, 243, 250)))
    ink = rng.choice(_GRID_COUNT_INKS)
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
        question=rng.choice(_GRID_COUNT_QUESTIONS[kind]),
        media={"image_0": picture},
        answer={"rows": str(rows), "columns": str(columns), "both": f"{rows}, {columns}"}[kind],
        answer_type=AnswerType.LIST if kind == "both" else AnswerType.NUMBER,
        program=GRID_COUNT_PROGRAM + _GRID_COUNT_PRINT[kind],
        evidence=(EvidenceBox(image="image_0", xyxy=(left, top, right + line, bottom + line), label="grid"),),
        difficulty=min(1.0, max(rows, columns) / 20),
        tags=(kind, "words" if with_words else "empty"),
    )


def _face(width: int, height: int) -> ImageFont.FreeTypeFont:
    """Return the largest face up to 32 pixels per em whose longest word fits."""
    for size in range(32, 8, -2):
        face = font(size)
        if max(text_size(word, face)[0] for word in WORDS) <= width and size <= height:
            return face
    return font(8)


GRID_COUNT_WORLD = World(
    "grid-count@1", "Count the rows and columns of a grid, empty or with words.", GridCountKnobs, draw_grid_count
)
