"""Small signs: plates of one colour and shape with a tiny detail in the middle; the world `sign-colours`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds.canvas import (
    COLOURS,
    Box,
    Colour,
    ViewBox,
    font,
    free_place,
    holds_middle,
    put_text_centred,
)
from saccade.record.task import EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

Shape = Literal["square", "round", "diamond"]
SHAPES: tuple[Shape, ...] = ("square", "round", "diamond")
Detail = Literal["letter", "number", "dot"]

PLATES: dict[str, Colour] = {
    "red": (214, 36, 36),
    "orange": (245, 130, 20),
    "yellow": (240, 206, 30),
    "green": (30, 150, 60),
    "blue": (36, 84, 205),
    "purple": (128, 52, 168),
    "pink": (240, 70, 160),
}
_BRIGHT = frozenset({"orange", "yellow", "pink"})
DOTS = ("white", "black", "red", "yellow", "green", "blue")
"""Colours of a dot."""
LETTERS = "ABCEFHJKLMNPRSTUVXYZ"
"""Capitals that are told apart at nine pixels."""
LOOK_ALIKES = ("BEHKRSX", "AHKMNRX", "CELSZB", "FPTYVJ", "AHMNUV")
"""Letters that a blurred picture confuses; those of one picture come from one of these."""
_DIGITS = "35689"


@dataclass(frozen=True, slots=True)
class Sign:
    """Looks of a sign."""

    colour: str
    shape: Shape
    detail: Detail
    content: str
    """The letter, the number, or the name of the dot's colour."""
    dot_percent: int = 40
    """Diameter of a dot in per cent of a letter's height."""

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape} sign"


def random_content(rng: Rng, detail: Detail, plate: str, letters: str = LETTERS) -> str:
    """Draw a text for a plate of that colour."""
    if detail == "letter":
        return rng.choice(letters)
    if detail == "number":
        return rng.choice(_DIGITS) + rng.choice(_DIGITS)
    return rng.choice([colour for colour in DOTS if colour != plate])


def plate_side(sign: Sign, height: int, percent: int) -> int:
    """Choose the plate's side in pixels for a detail that high; a wide number and a diamond's corners need more."""
    wide = 3 if sign.detail == "number" else 2
    slant = 4 if sign.shape == "diamond" else 3
    return height * percent * wide * slant // 600


