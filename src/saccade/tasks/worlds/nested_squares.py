"""World `nested-squares`: how many squares stand inside one another?

Every square lies wholly inside the one before it, without touching it; all are drawn with outlines of one colour.
"""

from __future__ import annotations

from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import COLOURS, blank
from saccade.tasks.worlds.rng import Rng

PROGRAM = """\
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

QUESTIONS = (
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


def draw(rng: Rng, knobs: NestedSquaresKnobs) -> WorldSample:
    """One picture of nested squares."""
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
        question=rng.choice(QUESTIONS),
        media={"image_0": picture},
        answer=str(count),
        answer_type=AnswerType.NUMBER,
        program=PROGRAM,
        evidence=(EvidenceBox(image="image_0", xyxy=outer, label="nested squares"),),
        difficulty=count / 8,
        tags=("count",),
    )


WORLD = World("nested-squares@1", "Count squares that stand inside one another.", NestedSquaresKnobs, draw)
