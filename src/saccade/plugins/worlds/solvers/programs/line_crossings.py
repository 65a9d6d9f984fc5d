"""Two lines of different colours, each running once across the picture: how often do they change sides?

A line may bend but not turn back. A touch without crossing does not count.
"""

# ruff: noqa: T201
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
from PIL import Image, ImageColor

from saccade.plugins.worlds.solvers.programs.parameters import colours, image

paper = Image.new("RGBA", image.size, "white")
pixels = np.array(Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB")).astype(float)
background = np.median(pixels.reshape(-1, 3), axis=0)
difference = pixels - background
contrast = np.linalg.norm(difference, axis=2)

# A pixel on the edge of a line is a mix of line and background: it differs in the same direction, only less.
likeness = []
for name in colours:
    towards = np.array(ImageColor.getrgb(name)) - background
    likeness.append(difference @ towards / (np.linalg.norm(towards) * np.maximum(contrast, 1)))
ink = contrast > 0.3 * contrast.max()
best = np.argmax(likeness, axis=0)
masks = [ink & (best == k) & (likeness[k] > 0.85) for k in (0, 1)]


def fitness(masks):
    """Rate how well both lines run from left to right: few columns with gaps, many columns that show both."""
    gaps = 0.0
    for mask in masks:
        between = np.maximum.accumulate(mask, axis=0) & np.maximum.accumulate(mask[::-1], axis=0)[::-1]
        gaps += ((between & ~masks[0] & ~masks[1]).sum(axis=0) > 2).mean()
    return -round(gaps, 1), (masks[0].any(axis=0) & masks[1].any(axis=0)).mean()


masks = max(masks, [mask.T for mask in masks], key=fitness)

# Height of each line in every column that shows both.
both = masks[0].any(axis=0) & masks[1].any(axis=0)
rows = np.arange(masks[0].shape[0])[:, None]
first, second = (((mask * rows).sum(axis=0) / np.maximum(mask.sum(axis=0), 1))[both] for mask in masks)
columns = np.flatnonzero(both)
above = np.sign(first - second)

# A side counts when it is held for a few columns.
sides: list[float] = []
for start in range(len(above) - 2):
    window = above[start : start + 3]
    if abs(window.sum()) == 3 and (not sides or sides[-1] != window[0]):
        if sides:
            print("cross near column", columns[start])
        sides.append(window[0])
print(len(sides) - 1)
