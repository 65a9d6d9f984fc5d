"""Squares inside or next to each other, outlined or filled, turned or not: how many?

Areas are counted, not outlines: two squares may share a piece of a line. Not for squares that cross.
"""

# ruff: noqa: T201

import cv2
import numpy as np
from PIL import Image

from saccade.plugins.worlds.solvers.programs.parameters import image

paper = Image.new("RGBA", image.size, "white")
pixels = np.array(Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB"), dtype=np.int16)
background = np.median(pixels.reshape(-1, 3), axis=0)
contrast = np.abs(pixels - background).max(axis=2).astype(np.float32)

# Enlarged, so that narrow gaps between lines stay open.
zoom = max(1, 3000 // max(image.size))
contrast = cv2.resize(contrast, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_CUBIC)
ink = (contrast > 0.4 * np.percentile(contrast[contrast > contrast.max() / 4], 90)).astype(np.uint8)

# Every outlined square encloses one area that the next square does not cut off; a filled one is an area of ink.
squares = 0
for mask in (1 - ink, ink):
    contours, tree = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    for contour, (_, _, hole, outer) in zip(contours, tree[0], strict=True):
        x, y, w, h = cv2.boundingRect(contour)
        outside = x == 0 or y == 0 or x + w == ink.shape[1] or y + h == ink.shape[0]
        if outer >= 0 or outside or (mask is ink and hole >= 0):
            continue
        a, b = sorted(cv2.minAreaRect(contour)[1])
        if a > max(2 * zoom, 0.85 * b) and cv2.contourArea(cv2.convexHull(contour)) > 0.85 * a * b:
            squares += 1
            print("square", [v // zoom for v in (x, y, x + w, y + h)])
print(squares)
