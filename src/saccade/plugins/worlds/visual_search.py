"""World `visual-search`: a tiny detail on one of many small signs in a large, busy picture.

The detail is drawn so small that a picture shrunk to a few tenths of a megapixel does not show it, while the plate
around it can still be found by its colour; in a crop at full size it is clear. Kinds of questions: a letter, a number
or the colour of a dot on a sign known by its colour (and shape, where others share the colour); on which side of
another a sign stands, both known by colour or by their letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Annotated, Literal

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds.canvas import Box, free_place, overlaps
from saccade.plugins.worlds.signs import (
    DOTS,
    LETTERS,
    LOOK_ALIKES,
    PLATES,
    SHAPES,
    Detail,
    Sign,
    backdrop,
    grain,
    plate_side,
    put_sign,
    random_content,
)
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

# Programs that find the signs of world `visual-search` by colour and shape and read them against rendered glyphs.
#
# They work by what the question says: a hue, a shape, the choices. None holds a place, a size or an answer.

FIND = """\
import cv2
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

HUES = {"red": 0, "orange": 14, "yellow": 25, "green": 67, "blue": 111, "purple": 139, "pink": 164}
pixels = np.array(image_0.convert("RGB"))
hue = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)[:, :, 0]
chroma = pixels.max(axis=2) - pixels.min(axis=2)


def signs(colour):
    distance = np.abs(hue.astype(np.int16) - HUES[colour])
    mask = (np.minimum(distance, 180 - distance) <= 5) & (chroma > 80)
    mask = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    found = []
    for contour in cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]:
        hull = cv2.convexHull(contour)
        x, y, w, h = cv2.boundingRect(hull)
        if min(w, h) < 14:
            continue
        full = cv2.contourArea(hull) / ((w - 1) * (h - 1))
        found.append(("square" if full > 0.9 else "round" if full > 0.68 else "diamond", (x, y, w, h), hull, mask))
    return sorted(found, key=lambda sign: -sign[1][2] * sign[1][3])


def ink(sign):
    # How far every pixel inside the plate is from the plate's own colour.
    x, y, w, h = sign[1]
    inside = np.zeros((h, w), np.uint8)
    cv2.fillConvexPoly(inside, sign[2] - (x, y), 1)
    inside = cv2.erode(inside, np.ones((5, 5), np.uint8), borderValue=0)
    crop = pixels[y:y + h, x:x + w].astype(np.float32)
    plate = np.median(crop[sign[3][y:y + h, x:x + w] > 0], axis=0)
    return crop, np.abs(crop - plate).max(axis=2) * inside
"""

READ = """\


def score(sign, text):
    crop, far = ink(sign)
    far = np.pad(np.clip(far / max(far.max(), 1), 0, 1), 4)
    # Close round the ink: a window of flat plate has no correlation to speak of.
    ys, xs = np.nonzero(far > 0.5)
    far = far[max(0, ys.min() - 4):ys.max() + 5, max(0, xs.min() - 4):xs.max() + 5]
    guess = (ys.max() - ys.min() + 1) / 0.729
    best = -1.0
    for size in range(max(8, int(guess) - 2), int(guess) + 4):
        face = ImageFont.truetype(FONT, size)
        left, top, right, bottom = face.getbbox(text)
        glyph = Image.new("L", (int(right - left) + 4, int(bottom - top) + 4))
        ImageDraw.Draw(glyph).text((2 - left, 2 - top), text, font=face, fill=255)
        template = np.array(glyph, np.float32) / 255
        if template.shape[0] <= far.shape[0] and template.shape[1] <= far.shape[1]:
            best = max(best, float(cv2.matchTemplate(far, template, cv2.TM_CCOEFF_NORMED).max()))
    return best


FONT = matplotlib.get_data_path() + "/fonts/ttf/DejaVuSans-Bold.ttf"
"""

DOT = """\

COLOURS = {
    "red": (214, 40, 40), "yellow": (248, 214, 36), "green": (30, 150, 60), "blue": (36, 84, 205),
    "black": (16, 16, 16), "white": (248, 248, 248),
}
"""


def read_program(sign: Sign, by_shape: bool, choices: Sequence[str]) -> str:
    """Return a program that finds which of the choices is on the sign, or is the colour of its dot."""
    pick = f'[s for s in signs("{sign.colour}") if s[0] == "{sign.shape}"]' if by_shape else f'signs("{sign.colour}")'
    take = f"sign = {pick}[0]\nprint(sign[0], sign[1])\n"
    if sign.detail == "dot":
        end = (
            "crop, far = ink(sign)\ncolour = np.median(crop[far > 0.7 * far.max()], axis=0)\nprint(colour)\n"
            f"print(min({list(choices)}, key=lambda name: np.abs(colour - COLOURS[name]).sum()))\n"
        )
        return FIND + DOT + take + end
    return FIND + READ + take + f"print(max({list(choices)}, key=lambda text: score(sign, text)))\n"


def colours_program(first: Sign, second: Sign, axis: int, words: tuple[str, str]) -> str:
    """Tell on which side of the second sign the first is, both known by their colours."""
    return FIND + _compare(f'signs("{first.colour}")[0]', f'signs("{second.colour}")[0]', axis, words)


def letters_program(first: Sign, second: Sign, axis: int, words: tuple[str, str]) -> str:
    """Tell on which side of the second sign the first is, both known by their letters."""
    everything = "every = [sign for colour in HUES for sign in signs(colour)]\n"
    pick = 'max(every, key=lambda sign: score(sign, "{}"))'
    return FIND + READ + everything + _compare(pick.format(first.content), pick.format(second.content), axis, words)


def _compare(first: str, second: str, axis: int, words: tuple[str, str]) -> str:
    return (
        f"first = {first}\nsecond = {second}\nprint(first[1], second[1])\n"
        f'print("{words[0]}" if first[1][{axis}] < second[1][{axis}] else "{words[1]}")\n'
    )


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
    """Return one picture and a question of one of `knobs.kinds`."""
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
    # A line for each sign: its colour and its plate as `xyxy`.
    places = "\n".join(" ".join((sign.colour, *map(str, box))) for sign, box in scene.placed)
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
        notes={"target": name, "plate": target.colour, "shape": target.shape, "signs": places},
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
    """Draw a spot of a sign's colour, clear of all signs: it would look like a piece of one."""
    x, y, side = rng.integer(0, size[0]), rng.integer(0, size[1]), rng.integer(2, 7)
    colour = PLATES[rng.choice(tuple(PLATES))]
    if not any(overlaps((x, y, x + side, y + side), box, 8) for box in taken):
        pen.rectangle((x, y, x + side, y + side), fill=colour)


