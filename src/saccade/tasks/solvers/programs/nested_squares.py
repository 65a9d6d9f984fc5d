"""Squares drawn inside (or beside) one another with outlines: each encloses one more area of background.

Areas are counted, not outlines: two squares may share a piece of their lines. Not for squares that cross.
"""

# ruff: noqa: T201

import cv2
import numpy as np
from PIL import Image

from saccade.tasks.solvers.programs.parameters import image

paper = Image.new("RGBA", image.size, "white")
pixels = np.array(Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB"), dtype=np.int16)
background = np.median(pixels.reshape(-1, 3), axis=0)
contrast = np.abs(pixels - background).max(axis=2).astype(np.float32)

# Enlarged, so that narrow gaps between lines stay open.
contrast = cv2.resize(contrast, None, fx=3, fy=3, interpolation=cv2.INTER_CUBIC)
ink = contrast > 0.4 * np.percentile(contrast[contrast > contrast.max() / 4], 90)

# Every square encloses one area that the next square does not cut off.
total, _, boxes, _ = cv2.connectedComponentsWithStats((~ink).astype(np.uint8), connectivity=4)
squares = 0
for x, y, w, h, area in boxes[1:]:
    inside = x > 0 and y > 0 and x + w < ink.shape[1] and y + h < ink.shape[0]
    if inside and abs(w - h) <= 6 + 0.1 * max(w, h) and area > 12:
        squares += 1
        print("square", [int(v) // 3 for v in (x, y, x + w, y + h)])
print(squares)
