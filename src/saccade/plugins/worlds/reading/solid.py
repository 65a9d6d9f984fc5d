"""Finding lit solids on a grey floor: the part that programs of `solid-scene` are made of.

As `reading`, every function is also source text for programs in the sandbox, and imports nothing else.
"""

from __future__ import annotations

import cv2
import numpy as np

HUES = {"red": 0, "yellow": 51, "green": 135, "blue": 223, "purple": 279}
"""Degrees."""


def solids_in(rgb: np.ndarray) -> list[tuple[str, str]]:
    """Colour and shape of every solid."""
    hsv = cv2.cvtColor(rgb.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
    mask = (hsv[..., 1] > 0.3).astype(np.uint8)
    found = []
    for outline in cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0]:
        x, y, width, height = cv2.boundingRect(outline)
        inside = mask[y : y + height, x : x + width] > 0
        hue = float(np.median(hsv[y : y + height, x : x + width, 0][inside]))
        turn = {name: min(abs(hue - at), 360 - abs(hue - at)) for name, at in HUES.items()}
        _, radius = cv2.minEnclosingCircle(outline)
        roundness = cv2.contourArea(outline) / (np.pi * radius**2)
        filled = cv2.contourArea(outline) / ((width - 1) * (height - 1))
        shape = "ball" if roundness > 0.92 else "cylinder" if filled > 0.85 else "cube"
        found.append((min(turn, key=lambda name: turn[name]), shape))
    return found
