"""A table of straight lines, with or without words: cells are counted between the lines, in each direction."""

# ruff: noqa: T201
# mypy: allow-untyped-defs, allow-untyped-calls

import cv2
import numpy as np
from PIL import Image

from saccade.plugins.worlds.solvers.programs.parameters import form, image

paper = Image.new("RGBA", image.size, "white")
pixels = np.array(Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB"), dtype=np.int16)
background = np.median(pixels.reshape(-1, 3), axis=0)
contrast = np.abs(pixels - background).max(axis=2)
ink = (contrast > 0.35 * contrast.max()).astype(np.uint8)

# The lines hang together; words do not belong to them.
_, labels, boxes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
grid = 1 + int(np.argmax(boxes[1:, cv2.CC_STAT_WIDTH] * boxes[1:, cv2.CC_STAT_HEIGHT]))
x, y, w, h = boxes[grid][:4]
lines = labels[y : y + h, x : x + w] == grid
print("grid", x, y, x + w, y + h)


def cells(covered):
    """Count the gaps between lines; a line is covered with ink for most of its length."""
    gap = np.concatenate([[False], covered < 0.6, [False]])
    edges = np.flatnonzero(gap[1:] != gap[:-1])
    widths = edges[1::2] - edges[::2]
    return int((widths > 0.2 * widths.max()).sum())


print(form.format(cells(lines.mean(axis=1)), cells(lines.mean(axis=0))))
