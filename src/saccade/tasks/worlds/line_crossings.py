"""World `line-crossings`: how often do two bent lines cross?

Both run from left to right with bends at the same places, where they keep a clear distance: a crossing is never at a
bend, and no bend only touches the other line.
"""

from __future__ import annotations

from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import COLOURS, blank
from saccade.tasks.worlds.rng import Rng

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
    """One picture of two lines."""
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
    """The box around the crossing of two segments over the same stretch of x, a tenth of the picture wide."""
    start, end = first[0] - second[0], first[1] - second[1]
    x = xs[0] + (xs[1] - xs[0]) * start // (start - end)
    y = first[0] + (first[1] - first[0]) * start // (start - end)
    reach = side // 20
    box = (max(0, x - reach), max(0, y - reach), min(side, x + reach), min(side, y + reach))
    return EvidenceBox(image="image_0", xyxy=box, label="crossing")


WORLD = World("line-crossings@1", "Count the crossings of two bent lines.", LineCrossingsKnobs, draw)