def put_sign(rng: Rng, pen: ImageDraw.ImageDraw, sign: Sign, box: Box, height: int) -> None:
    """Draw a sign on its post; the plate fills `box`, which is square, and its detail is `height` pixels high."""
    x0, y0, x1, y1 = box[0], box[1], box[2] - 1, box[3] - 1
    middle = (x0 + x1) // 2, (y0 + y1) // 2
    shade = rng.integer(88, 104)
    fill: Colour = tuple(min(255, channel * shade // 100) for channel in PLATES[sign.colour])  # type: ignore[assignment]
    post = max(2, (x1 - x0) // 14)
    pen.rectangle((middle[0] - post, y1, middle[0] + post, y1 + (x1 - x0)), fill=(74, 76, 80))
    rim = rng.choice(((232, 232, 228), (40, 42, 46)))
    if sign.shape == "square":
        pen.rectangle((x0 - 2, y0 - 2, x1 + 2, y1 + 2), fill=rim)
        pen.rectangle((x0, y0, x1, y1), fill=fill)
    elif sign.shape == "round":
        pen.ellipse((x0 - 2, y0 - 2, x1 + 2, y1 + 2), fill=rim)
        pen.ellipse((x0, y0, x1, y1), fill=fill)
    else:
        for more, colour in ((3, rim), (0, fill)):
            left, right = (x0 - more, middle[1]), (x1 + more, middle[1])
            pen.polygon([left, (middle[0], y0 - more), right, (middle[0], y1 + more)], fill=colour)
    _put_detail(pen, sign, middle, height)


def _put_detail(pen: ImageDraw.ImageDraw, sign: Sign, middle: tuple[int, int], height: int) -> None:
    if sign.detail == "dot":
        # By default smaller than a letter: a colour shows at sizes at which no shape does.
        radius = max(2, height * sign.dot_percent // 200)
        x, y = middle
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=COLOURS[sign.content])
        return
    # Capitals and digits of this face are 0.729 em high.
    face = font(-(-height * 1000 // 729), "sans-bold")
    ink = COLOURS["black" if sign.colour in _BRIGHT else "white"]
    put_text_centred(pen, middle, sign.content, face, ink)


# Backgrounds: layered noise, gradients and muted clutter, so that a drawn scene is as busy as a photograph.
#
# Colours stay greyish (channels within 60 of each other), so that what a world asks about stands out from them.


_MUTED: tuple[Colour, ...] = (
    (112, 118, 124), (146, 138, 124), (104, 112, 96), (168, 164, 154), (126, 108, 96), (92, 98, 110), (150, 158, 166),
    (134, 140, 122),
)  # fmt: skip


def noise(rng: Rng, size: tuple[int, int], cells: tuple[int, ...]) -> NDArray[np.int16]:
    """Draw smooth noise of `size` (width, height), -128..127: a layer for each cell size in pixels, equally strong."""
    width, height = size
    total = np.zeros((height, width), np.int16)
    for cell in cells:
        grid = rng.bytes_array(height // cell + 2, width // cell + 2)
        layer = Image.fromarray(grid).resize(size, Image.Resampling.BICUBIC)
        total += np.asarray(layer).astype(np.int16) - 128
    return total // len(cells)


def backdrop(rng: Rng, size: tuple[int, int], clutter: int) -> Image.Image:
    """Return a scene to put things on: two blended colours, `clutter` muted shapes, texture on three scales."""
    width, height = size
    top, bottom = (np.array(colour, np.int32) for colour in rng.sample(_MUTED, 2))
    rows = np.arange(height, dtype=np.int32)[:, None]
    blend = (top * (height - rows) + bottom * rows) // height
    picture = Image.fromarray(np.repeat(blend[:, None, :], width, axis=1).astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    for _ in range(clutter):
        _clutter(rng, pen, size)
    unit = max(8, (width + height) // 16)
    texture = noise(rng, size, (unit, unit // 4, 3))
    strength = rng.integer(20, 45)
    pixels = np.asarray(picture).astype(np.int16) + (texture * strength // 64)[:, :, None]
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def grain(rng: Rng, picture: Image.Image, strength: int) -> Image.Image:
    """Return the picture with independent noise of -strength..strength on every channel of every pixel."""
    if strength == 0:
        return picture
    pixels = np.asarray(picture.convert("RGB")).astype(np.int16)
    speckle = rng.bytes_array(*pixels.shape) % (2 * strength + 1)
    return Image.fromarray(np.clip(pixels + speckle.astype(np.int16) - strength, 0, 255).astype(np.uint8))


def _clutter(rng: Rng, pen: ImageDraw.ImageDraw, size: tuple[int, int]) -> None:
    shade = rng.integer(-30, 30)
    colour = tuple(channel + shade + rng.integer(-6, 6) for channel in rng.choice(_MUTED))
    long = max(size)
    wide, high = rng.integer(long // 60, long // 9), rng.integer(long // 60, long // 7)
    x, y = rng.integer(-wide // 2, size[0] - wide // 2), rng.integer(-high // 2, size[1] - high // 2)
    kind = rng.integer(0, 3)
    if kind == 0:
        pen.ellipse((x, y, x + wide, y + high), fill=colour)
    elif kind == 1:
        pen.line((x, y, x + wide, y + high), fill=colour, width=rng.integer(2, max(3, long // 150)))
    elif kind == 2:
        pen.polygon([(x, y + high), (x + wide // 2, y), (x + wide, y + high)], fill=colour)
    else:
        _house(rng, pen, (x, y, x + wide, y + high), colour)


def _house(rng: Rng, pen: ImageDraw.ImageDraw, box: tuple[int, int, int, int], colour: tuple[int, ...]) -> None:
    pen.rectangle(box, fill=colour)
    glass = tuple(channel - 36 for channel in colour)
    pane = max(4, (box[2] - box[0]) // rng.integer(4, 8))
    for y in range(box[1] + pane, box[3] - pane, 2 * pane):
        for x in range(box[0] + pane, box[2] - pane, 2 * pane):
            pen.rectangle((x, y, x + pane, y + pane), fill=glass)


# World `sign-colours`: which signs are in the picture, as a look shows a part of a larger one?
#
# For learning to see signs before learning to look for them. A sign counts unless a quarter or more of its width or
# height is cut off. Signs lie anywhere, over the border too, but none is cut by about a quarter.


# Signs of different colours on a small picture, and the program that finds such signs by their hues.


_DETAILS: tuple[Detail, ...] = ("letter", "dot")
_TRIES = 40
_DOTTED = 12
"""Least side in pixels of a plate with a dot."""

FIND = """\
import cv2
import numpy as np

HUES = {"red": 0, "orange": 14, "yellow": 25, "green": 67, "blue": 111, "purple": 139, "pink": 164}
pixels = np.array(image_0.convert("RGB"))
hue = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)[:, :, 0].astype(np.int16)
vivid = pixels.max(axis=2).astype(int) - pixels.min(axis=2) > 80
boxes = []
for colour, middle in HUES.items():
    distance = np.abs(hue - middle)
    mask = ((np.minimum(distance, 180 - distance) <= 5) & vivid).astype(np.uint8)
    mask = cv2.morphologyEx(np.pad(mask, 9), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))[9:-9, 9:-9]
    for contour in cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]:
        boxes.append((colour, *cv2.boundingRect(contour)))
signs = {}
for colour in sorted(HUES):
    own = [box for box in boxes if box[0] == colour]
    # A dot has a sign's colour too, but lies on a larger thing of another colour.
    own = [
        (c, x, y, w, h) for c, x, y, w, h in own
        if not any(X <= x and Y <= y and x + w <= X + W and y + h <= Y + H and C != c for C, X, Y, W, H in boxes)
    ]
    if own:
        # A letter may cut a plate in two.
        x, y = min(box[1] for box in own), min(box[2] for box in own)
        w, h = max(box[1] + box[3] for box in own) - x, max(box[2] + box[4] for box in own) - y
        # A plate is square: what is cut off on one side shows in its form.
        if w * h >= 16 and min(w, h) > 0.75 * max(w, h):
            signs[colour] = x, y, w, h
"""
"""Leaves the plates in `signs` by colour, but those that lack more than a quarter."""


def put_signs(
    rng: Rng, picture: Image.Image, plate: int, count: int, clear: Callable[[Box], bool] = lambda box: True
) -> dict[str, Box]:
    """Draw up to `count` signs where `clear` allows their plates, of about `plate` pixels; the plates by colour."""
    pen = ImageDraw.Draw(picture)
    taken: list[Box] = []
    placed: dict[str, Box] = {}
    for colour in rng.shuffled(tuple(PLATES))[:count]:
        size = max(5, plate * rng.integer(85, 115) // 100)
        box = _place(rng, size, picture.width, taken, clear)
        if box is None:
            continue
        placed[colour] = box
        # A dot is at least five pixels wide, and would cover a smaller plate.
        detail = rng.choice(_DETAILS) if size >= _DOTTED else "letter"
        content = random_content(rng, detail, colour)
        height = max(2, size * 10 // 22)
        put_sign(rng, pen, Sign(colour, rng.choice(SHAPES), detail, content, dot_percent=100), box, height)
    return dict(sorted(placed.items()))


def _place(rng: Rng, size: int, side: int, taken: list[Box], clear: Callable[[Box], bool]) -> Box | None:
    for _ in range(_TRIES):
        # The post below a plate is as long as the plate, and may run out of the picture.
        high = min(2 * size, side)
        place = free_place(rng, (size, high), (0, 0, side, side + high - size), taken, gap=4)
        if place is None:
            return None
        box = (place[0], place[1], place[2], place[1] + size)
        if clear(box):
            taken.append(place)
            return box
    return None


_QUESTION = "Which of these signs are there: {colours}?"
_SAY = 'print(", ".join(colour for colour in sorted(COLOURS) if colour in signs) or "none")\n'
Count = Annotated[int, Field(ge=1, le=len(PLATES))]


class SignColoursKnobs(Knobs):
    """How many signs are asked for, sizes of the picture and of the signs, and how many there are."""

    asked: tuple[Count, Count] = (1, 7)
    """Fewest and most colours that are asked for; one of them is there as often as not."""
    side: tuple[int, int] = (112, 112)
    """Least and greatest side of the square picture in pixels."""
    plate: tuple[int, int] = (6, 55)
    """Least and greatest side of a plate in per cent of the picture's."""
    signs: tuple[int, int] = (1, 6)
    """Fewest and most signs in and around the picture; fewer where there is no room."""
    clutter: int = Field(3, ge=0, le=100)
    """Muted shapes in the background."""


def found_line(asked: Collection[str], inside: Collection[str]) -> str:
    """Return `blue, red`: the colours that are asked for and there, or `none`."""
    return ", ".join(sorted(colour for colour in asked if colour in inside)) or "none"


def draw(rng: Rng, knobs: SignColoursKnobs) -> WorldSample:
    """Return a window into a scene with signs of different colours and about one size."""
    side = rng.integer(*knobs.side)
    margin = side // 6
    scene = backdrop(rng, (side + 2 * margin, side + 2 * margin), 2 * knobs.clutter)
    window = (margin, margin, margin + side, margin + side)
    plate = side * rng.integer(*knobs.plate) // 100
    placed = put_signs(rng, scene, plate, rng.integer(*knobs.signs), lambda box: _is_clear(box, window))
    inside = {colour: box for colour, box in placed.items() if holds_middle(window, box)}
    asked = _asked(rng, list(inside), rng.integer(*knobs.asked))
    shown = {colour: _within(box, window) for colour, box in inside.items()}
    return WorldSample(
        question=_QUESTION.format(colours=", ".join(asked)),
        media={"image_0": scene.crop(window)},
        answer=found_line(asked, inside),
        program=f"COLOURS = {asked!r}\n{FIND}{_SAY}",
        evidence=tuple(EvidenceBox(image="image_0", xyxy=box, label=f"{name} sign") for name, box in shown.items()),
        difficulty=0.2,
        tags=("colours",),
    )


def _asked(rng: Rng, inside: list[str], count: int) -> list[str]:
    """Draw the colours to ask about; the first is as often the colour of a sign that is there as another."""
    there = inside if inside and rng.chance(50) else [colour for colour in PLATES if colour not in inside]
    first = rng.choice(there or inside)
    return rng.shuffled([first, *rng.sample([colour for colour in PLATES if colour != first], count - 1)])


def _is_clear(box: Box, window: ViewBox) -> bool:
    """Return whether it is out of question if the sign counts: cut on one side at most, and not by about a quarter."""
    size = box[2] - box[0]
    cut = [(window[0] - box[0]) / size, (window[1] - box[1]) / size]
    cut += [(box[2] - window[2]) / size, (box[3] - window[3]) / size]
    partly = [share for share in cut if share > -0.05]
    if not partly or max(partly) >= 1.05:
        return True
    return len(partly) == 1 and (partly[0] < 0.12 or partly[0] > 0.42)


def _within(box: Box, window: ViewBox) -> Box:
    x0, y0, side = window[0], window[1], window[2] - window[0]
    x, y, right, bottom = (min(max(value - start, 0), side) for value, start in zip(box, (x0, y0, x0, y0), strict=True))
    return x, y, right, bottom


WORLD = World("sign-colours@2", "Say of which colours there are signs in a small picture.", SignColoursKnobs, draw)
