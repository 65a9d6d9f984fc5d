"""The small signs of world `visual-search`: plates of one colour and shape with a tiny detail in the middle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from saccade.plugins.worlds.canvas import COLOURS, Box, Colour, font, put_text_centred
from saccade.tasks.worlds import Rng

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
        """The sign as a question names it."""
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
