"""World `shape-count`: how many shapes of one kind are there, apart or overlapping?

Kind `scatter` draws filled or outlined shapes that do not touch, of several kinds and colours, and asks for one kind.
Kind `overlap` draws outlines of one size that run through each other; every outline stays whole and visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds import reading
from saccade.plugins.worlds.canvas import (
    ANIMALS,
    COLOURS,
    DAYS,
    FOODS,
    PEOPLE,
    Box,
    Colour,
    Lettering,
    blank,
    font,
    free_place,
    polygon_points,
    put_label,
    put_text,
)
from saccade.plugins.worlds.program import compose
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

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
    """Return one picture of shapes, and the question how many there are of one kind."""
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

# World `pictograph`: rows of small pictures, each standing for so many; value, difference, most, all.
#
# The questions are of the families of InfographicVQA (Mathew et al., 2022): pictures that are counted and multiplied.

PictographKind = Literal["value", "difference", "most", "all"]
KINDS: tuple[PictographKind, ...] = ("value", "difference", "most", "all")
_TOPICS = (("Trees planted", PEOPLE), ("Books read", PEOPLE), ("Baskets sold", FOODS), ("Seen in the wild", ANIMALS))
_WEEK = ("Visitors in a week", DAYS)
_PICTOGRAPH_INK: Colour = (28, 30, 40)
_PAPERS: tuple[Colour, ...] = ((255, 255, 255), (250, 246, 236), (238, 246, 244))
_SIDE = 22


class PictographKnobs(Knobs):
    """How many rows there are, and what is asked."""

    rows: int = Field(5, ge=2, le=6)
    """Most rows; at least two."""
    icons: int = Field(9, ge=3, le=10)
    """Most pictures of a row."""
    kinds: tuple[PictographKind, ...] = Field(KINDS, min_length=1)


@dataclass(frozen=True, slots=True)
class _Rows:
    counts: dict[str, int]
    worth: int
    """Number that one picture stands for."""


def draw_pictograph(rng: Rng, knobs: PictographKnobs) -> WorldSample:
    """Return one infographic and a question about it."""
    kind = rng.choice(knobs.kinds)
    title, labels = rng.choice((*_TOPICS, _WEEK))
    # No two rows are equally long.
    names = rng.sample(labels, rng.integer(2, min(knobs.rows, knobs.icons)))
    counts = rng.sample(range(1, knobs.icons + 1), len(names))
    drawn = _Rows(dict(zip(names, counts, strict=True)), rng.choice((2, 5, 10, 20, 25, 50, 100)))
    pitch = rng.integer(46, 58)
    paper, colour = rng.choice(_PAPERS), COLOURS[rng.choice(("red", "orange", "green", "blue", "purple"))]
    size = (180 + 34 * knobs.icons + 30, 140 + pitch * len(names))
    picture, pen = blank(size, paper)
    put_text(pen, (28, 24), title, font(26, "sans-bold"), colour)
    put_icon = _ICONS[rng.choice(sorted(_ICONS))]
    put_icon(pen, (28, 68), colour)
    put_label(pen, (60, 79), f"= {drawn.worth}", Lettering(font(20, "sans-bold"), _PICTOGRAPH_INK), "left")
    places = {}
    for number, (name, count) in enumerate(drawn.counts.items()):
        y = 116 + number * pitch
        put_label(pen, (28, y + _SIDE // 2), name, Lettering(font(18), _PICTOGRAPH_INK), "left")
        for place in range(count):
            put_icon(pen, (170 + 34 * place, y), colour)
        places[name] = (26, y - 4, 170 + 34 * (count - 1) + _SIDE + 3, y + _SIDE + 5)
    question, answer, lines, used = _ask(rng, kind, drawn)
    start = f'rgb = np.asarray(image_0.convert("RGB"))\nrows = icon_rows(rgb, {names!r})\nprint(rows)\n'
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type=AnswerType.CHOICE if kind == "most" else AnswerType.NUMBER,
        choices=tuple(names) if kind == "most" else (),
        program=compose(reading, last=start + lines),
        evidence=tuple(EvidenceBox(image="image_0", xyxy=places[name], label=name) for name in used),
        difficulty=round(sum(counts) / 50, 3),
        tags=(kind, f"{len(names)} rows"),
    )


def _disc(pen: ImageDraw.ImageDraw, at: tuple[int, int], colour: Colour) -> None:
    pen.ellipse((at[0], at[1], at[0] + _SIDE, at[1] + _SIDE), fill=colour)


def _star(pen: ImageDraw.ImageDraw, at: tuple[int, int], colour: Colour) -> None:
    middle = at[0] + _SIDE // 2, at[1] + _SIDE // 2
    outer, inner = polygon_points(middle, _SIDE // 2 + 1, 5), polygon_points(middle, _SIDE // 4, 5, 36)
    pen.polygon([point for pair in zip(outer, inner, strict=True) for point in pair], fill=colour)


def _figure(pen: ImageDraw.ImageDraw, at: tuple[int, int], colour: Colour) -> None:
    """Draw a person: a head on a body."""
    x, y = at
    pen.polygon([(x + 2, y + _SIDE), (x + 6, y + 9), (x + _SIDE - 6, y + 9), (x + _SIDE - 2, y + _SIDE)], fill=colour)
    pen.ellipse((x + 6, y, x + _SIDE - 6, y + 10), fill=colour)


_ICONS: dict[str, Callable[[ImageDraw.ImageDraw, tuple[int, int], Colour], None]] = {
    "disc": _disc,
    "figure": _figure,
    "star": _star,
}


def _ask(rng: Rng, kind: PictographKind, drawn: _Rows) -> tuple[str, str, str, tuple[str, ...]]:
    """Return question, answer, end of the program, and the rows that show the answer."""
    names, worth = tuple(drawn.counts), "worth = worth_of(rgb)\nprint(worth)\n"
    if kind == "most":
        top = max(names, key=lambda name: drawn.counts[name])
        return "Which row stands for the most?", top, "print(max(rows, key=rows.get))", (top,)
    if kind == "all":
        total = drawn.worth * sum(drawn.counts.values())
        return (
            "How many do all rows stand for together?",
            str(total),
            worth + "print(worth * sum(rows.values()))",
            names,
        )
    if kind == "value":
        name = rng.choice(names)
        lines = worth + f"print(worth * rows[{name!r}])"
        return f"How many does the row {name} stand for?", str(drawn.worth * drawn.counts[name]), lines, (name,)
    first, second = sorted(rng.sample(names, 2), key=lambda name: -drawn.counts[name])
    answer = str(drawn.worth * (drawn.counts[first] - drawn.counts[second]))
    lines = worth + f"print(worth * (rows[{first!r}] - rows[{second!r}]))"
    return f"How many more does {first} stand for than {second}?", answer, lines, (first, second)


PICTOGRAPH_WORLD = World(
    "pictograph@1", "Count and multiply the small pictures of an infographic.", PictographKnobs, draw_pictograph
)

# World `solid-scene`: cubes, balls and cylinders on a floor, lit from one side; count, remainder, comparison, colour.
#
# The questions are of the families of CLEVR (Johnson et al., 2017) and CLEVR-Math (Lindström & Abraham, 2022). Solids
# stand apart and hide nothing; each is drawn in three to five shades of one colour, with whole-number corners.

SolidKind = Literal["count", "left", "more", "colour"]
SOLID_SCENE_KINDS: tuple[SolidKind, ...] = ("count", "left", "more", "colour")
SHAPES = ("cube", "ball", "cylinder")
INKS = ("red", "yellow", "green", "blue", "purple")
"""Colours whose hues lie far apart in all their shades."""


class SolidSceneKnobs(Knobs):
    """How many solids, and what is asked."""

    fewest: int = Field(3, ge=2, le=12)
    most: int = Field(8, ge=2, le=12)
    kinds: tuple[SolidKind, ...] = Field(SOLID_SCENE_KINDS, min_length=1)


@dataclass(frozen=True, slots=True)
class Solid:
    """One thing of the scene."""

    shape: str
    colour: str
    box: Box


def draw_solid_scene(rng: Rng, knobs: SolidSceneKnobs) -> WorldSample:
    """Return one scene and a question about it."""
    kind = rng.choice(knobs.kinds)
    width, height = rng.choice(((480, 360), (640, 480), (720, 480)))
    picture, pen = blank((width, height), (208, 210, 212))
    for row in range(height // 3):
        level = 226 - row * 18 // (height // 3)
        pen.line((0, row, width, row), fill=(level, level, level))
    solids: list[Solid] = []
    places: list[Box] = []
    alone = rng.choice(SHAPES)
    for number in range(rng.integer(knobs.fewest, max(knobs.fewest, knobs.most))):
        # The colour that is asked for is that of the only solid of a shape.
        shapes = [shape for shape in SHAPES if shape != alone] if kind == "colour" else SHAPES
        shape, side = (
            alone if kind == "colour" and number == 0 else rng.choice(shapes),
            2 * rng.integer(height // 20, height // 11),
        )
        room = (side + 8, side * 5 // 4 + 12)
        place = free_place(rng, room, (10, height // 6, width - 10, height - 10), places, 10)
        if place is None:
            continue
        places.append(place)
        colour = rng.choice(INKS)
        solids.append(Solid(shape, colour, _PUT[shape](pen, (place[0] + 4, place[1] + 4), side, COLOURS[colour])))
    question, answer, lines, used = _ask_solid_scene(rng, kind, solids, alone)
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type={"more": AnswerType.YES_NO, "colour": AnswerType.CHOICE}.get(kind, AnswerType.NUMBER),
        choices=INKS if answer in INKS else (),
        program=compose(reading, last=lines),
        evidence=tuple(
            EvidenceBox(image="image_0", xyxy=solid.box, label=f"{solid.colour} {solid.shape}") for solid in used
        ),
        difficulty=round(len(solids) / 12, 3),
        tags=(kind, f"{len(solids)} solids"),
    )


def _lit(colour: Colour, percent: int) -> Colour:
    """Return the colour with all channels times a percentage; its hue stays."""
    red, green, blue = (min(255, channel * percent // 100) for channel in colour)
    return red, green, blue


def _cube(pen: ImageDraw.ImageDraw, at: tuple[int, int], side: int, colour: Colour) -> Box:
    """Return three faces: the top, and two that meet in front."""
    (x, y), half, low = at, side // 2, side // 4
    middle = (x + half, y + 2 * low)
    bottom = y + low + half + low
    pen.polygon([(x, y + low), (x + half, y), (x + side, y + low), middle], fill=_lit(colour, 100))
    pen.polygon([(x, y + low), middle, (middle[0], bottom + low), (x, bottom)], fill=_lit(colour, 78))
    pen.polygon([middle, (x + side, y + low), (x + side, bottom), (middle[0], bottom + low)], fill=_lit(colour, 56))
    return x, y, x + side + 1, bottom + low + 1


def _ball(pen: ImageDraw.ImageDraw, at: tuple[int, int], side: int, colour: Colour) -> Box:
    """Return discs in each other, the lighter ones up and to the left."""
    x, y = at
    for step, percent in enumerate((56, 70, 84, 100)):
        by = side * step // 14
        pen.ellipse(
            (x + by // 2, y + by // 2, x + side - by * 3 // 2, y + side - by * 3 // 2), fill=_lit(colour, percent)
        )
    return x, y, x + side + 1, y + side + 1


def _cylinder(pen: ImageDraw.ImageDraw, at: tuple[int, int], side: int, colour: Colour) -> Box:
    """Return upright bands between two ellipses."""
    (x, y), cap = at, side // 4
    high = side * 5 // 4 - cap
    for percent, left, right in ((78, 0, 100), (56, 62, 100)):
        box = (x + side * left // 100, y + high - cap // 2, x + side * right // 100, y + high + cap)
        if left:
            pen.rectangle((box[0], y + cap // 2, box[2], y + high + cap // 8), fill=_lit(colour, percent))
        else:
            pen.ellipse(
                (x, y + high - cap // 2 - cap // 4, x + side, y + high + cap * 3 // 4), fill=_lit(colour, percent)
            )
            pen.rectangle((x, y + cap // 2, x + side, y + high), fill=_lit(colour, percent))
    pen.ellipse((x, y, x + side, y + cap), fill=_lit(colour, 100))
    return x, y, x + side + 1, y + high + cap * 3 // 4 + 1


_PUT = {"cube": _cube, "ball": _ball, "cylinder": _cylinder}


def _ask_solid_scene(rng: Rng, kind: SolidKind, solids: list[Solid], alone: str) -> tuple[str, str, str, list[Solid]]:
    """Return question, answer, end of the program, and the solids that show the answer."""
    start = 'solids = solids_in(np.asarray(image_0.convert("RGB")))\nprint(solids)\n'
    if kind == "colour":
        lines = start + f"print(next(colour for colour, shape in solids if shape == {alone!r}))"
        return f"What colour is the {alone}?", solids[0].colour, lines, solids[:1]
    if kind == "more":
        first, second = rng.sample(SHAPES, 2)
        counts = [sum(item.shape == shape for item in solids) for shape in (first, second)]
        lines = start + (
            f"counts = [sum(shape == name for _, shape in solids) for name in {[first, second]!r}]\nprint(counts)\n"
            'print("yes" if counts[0] > counts[1] else "no")'
        )
        used = [item for item in solids if item.shape in (first, second)]
        answer = "yes" if counts[0] > counts[1] else "no"
        return f"Are there more {first}s than {second}s?", answer, lines, used or solids
    colour = rng.choice(sorted({item.colour for item in solids}))
    if kind == "left":
        used = [item for item in solids if item.colour != colour]
        lines = start + f"print(sum(colour != {colour!r} for colour, _ in solids))"
        return f"All {colour} things are taken away. How many things are left?", str(len(used)), lines, used or solids
    used = [item for item in solids if item.colour == colour]
    lines = start + f"print(sum(colour == {colour!r} for colour, _ in solids))"
    return f"How many {colour} things are there?", str(len(used)), lines, used


SOLID_SCENE_WORLD = World(
    "solid-scene@1", "Count and compare lit cubes, balls and cylinders on a floor.", SolidSceneKnobs, draw_solid_scene
)
