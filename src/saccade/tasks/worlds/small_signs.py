"""Signs of different colours on a small picture, and the program that finds such signs by their hues."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image, ImageDraw

from saccade.tasks.worlds.canvas import Box, free_place
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.signs import PLATES, SHAPES, Detail, Sign, put_sign, random_content

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
