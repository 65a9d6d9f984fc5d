"""World `solid-scene`: cubes, balls and cylinders on a floor, lit from one side; count, remainder, comparison, colour.

The questions are of the families of CLEVR (Johnson et al., 2017) and CLEVR-Math (Lindström & Abraham, 2022). Solids
stand apart and hide nothing; each is drawn in three to five shades of one colour, with whole-number corners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PIL import ImageDraw
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import solid_reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import COLOURS, Box, Colour, blank, free_place
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng

SolidKind = Literal["count", "left", "more", "colour"]
KINDS: tuple[SolidKind, ...] = ("count", "left", "more", "colour")
SHAPES = ("cube", "ball", "cylinder")
INKS = ("red", "yellow", "green", "blue", "purple")
"""Colours whose hues lie far apart in all their shades."""


class SolidSceneKnobs(Knobs):
    """How many solids, and what is asked."""

    fewest: int = Field(3, ge=2, le=12)
    most: int = Field(8, ge=2, le=12)
    kinds: tuple[SolidKind, ...] = Field(KINDS, min_length=1)


@dataclass(frozen=True, slots=True)
class Solid:
    """One thing of the scene."""

    shape: str
    colour: str
    box: Box


def draw(rng: Rng, knobs: SolidSceneKnobs) -> WorldSample:
    """One scene and a question about it."""
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
    question, answer, lines, used = _ask(rng, kind, solids, alone)
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type={"more": AnswerType.YES_NO, "colour": AnswerType.CHOICE}.get(kind, AnswerType.NUMBER),
        choices=INKS if answer in INKS else (),
        program=compose(solid_reading, last=lines),
        evidence=tuple(
            EvidenceBox(image="image_0", xyxy=solid.box, label=f"{solid.colour} {solid.shape}") for solid in used
        ),
        difficulty=round(len(solids) / 12, 3),
        tags=(kind, f"{len(solids)} solids"),
    )


def _lit(colour: Colour, percent: int) -> Colour:
    """The colour with all channels times a percentage; its hue stays."""
    red, green, blue = (min(255, channel * percent // 100) for channel in colour)
    return red, green, blue


def _cube(pen: ImageDraw.ImageDraw, at: tuple[int, int], side: int, colour: Colour) -> Box:
    """Three faces: the top, and two that meet in front."""
    (x, y), half, low = at, side // 2, side // 4
    middle = (x + half, y + 2 * low)
    bottom = y + low + half + low
    pen.polygon([(x, y + low), (x + half, y), (x + side, y + low), middle], fill=_lit(colour, 100))
    pen.polygon([(x, y + low), middle, (middle[0], bottom + low), (x, bottom)], fill=_lit(colour, 78))
    pen.polygon([middle, (x + side, y + low), (x + side, bottom), (middle[0], bottom + low)], fill=_lit(colour, 56))
    return x, y, x + side + 1, bottom + low + 1


def _ball(pen: ImageDraw.ImageDraw, at: tuple[int, int], side: int, colour: Colour) -> Box:
    """Discs in each other, the lighter ones up and to the left."""
    x, y = at
    for step, percent in enumerate((56, 70, 84, 100)):
        by = side * step // 14
        pen.ellipse(
            (x + by // 2, y + by // 2, x + side - by * 3 // 2, y + side - by * 3 // 2), fill=_lit(colour, percent)
        )
    return x, y, x + side + 1, y + side + 1


def _cylinder(pen: ImageDraw.ImageDraw, at: tuple[int, int], side: int, colour: Colour) -> Box:
    """Upright bands between two ellipses."""
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


def _ask(rng: Rng, kind: SolidKind, solids: list[Solid], alone: str) -> tuple[str, str, str, list[Solid]]:
    """Question, answer, end of the program, and the solids that show the answer."""
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


WORLD = World("solid-scene@1", "Count and compare lit cubes, balls and cylinders on a floor.", SolidSceneKnobs, draw)
