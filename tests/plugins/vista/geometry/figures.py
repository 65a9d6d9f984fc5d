"""Diagrams that tests draw."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw
from tests.plugins.vista.chart.drawn import Board

CORNERS = [(60, 40), (300, 240), (60, 240)]


def triangle() -> Board:
    board = Board((360, 300))
    board.pen.polygon(CORNERS, outline="black", width=2)
    board.pen.line([(60, 226), (74, 226), (74, 240)], fill="black", width=2)
    board.write("20", (36, 140))
    board.write("24", (180, 262))
    board.write("X", (196, 126))
    return board


def circle(*turns: float, width: int = 2) -> np.ndarray:
    """A circle of radius 100 around (120, 120) with radii at these angles, clockwise from the right."""
    picture = Image.new("RGB", (240, 240), "white")
    pen = ImageDraw.Draw(picture)
    pen.ellipse((20, 20, 220, 220), outline="black", width=2)
    for turn in turns:
        pen.line((120, 120, *on_rim(turn)), fill="black", width=width)
    return np.asarray(picture)


def on_rim(turn: float, radius: float = 99.0) -> tuple[float, float]:
    return 120 + radius * float(np.cos(np.radians(turn))), 120 + radius * float(np.sin(np.radians(turn)))
