"""World `sign-colours`: which signs are in the picture, as a look shows a part of a larger one?

For learning to see signs before learning to look for them. A sign counts unless a quarter or more of its width or
height is cut off. Signs lie anywhere, over the border too, but none is cut by about a quarter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds.canvas import Box, ViewBox, free_place, holds_middle
from saccade.plugins.worlds.signs import PLATES, SHAPES, Detail, Sign, backdrop, put_sign, random_content
from saccade.record.task import EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

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
    """Whether it is out of question if the sign counts: cut on one side at most, and not by about a quarter."""
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
