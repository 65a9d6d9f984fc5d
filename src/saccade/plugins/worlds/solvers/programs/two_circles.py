"""Two circles, filled or outlined, of one colour or two: do they touch, do they overlap?

Neither may be inside the other. Circles as close as the picture can show are taken to touch in one point.
"""

# ruff: noqa: T201
# mypy: allow-untyped-defs, allow-untyped-calls

import cv2
import numpy as np
from PIL import Image

from saccade.plugins.worlds.solvers.programs.parameters import image, question

paper = Image.new("RGBA", image.size, "white")
pixels = np.array(Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB"), dtype=np.int16)
background = np.median(np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]), axis=0)
contrast = np.abs(pixels - background).max(axis=2).astype(np.float32)

# Cut out and enlarged: edges are wanted to a fraction of a pixel.
ys, xs = np.nonzero(contrast > 0.5 * contrast.max())
part = np.pad(contrast, 4)[ys.min() : ys.max() + 9, xs.min() : xs.max() + 9]
zoom = max(1, min(8, 1600 // max(part.shape)))
part = cv2.resize(part, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_CUBIC)
ink = (part > 0.5 * contrast.max()).astype(np.uint8)

# The silhouette: what cannot be reached from outside.
_, outside, _, _ = cv2.floodFill(1 - ink, None, (0, 0), 2)
shape = (outside != 2).astype(np.uint8)
outline = np.concatenate(cv2.findContours(shape, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0])[:, 0].astype(float)


def fit(points):
    """Fit centre and radius of the circle with the least squared error."""
    terms = np.column_stack([2 * points, np.ones(len(points))])
    x, y, rest = np.linalg.lstsq(terms, (points**2).sum(axis=1), rcond=None)[0]
    return np.array([x, y]), np.sqrt(rest + x * x + y * y)


# The larger circle is the largest that fits into the silhouette; the other has the rest of the outline.
depth = cv2.distanceTransform(shape, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
radius = depth.max()
centre = np.array(np.unravel_index(depth.argmax(), depth.shape))[::-1]
for _ in range(3):
    off = np.abs(np.linalg.norm(outline - centre, axis=1) - radius)
    near = off < 1.5 + 0.02 * radius
    centre, radius = fit(outline[near])
other, other_radius = fit(outline[off > 3 + 0.04 * radius])

# The outline runs through the middle of its pixels, half a pixel inside the edge.
gap = (np.linalg.norm(centre - other) - radius - other_radius - 1) / zoom
smaller = 2 * min(radius, other_radius) / zoom
slack = max(0.6, 0.01 * smaller)
print(f"gap {gap:.2f} px, slack {slack:.2f} px, smaller diameter {smaller:.1f} px")
print("Yes" if gap < (slack if question == "touching" else -slack) else "No")
