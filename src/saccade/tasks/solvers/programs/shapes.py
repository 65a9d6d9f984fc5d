"""Outlined circles or regular polygons of any size, overlapping as they like: how many are there?

An outline of every size is laid over the lines; where a shape is, lines run under all of it.
"""

# ruff: noqa: T201
# mypy: allow-untyped-defs, allow-untyped-calls

import cv2
import numpy as np
from PIL import Image

from saccade.tasks.solvers.programs.parameters import image, sides

paper = Image.new("RGBA", image.size, "white")
pixels = np.array(Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB"), dtype=np.int16)
background = np.median(pixels.reshape(-1, 3), axis=0)
contrast = np.abs(pixels - background).max(axis=2).astype(np.float32)
threshold = 0.25 * np.percentile(contrast[contrast > contrast.max() / 4], 90)

# Cut out what is drawn, at a working size at which a line is a few pixels wide.
ys, xs = np.nonzero(contrast > threshold)
part = np.pad(contrast, 8)[ys.min() : ys.max() + 17, xs.min() : xs.max() + 17]
zoom = 480 / max(part.shape)
part = cv2.resize(part, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_CUBIC if zoom > 1 else cv2.INTER_AREA)
ink = cv2.dilate((part > threshold * min(1, zoom)).astype(np.uint8), np.ones((3, 3), np.uint8))
# Depths in a band go evenly from 0 to half its width.
width = 4 * cv2.distanceTransform(ink, cv2.DIST_L2, 3)[ink > 0].mean()

# Directions of a polygon's sides repeat every `period` degrees: the frequent ones say how the polygons are turned.
turns = [0]
if sides:
    period = 180 // sides if sides % 2 else 360 // sides
    soft = cv2.GaussianBlur(part, (0, 0), 2)
    gx, gy = cv2.Sobel(soft, cv2.CV_32F, 1, 0), cv2.Sobel(soft, cv2.CV_32F, 0, 1)
    angles = np.rint(np.degrees(np.arctan2(gy, gx))).astype(int) % period
    frequent = np.bincount(angles.ravel(), np.hypot(gx, gy).ravel(), minlength=period)
    frequent = frequent + np.roll(frequent, 1) + np.roll(frequent, -1)
    peaks = (frequent >= np.roll(frequent, 1)) & (frequent > np.roll(frequent, -1)) & (frequent > frequent.max() / 2)
    turns = [int(turn) + flip for turn in np.flatnonzero(peaks) for flip in (0, period)]


def outline(centre, radius, turn):
    """Corners of the shape."""
    corners = np.radians(turn + np.arange(sides or 90) * 360 / (sides or 90))
    return np.rint(centre + radius * np.column_stack([np.cos(corners), np.sin(corners)])).astype(np.int32)


found = []
lines = ink.astype(np.float32)
largest = min(part.shape) * 2 / 3
for radius in np.unique(np.geomspace(2 * width, max(2 * width, largest), 60).astype(int)):
    for turn in turns:
        drawn = np.zeros((2 * radius + 3, 2 * radius + 3), np.uint8)
        cv2.polylines(drawn, [outline((radius + 1, radius + 1), radius, turn)], True, 1)
        cover = cv2.filter2D(lines, -1, drawn / np.float32(drawn.sum()), borderType=cv2.BORDER_CONSTANT)
        best = (cover > 0.9) & (cover >= cv2.dilate(cover, np.ones((9, 9), np.uint8)))
        found += [(radius * cover[y, x] ** 4, radius, turn, x, y) for y, x in np.argwhere(best)]

# The largest first. Each line belongs to one shape: what is made of lines already used is no shape.
count = 0
left = ink.copy()
for _, radius, turn, x, y in sorted(found, reverse=True):
    corners = [outline((x, y), radius, turn)]
    drawn = np.zeros_like(ink)
    cv2.polylines(drawn, corners, True, 1)
    if left[drawn > 0].mean() > 0.5:
        count += 1
        cv2.polylines(left, corners, True, 0, int(1.5 * width))
        print(f"radius {radius / zoom:.1f} at ({xs.min() + x / zoom - 8:.0f}, {ys.min() + y / zoom - 8:.0f})")
print(count)
