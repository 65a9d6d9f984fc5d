"""World `maze`: which dot can be reached through a maze, and how long is the way?

Between two cells there is at most one way, so its length is never a matter of choice.
"""

from __future__ import annotations

import itertools
from typing import Literal

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds.canvas import COLOURS, Box, Colour, blank, font, put_text_centred
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

# Programs that walk through a drawn maze: by flooding what is no wall, and from cell to cell.

_DOTS = """\
import cv2
import numpy as np

COLOURS = {
    "green": (30, 150, 60), "red": (214, 40, 40), "blue": (36, 84, 205),
    "orange": (245, 130, 20), "purple": (128, 52, 168),
}
pixels = np.array(image_0.convert("RGB")).astype(int)
wall = (pixels.max(axis=2) < 128) & (pixels.max(axis=2) - pixels.min(axis=2) < 30)
dots = {}
for name, colour in COLOURS.items():
    ys, xs = np.nonzero(np.abs(pixels - colour).max(axis=2) < 40)
    if len(xs):
        dots[name] = (int(xs.mean().round()), int(ys.mean().round()))
print(dots)
"""
REACH = (
    _DOTS
    + """\
_, room = cv2.connectedComponents((~wall).astype(np.uint8), connectivity=4)
rooms = {name: int(room[y, x]) for name, (x, y) in dots.items()}
print(next(name for name, number in rooms.items() if name != "green" and number == rooms["green"]))
"""
)
LENGTH = (
    _DOTS
    + """\
ys, xs = np.nonzero(wall)
left, top, right, bottom = xs.min(), ys.min(), xs.max() + 1, ys.max() + 1


def ruled(share):
    # Positions at which walls stand one above the other (or side by side), as on a ruled sheet.
    on = np.concatenate([[False], share > 0.08, [False]])
    return np.flatnonzero(on[1:] & ~on[:-1])


# Long runs only: the thickness of a wall across is no upright wall.
upright = cv2.erode(wall.astype(np.uint8), np.ones((13, 1), np.uint8))[top:bottom, left:right]
across = cv2.erode(wall.astype(np.uint8), np.ones((1, 13), np.uint8))[top:bottom, left:right]
steps = np.concatenate([np.diff(ruled(upright.mean(axis=0))), np.diff(ruled(across.mean(axis=1)))])
pitch = int(steps.min())
print("cells of", pitch, "pixels")


def cell(name):
    x, y = dots[name]
    return (x - left) // pitch, (y - top) // pitch


def middle(place):
    return left + place[0] * pitch + pitch // 2, top + place[1] * pitch + pitch // 2


end = next(name for name in dots if name != "green")
distance = {cell("green"): 0}
front = [cell("green")]
while front:
    following = []
    for place in front:
        x0, y0 = middle(place)
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            other = (place[0] + dx, place[1] + dy)
            x1, y1 = x0 + dx * pitch, y0 + dy * pitch
            if other in distance or not (left < x1 < right and top < y1 < bottom):
                continue
            if not wall[min(y0, y1):max(y0, y1) + 1, min(x0, x1):max(x0, x1) + 1].any():
                distance[other] = distance[place] + 1
                following.append(other)
    front = following
print(distance[cell(end)])
"""
)
Kind = Literal["reach", "length"]
Cell = tuple[int, int]
"""Column and row."""
Edge = frozenset[Cell]
_TARGETS = ("red", "blue", "orange", "purple")
_QUESTIONS = {
    "reach": (
        "Which dot can be reached from the green dot without crossing a wall?",
        "A mouse on the green dot walks through the maze. To which other dot can it get?",
    ),
    "length": (
        "How many steps from cell to cell is the way from the green dot to the {target} dot?",
        "Walking from cell to cell, how many moves does it take from the green dot to the {target} dot?",
    ),
}


class MazeKnobs(Knobs):
    """Size of the maze."""

    kinds: tuple[Kind, ...] = Field(("reach", "length"), min_length=1)
    fewest: int = Field(6, ge=4, le=40)
    """Cells across or down."""
    most: int = Field(14, ge=4, le=40)
    pixels: int = Field(40, ge=14, le=80)
    """Side of a cell."""


