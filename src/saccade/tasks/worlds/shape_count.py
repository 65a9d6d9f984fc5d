"""World `shape-count`: how many shapes of one kind are there, apart or overlapping?

Kind `scatter` draws filled or outlined shapes that do not touch, of several kinds and colours, and asks for one kind.
Kind `overlap` draws outlines of one size that run through each other; every outline stays whole and visible.
"""

from __future__ import annotations

from typing import Literal

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import COLOURS, Box, Colour, blank, free_place, polygon_points
from saccade.tasks.worlds.rng import Rng

Kind = Literal["scatter", "overlap"]
_CORNERS = {"circle": 0, "triangle": 3, "square": 4, "pentagon": 5}
_INKS = ("red", "orange", "green", "blue", "purple", "pink", "brown", "black")
QUESTIONS = (
    "How many {shapes} are in the picture?",
    "Count the {shapes} in this picture.",
    "What is the number of {shapes} shown?",
)

_INK = """\
import cv2
import numpy as np

pixels = np.array(image_0.convert("RGB")).astype(int)
paper = np.median(pixels.reshape(-1, 3), axis=0)
ink = (np.abs(pixels - paper).max(axis=2) > 50).astype(np.uint8)
"""
SCATTER = """\
count = 0
for contour in cv2.findContours(ink, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0]:
    corners = len(cv2.approxPolyDP(contour, 0.035 * cv2.arcLength(contour, True), True))
    roundness = cv2.contourArea(contour) / (np.pi * cv2.minEnclosingCircle(contour)[1] ** 2)
    kind = "circle" if roundness > 0.88 else {3: "triangle", 4: "square", 5: "pentagon"}.get(corners, "?")
    print(kind, cv2.boundingRect(contour))
    count += kind == WANTED
print(count)
"""
OVERLAP = """\
# An outline of the wanted kind is one that is covered by ink all the way round; all have one size.
ys, xs = np.nonzero(ink)
ink = ink[ys.min():ys.max() + 1, xs.min():xs.max() + 1]
scale = min(1.0, 240 / max(ink.shape))
ink = cv2.resize(ink.astype(np.float32), None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
line = cv2.GaussianBlur(np.pad(ink / ink.max(), 4), (0, 0), 0.8)
thick = cv2.dilate((line > 0.12).astype(np.float32), np.ones((3, 3)))
turns = np.arange(720) / 720 * 2 * np.pi
if WANTED == "pentagon":
    reach = np.cos(np.pi / 5) / np.cos((turns + np.pi / 2) % (2 * np.pi / 5) - np.pi / 5)
else:
    reach = np.ones_like(turns)


def outlines(radius):
    kernel = np.zeros((2 * radius + 3, 2 * radius + 3), np.float32)
    x, y = reach * np.cos(turns) * radius, reach * np.sin(turns) * radius
    kernel[np.rint(y).astype(int) + radius + 1, np.rint(x).astype(int) + radius + 1] = 1
    kernel /= kernel.sum()
    covered = cv2.filter2D(thick, -1, kernel, borderType=cv2.BORDER_CONSTANT)
    kept = []
    if covered.max() <= 0.95:
        return kept
    exact = cv2.filter2D(line, -1, kernel, borderType=cv2.BORDER_CONSTANT)
    for score, x, y in sorted(((exact[y, x], x, y) for y, x in zip(*np.nonzero(covered > 0.95))), reverse=True):
        if all(np.hypot(x - a, y - b) > 0.4 * radius for _, a, b in kept):
            kept.append((score, x, y))
    return kept


# The right size explains the most ink: many outlines, long ones, and ink in the middle of their lines.
sizes = {radius: outlines(radius) for radius in range(8, int(min(ink.shape) / 1.75) + 2)}
radius = max(sizes, key=lambda r: r * sum(score for score, _, _ in sizes[r]))
print("radius", radius, "centres", [(int(x), int(y)) for _, x, y in sizes[radius]])
print(len(sizes[radius]))
"""


class ShapeCountKnobs(Knobs):
    """How many shapes, and whether they overlap."""

    kinds: tuple[Kind, ...] = Field(("scatter", "overlap"), min_length=1)
    fewest: int = Field(3, ge=1, le=16)
    """Of the asked kind."""
    most: int = Field(9, ge=1, le=16)
    others: int = Field(6, ge=0, le=20)
    """Most shapes of other kinds, in kind `scatter`."""


