"""World `visual-search`: a tiny detail on one of many small signs in a large, busy picture.

The detail is drawn so small that a picture shrunk to a few tenths of a megapixel does not show it, while the plate
around it can still be found by its colour; in a crop at full size it is clear. Kinds of questions: a letter, a number
or the colour of a dot on a sign known by its colour (and shape, where others share the colour); on which side of
another a sign stands, both known by colour or by their letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Annotated, Literal

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import Box, free_place, overlaps
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.signs import (
    DOTS,
    LETTERS,
    LOOK_ALIKES,
    PLATES,
    SHAPES,
    Detail,
    Sign,
    plate_side,
    put_sign,
    random_content,
)
from saccade.tasks.worlds.textures import backdrop, grain
from saccade.tasks.worlds.visual_search_programs import colours_program, letters_program, read_program

Kind = Literal["letter", "number", "dot", "side-by-colour", "side-by-letter"]
KINDS: tuple[Kind, ...] = ("letter", "number", "dot", "side-by-colour", "side-by-letter")
_ASPECTS = ((1, 1), (4, 3), (3, 4), (3, 2), (16, 9))
_SIDES = (("left", "right", "to the left or to the right of"), ("above", "below", "above or below"))

_ASK: dict[Detail, tuple[str, ...]] = {
    "letter": (
        "What letter is on the {sign}?",
        "Which letter can be read on the {sign}?",
        "Somewhere in the picture is one {sign}. What letter does it show?",
    ),
    "number": (
        "What number is on the {sign}?",
        "Which number does the {sign} show?",
        "Read the number on the {sign}.",
    ),
    "dot": (
        "What colour is the dot on the {sign}?",
        "The {sign} has a small dot in its middle. What is the dot's colour?",
    ),
}


Area = Annotated[float, Field(ge=0.01, le=16)]
"""Millions of pixels."""


class VisualSearchKnobs(Knobs):
    """Size of the picture and of the detail, and how much else there is."""

    kinds: tuple[Kind, ...] = Field(KINDS, min_length=1)
    """The kinds of questions to draw from."""
    megapixels: tuple[Area, Area] = (2.0, 4.0)
    """Least and greatest area in millions of pixels."""
    detail: int = Field(5, ge=4, le=200)
    """Height of the detail in thousandths of the square root of the area; at least 9 pixels.

    With the default, a letter is about three pixels high in the picture shrunk to 0.3 megapixels.
    """
    plate_percent: int = Field(260, ge=220, le=400)
    """Side of a plate in per cent of its detail's height."""
    dot_percent: int = Field(40, ge=30, le=110)
    """Diameter of a dot in per cent of the detail's height."""
    signs: int = Field(8, ge=2, le=24)
    """Signs in the picture, the asked one included; fewer where the picture is full."""
    conjunction: int = Field(40, ge=0, le=100)
    """Per cent of letter, number and dot questions in which another sign has the asked colour in another shape."""
    clutter: int = Field(60, ge=0, le=400)
    """Muted shapes in the background."""
    grain: int = Field(5, ge=0, le=12)
    """Strength of the noise on every pixel, in levels of 255."""


@dataclass(frozen=True, slots=True)
class _Scene:
    picture: Image.Image
    placed: tuple[tuple[Sign, Box], ...]
    """The asked signs first."""


def draw(rng: Rng, knobs: VisualSearchKnobs) -> WorldSample:
    """One picture and a question of one of `knobs.kinds`."""
    kind = rng.choice(knobs.kinds)
    if kind == "side-by-colour" or kind == "side-by-letter":
        return _side(rng, knobs, by_letter=kind == "side-by-letter")
    return _attribute(rng, knobs, kind)


def _attribute(rng: Rng, knobs: VisualSearchKnobs, detail: Detail) -> WorldSample:
    letters = rng.choice(LOOK_ALIKES)
    target = _random_sign(rng, knobs, detail, tuple(PLATES), letters)
    by_shape = rng.chance(knobs.conjunction)
    others = [colour for colour in PLATES if colour != target.colour]
    signs = [target]
    if by_shape:
        shape = rng.choice([shape for shape in SHAPES if shape != target.shape])
        content = random_content(rng, detail, target.colour, letters)
        signs.append(Sign(target.colour, shape, detail, content, knobs.dot_percent))
    signs += [_random_sign(rng, knobs, detail, tuple(others), letters) for _ in range(knobs.signs - len(signs))]
    scene = _scene(rng, knobs, signs)
    choices = _choices(rng, signs, letters)
    name = target.name if by_shape else f"{target.colour} sign"
    return WorldSample(
        question=rng.choice(_ASK[detail]).format(sign=name),
        media={"image_0": scene.picture},
        choices=choices,
        answer=target.content,
        answer_type=AnswerType.CHOICE,
        program=read_program(target, by_shape, choices),
        evidence=(_evidence(scene.placed[0][1], name),),
        difficulty=_difficulty(knobs),
        tags=(detail, "attribute"),
        notes={"target": name, "plate": target.colour, "shape": target.shape, "signs": _places(scene)},
    )


