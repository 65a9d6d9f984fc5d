"""What the drawings of all worlds share: fonts that are equal everywhere, named colours, text in boxes and rows,
places, and regular polygons in whole pixels.

Fonts are the DejaVu files that matplotlib brings along, laid out without Raqm, whose presence differs by machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import cos, pi, sin
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

from saccade.tasks.worlds.rng import Rng

Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]
"""`xyxy` pixels, right and bottom edge exclusive."""
Face = Literal["sans", "sans-bold", "mono", "mono-bold", "serif", "serif-bold"]

COLOURS: dict[str, Colour] = {
    "red": (214, 40, 40),
    "orange": (245, 130, 20),
    "yellow": (248, 214, 36),
    "green": (30, 150, 60),
    "blue": (36, 84, 205),
    "purple": (128, 52, 168),
    "pink": (240, 130, 180),
    "brown": (120, 72, 36),
    "black": (16, 16, 16),
    "white": (248, 248, 248),
    "grey": (128, 128, 128),
}
"""Colours that have one plain name each."""

_FILES: dict[Face, str] = {
    "sans": "DejaVuSans.ttf",
    "sans-bold": "DejaVuSans-Bold.ttf",
    "mono": "DejaVuSansMono.ttf",
    "mono-bold": "DejaVuSansMono-Bold.ttf",
    "serif": "DejaVuSerif.ttf",
    "serif-bold": "DejaVuSerif-Bold.ttf",
}


@cache
def font(size: int, face: Face = "sans") -> ImageFont.FreeTypeFont:
    """The face at `size` pixels per em."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / _FILES[face]
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def text_size(text: str, face: ImageFont.FreeTypeFont) -> tuple[int, int]:
    """Width and height in pixels of the ink of one line."""
    left, top, right, bottom = face.getbbox(text)
    return int(right - left), int(bottom - top)


def put_text(
    draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, face: ImageFont.FreeTypeFont, fill: Colour
) -> Box:
    """Draw one line with the top left corner of its ink at `at`; returns the box of the ink."""
    left, top, _, _ = face.getbbox(text)
    draw.text((at[0] - int(left), at[1] - int(top)), text, font=face, fill=fill)
    width, height = text_size(text, face)
    return at[0], at[1], at[0] + width, at[1] + height


def put_text_centred(
    draw: ImageDraw.ImageDraw, centre: tuple[int, int], text: str, face: ImageFont.FreeTypeFont, fill: Colour
) -> Box:
    """Draw one line with the middle of its ink at `centre`; returns the box of the ink."""
    width, height = text_size(text, face)
    return put_text(draw, (centre[0] - width // 2, centre[1] - height // 2), text, face, fill)


def overlaps(a: Box, b: Box, gap: int = 0) -> bool:
    """Whether two boxes come nearer to each other than `gap` pixels."""
    return a[0] < b[2] + gap and b[0] < a[2] + gap and a[1] < b[3] + gap and b[1] < a[3] + gap


def grow(box: Box, by: int, size: tuple[int, int]) -> Box:
    """The box with `by` pixels more on every side, inside a picture of `size`."""
    return max(0, box[0] - by), max(0, box[1] - by), min(size[0], box[2] + by), min(size[1], box[3] + by)


def free_place(rng: Rng, size: tuple[int, int], area: Box, taken: list[Box], gap: int) -> Box | None:
    """A random box of `size` in `area`, at least `gap` pixels from all `taken`; None if 200 tries find none."""
    for _ in range(200):
        if area[2] - area[0] < size[0] or area[3] - area[1] < size[1]:
            return None
        x = rng.integer(area[0], area[2] - size[0])
        y = rng.integer(area[1], area[3] - size[1])
        box = (x, y, x + size[0], y + size[1])
        if not any(overlaps(box, other, gap) for other in taken):
            return box
    return None


def blank(size: tuple[int, int], colour: Colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """A picture of one colour, and the pen for it."""
    picture = Image.new("RGB", size, colour)
    return picture, ImageDraw.Draw(picture)


def sixteen_bits(degrees: int) -> tuple[int, int]:
    """Cosine and sine of whole degrees, times 65536."""
    return round(cos(degrees * pi / 180) * 65536), round(sin(degrees * pi / 180) * 65536)


def turned(x: int, y: int, degrees: int) -> tuple[int, int]:
    """The offset (x, y) turned clockwise on the screen by whole degrees, in whole pixels."""
    c, s = sixteen_bits(degrees)
    return (x * c - y * s + 32768) >> 16, (x * s + y * c + 32768) >> 16


def polygon_points(centre: tuple[int, int], radius: int, corners: int, turn: int = 0) -> list[tuple[int, int]]:
    """Corners of a regular polygon in a circle, the first at the top, turned clockwise by `turn` degrees."""
    points = []
    for number in range(corners):
        x, y = turned(0, -radius, turn + round(360 * number / corners))
        points.append((centre[0] + x, centre[1] + y))
    return points


@dataclass(frozen=True, slots=True)
class Lettering:
    """How a label is printed."""

    face: ImageFont.FreeTypeFont
    ink: Colour


def put_label(
    pen: ImageDraw.ImageDraw,
    at: tuple[int, int],
    text: str,
    lettering: Lettering,
    align: Literal["left", "middle", "right"] = "middle",
) -> Box:
    """Print a line with its left end, middle or right end at column `at[0]`; returns the box of the ink."""
    face = lettering.face
    left, top, right, bottom = (int(edge) for edge in face.getbbox(text))
    _, capital_top, _, capital_bottom = (int(edge) for edge in face.getbbox("H"))
    x = at[0] - {"left": 0, "middle": (right - left) // 2, "right": right - left}[align]
    y = at[1] - (capital_bottom - capital_top) // 2 - capital_top
    pen.text((x - left, y), text, font=face, fill=lettering.ink)
    return x, y + top, x + right - left, y + bottom
