"""Lines of text whose capitals stand in the middle of a row, so that neighbours share a base line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PIL import ImageDraw, ImageFont

from saccade.tasks.worlds.canvas import Box, Colour


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
