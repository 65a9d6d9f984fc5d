"""World `touching-circles`: do two circles touch, do they overlap?

Two discs or rings of different colours, in any direction from each other. The gap between their rims is at least
three pixels, or they overlap by as much: nobody has to judge a hair's breadth. Kind `contact` asks whether there is
any, kind `overlap` whether they share an area; circles that only touch (none does here) would have the first alone.
"""

from __future__ import annotations

from math import isqrt
from typing import Literal

from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import COLOURS, blank, turned
from saccade.tasks.worlds.rng import Rng

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
PROGRAM = """\
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


def draw(rng: Rng, knobs: TouchingCirclesKnobs) -> WorldSample:
    """One picture of two circles."""
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
        program=PROGRAM + _PRINT[kind],
        evidence=(EvidenceBox(image="image_0", xyxy=box, label="circles"),),
        difficulty=round(1 - min(1.0, gap / min(first, second)), 3),
        tags=(kind, "rings" if width else "discs"),
    )


WORLD = World("touching-circles@1", "Do two circles touch or overlap?", TouchingCirclesKnobs, draw)