def _side(rng: Rng, knobs: VisualSearchKnobs, *, by_letter: bool) -> WorldSample:
    colours = rng.shuffled(tuple(PLATES))
    letters = rng.shuffled(LETTERS)
    signs = []
    for number in range(min(knobs.signs, len(letters))):
        colour = colours[number] if number < 2 else rng.choice(colours if by_letter else colours[2:])
        signs.append(Sign(colour, rng.choice(SHAPES), "letter", letters[number]))
    scene = _scene(rng, knobs, signs)
    first, second = (box for _, box in scene.placed[:2])
    # The farther axis, so that nobody has to measure.
    axis = 0 if abs(first[0] - second[0]) >= abs(first[1] - second[1]) else 1
    less, more, phrase = _SIDES[axis]
    names = [f"sign with the letter {s.content}" if by_letter else f"{s.colour} sign" for s in signs[:2]]
    program = letters_program if by_letter else colours_program
    return WorldSample(
        question=f"Is the {names[0]} {phrase} the {names[1]}?",
        media={"image_0": scene.picture},
        choices=(less, more),
        answer=less if first[axis] < second[axis] else more,
        answer_type=AnswerType.CHOICE,
        program=program(signs[0], signs[1], axis, (less, more)),
        evidence=(_evidence(first, names[0]), _evidence(second, names[1])),
        difficulty=_difficulty(knobs),
        tags=("side-by-letter" if by_letter else "side-by-colour", "relation"),
        notes={"target": names[0], "other": names[1]},
    )


def _scene(rng: Rng, knobs: VisualSearchKnobs, signs: list[Sign]) -> _Scene:
    size = _canvas(rng, knobs)
    picture = backdrop(rng, size, knobs.clutter)
    pen = ImageDraw.Draw(picture)
    height = max(9, isqrt(size[0] * size[1]) * knobs.detail // 1000)
    placed: list[tuple[Sign, Box]] = []
    taken: list[Box] = []
    for sign in signs:
        side = plate_side(sign, height, knobs.plate_percent)
        area = (6, 6, size[0] - 6, size[1] - 6)
        # The post below the plate is as long as the plate.
        place = free_place(rng, (side, 2 * side), area, taken, gap=12)
        if place is None:
            continue
        taken.append(place)
        placed.append((sign, (place[0], place[1], place[2], place[1] + side)))
    for _ in range(knobs.signs * 6):
        _speck(rng, pen, size, taken)
    for sign, box in placed:
        put_sign(rng, pen, sign, box, height)
    return _Scene(grain(rng, picture, knobs.grain), tuple(placed))


def _canvas(rng: Rng, knobs: VisualSearchKnobs) -> tuple[int, int]:
    low, high = (int(megapixels * 1_000_000) for megapixels in knobs.megapixels)
    wide, high_ratio = rng.choice(_ASPECTS)
    width = isqrt(rng.integer(low, max(low, high)) * wide // high_ratio)
    return width, width * high_ratio // wide


def _speck(rng: Rng, pen: ImageDraw.ImageDraw, size: tuple[int, int], taken: list[Box]) -> None:
    """A spot of a sign's colour, clear of all signs: it would look like a piece of one."""
    x, y, side = rng.integer(0, size[0]), rng.integer(0, size[1]), rng.integer(2, 7)
    colour = PLATES[rng.choice(tuple(PLATES))]
    if not any(overlaps((x, y, x + side, y + side), box, 8) for box in taken):
        pen.rectangle((x, y, x + side, y + side), fill=colour)


def _random_sign(rng: Rng, knobs: VisualSearchKnobs, detail: Detail, colours: tuple[str, ...], letters: str) -> Sign:
    colour = rng.choice(colours)
    return Sign(colour, rng.choice(SHAPES), detail, random_content(rng, detail, colour, letters), knobs.dot_percent)


def _choices(rng: Rng, signs: list[Sign], letters: str) -> tuple[str, ...]:
    """Four contents: the asked one, then those of other signs, then any."""
    target = signs[0]
    found = [target.content]
    for content in [sign.content for sign in signs[1:]] + [
        random_content(rng, target.detail, target.colour, letters) for _ in range(60)
    ]:
        allowed = target.detail != "dot" or (content in DOTS and content != target.colour)
        if allowed and content not in found and len(found) < 4:
            found.append(content)
    return tuple(rng.shuffled(found))


def _places(scene: _Scene) -> str:
    """A line for each sign: its colour and its plate as `xyxy`."""
    return "\n".join(" ".join((sign.colour, *map(str, box))) for sign, box in scene.placed)


def _evidence(box: Box, label: str) -> EvidenceBox:
    return EvidenceBox(image="image_0", xyxy=box, label=label)


def _difficulty(knobs: VisualSearchKnobs) -> float:
    """Small details among many signs are hard."""
    return round(min(1.0, 2 / knobs.detail + knobs.signs / 48 + knobs.conjunction / 400), 3)


WORLD = World(
    "visual-search@1", "Read or place a tiny detail on a sign in a large, busy picture.", VisualSearchKnobs, draw
)
