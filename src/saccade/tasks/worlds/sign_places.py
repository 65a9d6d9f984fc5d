"""World `sign-places`: the place of every sign of a small picture, as a look for it would name it.

For learning to find signs before learning to look at them: signs from nearly half of the picture's side down to a few
pixels, each of another colour. The answer is a piece of Python for each sign, in the order of the colours' names, with
its middle as fractions of width and height in steps of a twentieth.
"""

from __future__ import annotations

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.record.task import EvidenceBox
from saccade.tasks.worlds.base import Knobs, Sample, World
from saccade.tasks.worlds.canvas import Box, free_place
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.signs import PLATES, SHAPES, Detail, Sign, put_sign, random_content
from saccade.tasks.worlds.textures import backdrop
from saccade.tasks.worlds.twentieths import STEPS, place_line

_DETAILS: tuple[Detail, ...] = ("letter", "dot")
_QUESTION = "Where are the signs?"

_PROGRAM = f"""\
import cv2
import numpy as np

HUES = {{"red": 0, "orange": 14, "yellow": 25, "green": 67, "blue": 111, "purple": 139, "pink": 164}}
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
found = []
for colour in sorted(HUES):
    own = [box for box in boxes if box[0] == colour]
    # A dot has a sign's colour too, but lies on a larger thing of another colour.
    own = [
        (c, x, y, w, h) for c, x, y, w, h in own
        if not any(X <= x and Y <= y and x + w <= X + W and y + h <= Y + H and C != c for C, X, Y, W, H in boxes)
    ]
    if own:
        _, x, y, w, h = max(own, key=lambda box: box[3] * box[4])
        if w * h >= 16:
            place = [
                min({STEPS - 1}, max(0, round(value * {STEPS}))) / {STEPS}
                for value in ((x + w / 2) / pixels.shape[1], (y + h / 2) / pixels.shape[0])
            ]
            found.append(f"{{colour}}_sign = {{place[0]:.2f}}, {{place[1]:.2f}}")
print("; ".join(found))
"""


class SignPlacesKnobs(Knobs):
    """Sizes of the picture and of the signs, and how many there are."""

    side: tuple[int, int] = (84, 168)
    """Least and greatest side of the square picture in pixels."""
    plate: tuple[int, int] = (14, 40)
    """Least and greatest side of a plate in per cent of the picture's."""
    signs: tuple[int, int] = (1, 4)
    """Fewest and most signs; fewer where the picture is full."""
    clutter: int = Field(3, ge=0, le=100)
    """Muted shapes in the background."""


def draw(rng: Rng, knobs: SignPlacesKnobs) -> Sample:
    """Signs of different colours and about one size."""
    side = rng.integer(*knobs.side)
    picture = backdrop(rng, (side, side), knobs.clutter)
    placed = _placed(rng, knobs, picture)
    ordered = sorted(placed.items())
    return Sample(
        question=_QUESTION,
        media={"image_0": picture},
        answer="; ".join(place_line(colour, box, (side, side)) for colour, box in ordered),
        program=_PROGRAM,
        evidence=tuple(EvidenceBox(image="image_0", xyxy=box, label=f"{colour} sign") for colour, box in ordered),
        difficulty=0.3,
        tags=("places",),
    )


def _placed(rng: Rng, knobs: SignPlacesKnobs, picture: Image.Image) -> dict[str, Box]:
    """The boxes of the plates, drawn, by colour."""
    pen = ImageDraw.Draw(picture)
    side = picture.width
    plate = side * rng.integer(*knobs.plate) // 100
    placed: dict[str, Box] = {}
    for colour in rng.shuffled(tuple(PLATES))[: rng.integer(*knobs.signs)]:
        size = max(5, plate * rng.integer(85, 115) // 100)
        box = _clear_place(rng, size, side, list(placed.values()))
        if box is None:
            continue
        placed[colour] = box
        detail = rng.choice(_DETAILS)
        content = random_content(rng, detail, colour)
        height = max(2, size * 10 // 22)
        put_sign(rng, pen, Sign(colour, rng.choice(SHAPES), detail, content, dot_percent=100), box, height)
    return placed


def _clear_place(rng: Rng, size: int, side: int, taken: list[Box]) -> Box | None:
    """A free place, its post included, whose middle no look could round to another step."""
    for _ in range(40):
        # The post below a plate is as long as the plate, and may run out of the picture.
        high = min(2 * size, side)
        place = free_place(rng, (size, high), (0, 0, side, side + high - size), taken, gap=4)
        if place is None:
            return None
        box = (place[0], place[1], place[2], place[1] + size)
        middles = ((box[axis] + size / 2) * STEPS / side for axis in (0, 1))
        if all(0.5 < middle < STEPS - 0.5 and abs(middle - round(middle)) < 0.33 for middle in middles):
            taken.append(place)
            return box
    return None


WORLD = World("sign-places@1", "Name the place of every sign in a small picture.", SignPlacesKnobs, draw)