def _random_sign(rng: Rng, knobs: VisualSearchKnobs, detail: Detail, colours: tuple[str, ...], letters: str) -> Sign:
    colour = rng.choice(colours)
    return Sign(colour, rng.choice(SHAPES), detail, random_content(rng, detail, colour, letters), knobs.dot_percent)


def _choices(rng: Rng, signs: list[Sign], letters: str) -> tuple[str, ...]:
    """Return four contents: the asked one, then those of other signs, then any."""
    target = signs[0]
    found = [target.content]
    for content in [sign.content for sign in signs[1:]] + [
        random_content(rng, target.detail, target.colour, letters) for _ in range(60)
    ]:
        allowed = target.detail != "dot" or (content in DOTS and content != target.colour)
        if allowed and content not in found and len(found) < 4:
            found.append(content)
    return tuple(rng.shuffled(found))


def _evidence(box: Box, label: str) -> EvidenceBox:
    return EvidenceBox(image="image_0", xyxy=box, label=label)


def _difficulty(knobs: VisualSearchKnobs) -> float:
    """Rate the difficulty: small details among many signs are hard."""
    return round(min(1.0, 2 / knobs.detail + knobs.signs / 48 + knobs.conjunction / 400), 3)


WORLD = World(
    "visual-search@1", "Read or place a tiny detail on a sign in a large, busy picture.", VisualSearchKnobs, draw
)

# World `sign-close-up`: a single sign of world `visual-search`, cut out and enlarged, as a good crop shows it.
#
# For learning to read signs before learning to find them. The same signs, questions and choices; the middle of the sign
# lies near the middle of the picture.

SignCloseUpKind = Literal["letter", "number", "dot"]
WindowPixels = Annotated[int, Field(ge=12, le=120)]


class SignCloseUpKnobs(Knobs):
    """Question, and how the sign is cut out."""

    kinds: tuple[SignCloseUpKind, ...] = Field(("letter", "number", "dot"), min_length=1)
    window: tuple[WindowPixels, WindowPixels] = (56, 56)
    """Least and greatest side in pixels of what is cut out; a letter is 9 pixels high."""
    sharpness: int = Field(1, ge=1, le=6)
    """How many times larger all of that is drawn before it is cut out."""
    side: int = Field(84, ge=28, le=448)
    """Side in pixels of the picture."""
    off_centre: int = Field(6, ge=0, le=20)
    """Pixels by which the sign may lie off the middle of what is cut out, in each direction."""
    plate_percent: int = Field(260, ge=220, le=400)
    """As in world `visual-search`."""
    dot_percent: int = Field(40, ge=30, le=110)
    """As in world `visual-search`."""


def draw_sign_close_up(rng: Rng, knobs: SignCloseUpKnobs) -> WorldSample:
    """Return one sign, cut out of a small scene of signs."""
    sample = draw(rng, _scene_sign_close_up(knobs))
    (evidence,) = sample.evidence
    box = evidence.xyxy
    off = [knobs.sharpness * rng.integer(-knobs.off_centre, knobs.off_centre) for _ in range(2)]
    window = knobs.sharpness * rng.integer(*knobs.window)
    left, top = (int(box[axis] + box[axis + 2] - window) // 2 + off[axis] for axis in (0, 1))
    picture = sample.media["image_0"]
    assert isinstance(picture, Image.Image)
    cut = picture.crop((left, top, left + window, top + window))
    factor = knobs.side / window
    shown = [round((value - start) * factor) for value, start in zip(box, (left, top, left, top), strict=True)]
    inside = [min(max(value, 0), knobs.side) for value in shown]
    where = EvidenceBox(image="image_0", xyxy=(inside[0], inside[1], inside[2], inside[3]), label=evidence.label)
    return replace(
        sample,
        media={"image_0": cut.resize((knobs.side, knobs.side), Image.Resampling.BICUBIC)},
        evidence=(where,),
        difficulty=0.2,
        tags=(sample.tags[0], "close-up"),
    )


def _scene_sign_close_up(knobs: SignCloseUpKnobs) -> VisualSearchKnobs:
    larger = knobs.sharpness**2
    return VisualSearchKnobs(
        kinds=knobs.kinds,
        megapixels=(0.02 * larger, 0.03 * larger),
        detail=60,
        plate_percent=knobs.plate_percent,
        dot_percent=knobs.dot_percent,
        signs=3,
        conjunction=0,
        clutter=4,
        grain=0,
    )


SIGN_CLOSE_UP_WORLD = World(
    "sign-close-up@1", "Read a sign that fills the picture.", SignCloseUpKnobs, draw_sign_close_up
)