def draw(rng: Rng, knobs: MazeKnobs) -> WorldSample:
    """Return one picture of a maze with dots."""
    most = max(knobs.fewest, knobs.most)
    columns, rows = rng.integer(knobs.fewest, most), rng.integer(knobs.fewest, most)
    kind = rng.choice(knobs.kinds)
    inks = rng.shuffled(_TARGETS)
    while True:
        edges = _tree(rng, columns, rows)
        start, *others = rng.sample([(x, y) for x in range(columns) for y in range(rows)], 1 + len(_TARGETS))
        way = _way(edges, start, others[0])
        opened = edges if kind == "length" else _cut(rng, edges, way, start, others[1:])
        if opened is not None and len(way) > 4:
            break
    shown = others[:1] if kind == "length" else others
    picture, boxes = _picture(
        rng, knobs.pixels, (columns, rows), opened, dict(zip([start, *shown], ["green", *inks], strict=False))
    )
    return WorldSample(
        question=rng.choice(_QUESTIONS[kind]).format(target=inks[0]),
        media={"image_0": picture},
        choices=tuple(sorted(inks)) if kind == "reach" else (),
        answer=inks[0] if kind == "reach" else str(len(way) - 1),
        answer_type=AnswerType.CHOICE if kind == "reach" else AnswerType.NUMBER,
        program=REACH if kind == "reach" else LENGTH,
        evidence=(
            EvidenceBox(image="image_0", xyxy=boxes[start], label="start"),
            EvidenceBox(image="image_0", xyxy=boxes[others[0]], label="end"),
        ),
        difficulty=min(1.0, columns * rows / 900),
        tags=(kind,),
    )


def _near(cell: Cell, columns: int, rows: int) -> list[Cell]:
    x, y = cell
    around = ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1))
    return [(a, b) for a, b in around if 0 <= a < columns and 0 <= b < rows]


def _tree(rng: Rng, columns: int, rows: int) -> frozenset[Edge]:
    """Open passages that join all cells without a ring, by a random walk that turns back at dead ends."""
    walk = [(rng.integer(0, columns - 1), rng.integer(0, rows - 1))]
    seen, opened = set(walk), set()
    while walk:
        fresh = [cell for cell in _near(walk[-1], columns, rows) if cell not in seen]
        if not fresh:
            walk.pop()
            continue
        following = rng.choice(fresh)
        opened.add(frozenset((walk[-1], following)))
        seen.add(following)
        walk.append(following)
    return frozenset(opened)


def _way(edges: frozenset[Edge], start: Cell, end: Cell) -> list[Cell]:
    came: dict[Cell, Cell] = {start: start}
    front = [start]
    while end not in came:
        cell = front.pop()
        for following in _near(cell, 1 << 30, 1 << 30):
            if following not in came and frozenset((cell, following)) in edges:
                came[following] = cell
                front.append(following)
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def _cut(rng: Rng, edges: frozenset[Edge], way: list[Cell], start: Cell, others: list[Cell]) -> frozenset[Edge] | None:
    """Return the passages without one towards each of `others`; None if `way` needs one of these."""
    kept = {frozenset(pair) for pair in itertools.pairwise(way)}
    closed = set()
    for other in others:
        steps = _way(edges, start, other)
        spare = [frozenset(pair) for pair in itertools.pairwise(steps) if frozenset(pair) not in kept]
        if not spare:
            return None
        closed.add(rng.choice(spare))
    return edges - closed