def draw(rng: Rng, knobs: ShapeCountKnobs) -> WorldSample:
    """One picture of shapes, and the question how many there are of one kind."""
    kind = rng.choice(knobs.kinds)
    count = rng.integer(knobs.fewest, max(knobs.fewest, knobs.most))
    if kind == "scatter":
        wanted = rng.choice(tuple(_CORNERS))
        picture, boxes = _scatter(rng, wanted, count, rng.integer(0, knobs.others))
        program = _INK + f'WANTED = "{wanted}"\n' + SCATTER
    else:
        wanted = rng.choice(("circle", "pentagon"))
        picture, boxes = _overlap(rng, wanted, count)
        program = _INK + f'WANTED = "{wanted}"\n' + OVERLAP
    return WorldSample(
        question=rng.choice(QUESTIONS).format(shapes=f"{wanted}s"),
        media={"image_0": picture},
        answer=str(len(boxes)),
        answer_type=AnswerType.NUMBER,
        program=program,
        evidence=tuple(EvidenceBox(image="image_0", xyxy=box, label=wanted) for box in boxes),
        difficulty=min(1.0, len(boxes) / 16 + (0.3 if kind == "overlap" else 0.0)),
        tags=(kind, wanted),
    )


def _scatter(rng: Rng, kind: str, count: int, others: int) -> tuple[Image.Image, list[Box]]:
    side = rng.choice((400, 600, 800, 1100))
    picture, pen = blank((side, side), (255, 255, 255))
    rest = [shape for shape in _CORNERS if shape != kind]
    shapes = [kind] * count + [rng.choice(rest) for _ in range(others)]
    taken: list[Box] = []
    boxes: list[Box] = []
    width = max(2, side // rng.integer(120, 240))
    filled = rng.chance(50)
    for shape in shapes:
        across = rng.integer(side // 16, side // 8)
        place = free_place(rng, (across, across), (8, 8, side - 8, side - 8), taken, gap=side // 60)
        if place is None:
            continue
        taken.append(place)
        colour = COLOURS[rng.choice(_INKS)]
        turn = rng.integer(0, 359)
        box = _put(pen, shape, place, turn, colour if filled else None, (colour, width))
        if shape == kind:
            boxes.append(box)
    return picture, boxes


def _overlap(rng: Rng, kind: str, count: int) -> tuple[Image.Image, list[Box]]:
    side = rng.choice((400, 600, 800, 1100))
    picture, pen = blank((side, side), (255, 255, 255))
    radius = rng.integer(side // 18, side // 9)
    width = max(2, side // rng.integer(150, 300))
    one_colour = rng.chance(40)
    ink = rng.choice(_INKS)
    edge = radius + width + 4
    centres = [(rng.integer(side // 3, side * 2 // 3), rng.integer(side // 3, side * 2 // 3))]
    for _ in range(2000):
        if len(centres) == count:
            break
        near = rng.choice(centres)
        reach = radius * 21 // 10
        x, y = near[0] + rng.integer(-reach, reach), near[1] + rng.integer(-reach, reach)
        inside = edge <= x <= side - edge and edge <= y <= side - edge
        # Centres keep a distance of a radius, so that no two outlines run along each other.
        if inside and all((x - a) ** 2 + (y - b) ** 2 >= radius**2 for a, b in centres):
            centres.append((x, y))
    boxes = []
    for x, y in centres:
        colour = COLOURS[ink if one_colour else rng.choice(_INKS)]
        place = (x - radius, y - radius, x + radius + 1, y + radius + 1)
        boxes.append(_put(pen, kind, place, 0, None, (colour, width)))
    return picture, boxes


def _put(
    pen: ImageDraw.ImageDraw, shape: str, box: Box, turn: int, fill: Colour | None, line: tuple[Colour, int]
) -> Box:
    """Draw a shape inscribed in the circle that fills `box`; returns the box of what was drawn."""
    x0, y0, x1, y1 = box[0], box[1], box[2] - 1, box[3] - 1
    if shape == "circle":
        pen.ellipse((x0, y0, x1, y1), fill=fill, outline=line[0], width=line[1])
        return box
    points = polygon_points(((x0 + x1) // 2, (y0 + y1) // 2), (x1 - x0) // 2, _CORNERS[shape], turn)
    if fill is None:
        # Closed twice round, so that the first corner is joined like the others.
        pen.line([*points, points[0], points[1]], fill=line[0], width=line[1], joint="curve")
    else:
        pen.polygon(points, fill=fill)
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return max(0, min(xs)), max(0, min(ys)), max(xs) + 1, max(ys) + 1


WORLD = World("shape-count@1", "Count shapes of one kind, apart or overlapping.", ShapeCountKnobs, draw)
