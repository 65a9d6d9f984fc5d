"""Backgrounds: layered noise, gradients and muted clutter, so that a drawn scene is as busy as a photograph.

Colours stay greyish (channels within 60 of each other), so that what a world asks about stands out from them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from saccade.tasks.worlds.canvas import Colour
from saccade.tasks.worlds.rng import Rng

_MUTED: tuple[Colour, ...] = (
    (112, 118, 124),
    (146, 138, 124),
    (104, 112, 96),
    (168, 164, 154),
    (126, 108, 96),
    (92, 98, 110),
    (150, 158, 166),
    (134, 140, 122),
)


def noise(rng: Rng, size: tuple[int, int], cells: tuple[int, ...]) -> NDArray[np.int16]:
    """Smooth noise of `size` (width, height), -128..127: one layer for each cell size in pixels, equally strong."""
    width, height = size
    total = np.zeros((height, width), np.int16)
    for cell in cells:
        grid = rng.bytes_array(height // cell + 2, width // cell + 2)
        layer = Image.fromarray(grid).resize(size, Image.Resampling.BICUBIC)
        total += np.asarray(layer).astype(np.int16) - 128
    return total // len(cells)


def backdrop(rng: Rng, size: tuple[int, int], clutter: int) -> Image.Image:
    """A scene to put things on: two blended colours, `clutter` muted shapes, texture on three scales."""
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
    """The picture with independent noise of -strength..strength on every channel of every pixel."""
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