def _picture(
    rng: Rng, pitch: int, size: tuple[int, int], opened: frozenset[Edge], dots: dict[Cell, str]
) -> tuple[Image.Image, dict[Cell, Box]]:
    columns, rows = size
    wall = rng.integer(2, max(2, pitch // 10))
    left, top = rng.integer(10, 40), rng.integer(10, 40)
    total = (columns * pitch + wall + left + rng.integer(10, 40), rows * pitch + wall + top + rng.integer(10, 40))
    picture, pen = blank(total, (255, 255, 255))
    ink = rng.choice(((0, 0, 0), (50, 50, 56)))
    for x in range(columns + 1):
        for y in range(rows + 1):
            px, py = left + x * pitch, top + y * pitch
            if y < rows and frozenset(((x - 1, y), (x, y))) not in opened:
                pen.rectangle((px, py, px + wall - 1, py + pitch + wall - 1), fill=ink)
            if x < columns and frozenset(((x, y - 1), (x, y))) not in opened:
                pen.rectangle((px, py, px + pitch + wall - 1, py + wall - 1), fill=ink)
    boxes = {}
    for (x, y), name in dots.items():
        radius = max(3, pitch // 4)
        px, py = left + x * pitch + (pitch + wall) // 2, top + y * pitch + (pitch + wall) // 2
        boxes[x, y] = (px - radius, py - radius, px + radius + 1, py + radius + 1)
        pen.ellipse((px - radius, py - radius, px + radius, py + radius), fill=COLOURS[name])
    return picture, boxes


WORLD = World("maze@1", "Find which dot a maze leads to, or how long the way is.", MazeKnobs, draw)

# World `path-follow`: where does a line end that crosses others on its way?
#
# Lines run from letters on the left to numbers on the right, in straight pieces with right-angled bends. Where two
# cross, both go straight on; they never share a piece or a bend.

_INKS = ("red", "orange", "green", "blue", "purple", "brown", "pink", "grey")
_ROW = 34
_COLUMN = 18
_LABEL = 28
QUESTIONS = (
    "Follow the line that starts at {start}. At which number does it end?",
    "Which number is connected to the letter {start}?",
    "Start at {start} and follow the line, straight on at crossings. Which number do you reach?",
)
PROGRAM = """\
import cv2
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

FACE = ImageFont.truetype(matplotlib.get_data_path() + "/fonts/ttf/DejaVuSans-Bold.ttf", 18)
grey = np.array(image_0.convert("L")).astype(int)
# Labels are white signs on black squares.
black = (grey < 40).astype(np.uint8)
squares = [cv2.boundingRect(c) for c in cv2.findContours(black, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]]
squares = [box for box in squares if min(box[2], box[3]) > 16]


def score(box, text):
    x, y, w, h = box
    left, top, right, bottom = FACE.getbbox(text)
    glyph = Image.new("L", (int(right - left) + 4, int(bottom - top) + 4))
    ImageDraw.Draw(glyph).text((2 - left, 2 - top), text, font=FACE, fill=255)
    seen = grey[y:y + h, x:x + w].astype(np.float32)
    return float(cv2.matchTemplate(seen, np.array(glyph, np.float32), cv2.TM_CCOEFF_NORMED).max())


middle = grey.shape[1] / 2
start = max((box for box in squares if box[0] < middle), key=lambda box: score(box, START))
line = grey < 225
for x, y, w, h in squares:
    line[y - 1:y + h + 1, x - 1:x + w + 1] = False
ends = [box for box in squares if box[0] > middle]
x, y = start[0] + start[2] + 3, start[1] + start[3] // 2
width = int(line[y - 8:y + 9, x].sum())
x, y = x + width, int(np.flatnonzero(line[y - 8:y + 9, x]).mean()) + y - 8
dx, dy = 1, 0
bends = []
while x + width + 2 < min(box[0] for box in ends):
    ahead = line[y + dy * (width + 1), x + dx * (width + 1)]
    if not ahead:
        # The end of a straight piece: stand on the middle of the bend, then take the side that continues.
        while line[y + dy, x + dx]:
            x, y = x + dx, y + dy
        x, y = x - dx * (width // 2), y - dy * (width // 2)
        reach = width + 2
        sides = [(dy, dx), (-dy, -dx)]
        dx, dy = next(side for side in sides if line[y + side[1] * reach, x + side[0] * reach])
        bends.append((x, y))
        x, y = x + dx * width, y + dy * width
    x, y = x + dx, y + dy
print("bends", bends)
end = min(ends, key=lambda box: abs(box[1] + box[3] / 2 - y))
print(max(CHOICES, key=lambda text: score(end, text)))
"""


class PathFollowKnobs(Knobs):
    """How many lines there are and how often they change places."""

    lines: int = Field(5, ge=2, le=8)
    stages: int = Field(3, ge=1, le=6)
    """How often every line changes its row."""
    one_colour: int = Field(40, ge=0, le=100)
    """Per cent of the pictures in which all lines have one colour."""


def draw_path_follow(rng: Rng, knobs: PathFollowKnobs) -> WorldSample:
    """Return one picture of lines from letters to numbers."""
    count, width = knobs.lines, rng.integer(3, 5)
    inner = knobs.stages * (count + 1) * _COLUMN
    left, top = rng.integer(16, 60), rng.integer(16, 40)
    size = (left + 2 * _LABEL + inner + 2 * _COLUMN + rng.integer(16, 60), top + (2 * count + 1) * _ROW + 16)
    picture, pen = blank(size, (255, 255, 255))
    start_x, end_x = left + _LABEL, left + _LABEL + inner + _COLUMN
    inks = [rng.choice(_INKS)] * count if rng.chance(knobs.one_colour) else rng.sample(_INKS, count)
    letters = rng.shuffled("ABCDEFGH"[:count])
    numbers = rng.shuffled([str(number) for number in range(1, count + 1)])
    paths = [_path(rows, start_x, end_x) for rows in _rows(rng, count, knobs.stages, top)]
    target = rng.integer(0, count - 1)
    for index, points in enumerate(paths):
        _line(pen, points, COLOURS[inks[index]], width)
    # Line `index` starts at the letter of its first row and ends at the number of its last.
    ends: list[tuple[Box, Box]] = []
    for index, points in enumerate(paths):
        first = _label(pen, (points[0][0] - _LABEL, points[0][1]), letters[index])
        last = _label(pen, points[-1], numbers[index])
        ends.append((first, last))
    choices = tuple(sorted(numbers))
    return WorldSample(
        question=rng.choice(QUESTIONS).format(start=letters[target]),
        media={"image_0": picture},
        choices=choices,
        answer=numbers[target],
        answer_type=AnswerType.CHOICE,
        program=f'START = "{letters[target]}"\nCHOICES = {list(choices)}\n' + PROGRAM,
        evidence=tuple(
            EvidenceBox(image="image_0", xyxy=box, label=label)
            for box, label in zip(ends[target], ("start", "end"), strict=True)
        ),
        difficulty=min(1.0, count * knobs.stages / 40),
        tags=("follow", "one colour" if len(set(inks)) == 1 else "colours"),
    )


def _rows(rng: Rng, count: int, stages: int, top: int) -> list[list[tuple[int, int]]]:
    """Give every line its (y, column) at each stage: even and odd stages use rows of their own, so none is shared."""
    lines: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for stage in range(stages + 1):
        rows, columns = rng.shuffled(range(count)), rng.shuffled(range(count))
        for line in range(count):
            y = top + (2 * rows[line] + stage % 2) * _ROW + _ROW // 2
            lines[line].append((y, stage * (count + 1) + columns[line]))
    return lines


def _path(rows: list[tuple[int, int]], start_x: int, end_x: int) -> list[tuple[int, int]]:
    points = [(start_x, rows[0][0])]
    for (y, column), (following, _) in itertools.pairwise(rows):
        x = start_x + (column + 1) * _COLUMN
        points += [(x, y), (x, following)]
    return [*points, (end_x, rows[-1][0])]


def _line(pen: ImageDraw.ImageDraw, points: list[tuple[int, int]], ink: Colour, width: int) -> None:
    half = width // 2
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        box = (min(x0, x1) - half, min(y0, y1) - half, max(x0, x1) - half + width - 1, max(y0, y1) - half + width - 1)
        pen.rectangle(box, fill=ink)


def _label(pen: ImageDraw.ImageDraw, at: tuple[int, int], text: str) -> Box:
    """Return a label whose left edge has its middle at `at`."""
    x, y = at[0], at[1] - _LABEL // 2
    pen.rectangle((x, y, x + _LABEL - 1, y + _LABEL - 1), fill=(0, 0, 0))
    put_text_centred(pen, (x + _LABEL // 2, y + _LABEL // 2), text, font(18, "sans-bold"), (255, 255, 255))
    return x, y, x + _LABEL, y + _LABEL


PATH_FOLLOW_WORLD = World("path-follow@1", "Follow a line across others to its end.", PathFollowKnobs, draw_path_follow)
