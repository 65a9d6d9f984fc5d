"""World `spot-difference`: two pictures of the same things, but for some that changed colour, shape, or went away.

Things stand apart from each other and keep their places. The grain of the two pictures differs, so that single pixels
do as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds.canvas import COLOURS, Box, free_place, polygon_points
from saccade.plugins.worlds.signs import backdrop, grain
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

Kind = Literal["count", "where", "colour"]
_INKS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black", "white")
_SHAPES = ("disc", "square", "triangle", "cross")
_PLACES = ("top left", "top right", "bottom left", "bottom right")
_QUESTIONS: dict[Kind, tuple[str, ...]] = {
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
_PROGRAM = """\
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
_END: dict[Kind, str] = {
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

    kinds: tuple[Kind, ...] = Field(("count", "where", "colour"), min_length=1)
    things: int = Field(16, ge=2, le=40)
    """At most; fewer where the picture is full."""
    most: int = Field(5, ge=1, le=10)
    """Most differences, in kind `count`."""
    smallest: int = Field(24, ge=16, le=60)
    """Side of a thing in pixels; the largest is twice that."""


def draw(rng: Rng, knobs: SpotDifferenceKnobs) -> WorldSample:
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
    colours = f"COLOURS = { ({name: COLOURS[name] for name in _INKS}) }\n" if kind == "colour" else ""
    return WorldSample(
        question=rng.choice(_QUESTIONS[kind]),
        media={"image_0": pictures[0], "image_1": pictures[1]},
        choices=_PLACES if kind == "where" else (),
        answer=answers[kind],
        answer_type={"count": AnswerType.NUMBER, "where": AnswerType.CHOICE, "colour": AnswerType.TEXT}[kind],
        program=f"REACH = {_reach(knobs)}\n{colours}" + _PROGRAM + _END[kind],
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
        things.append(_Thing(box, rng.choice(_SHAPES), rng.choice(_INKS)))
    return things or [_Thing((40, 40, 80, 80), "disc", "red")]


def _changed(rng: Rng, thing: _Thing, kind: Kind) -> _Thing:
    change = "colour" if kind == "colour" else rng.choice(("colour", "shape", "gone"))
    if change == "colour":
        return replace(thing, ink=rng.choice([ink for ink in _INKS if ink != thing.ink]))
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


WORLD = World("spot-difference@1", "Find what differs between two pictures.", SpotDifferenceKnobs, draw)
