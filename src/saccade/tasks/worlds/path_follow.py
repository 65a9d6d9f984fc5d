"""World `path-follow`: where does a line end that crosses others on its way?

Lines run from letters on the left to numbers on the right, in straight pieces with right-angled bends. Where two cross,
both go straight on; they never share a piece or a bend.
"""

from __future__ import annotations

import itertools

from PIL import ImageDraw
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import COLOURS, Box, Colour, blank, font, put_text_centred
from saccade.tasks.worlds.rng import Rng

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


def draw(rng: Rng, knobs: PathFollowKnobs) -> WorldSample:
    """One picture of lines from letters to numbers."""
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
    """For every line, its (y, column) at each stage: even and odd stages use rows of their own, so none is shared."""
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
    """A label whose left edge has its middle at `at`."""
    x, y = at[0], at[1] - _LABEL // 2
    pen.rectangle((x, y, x + _LABEL - 1, y + _LABEL - 1), fill=(0, 0, 0))
    put_text_centred(pen, (x + _LABEL // 2, y + _LABEL // 2), text, font(18, "sans-bold"), (255, 255, 255))
    return x, y, x + _LABEL, y + _LABEL


WORLD = World("path-follow@1", "Follow a line across others to its end.", PathFollowKnobs, draw)
