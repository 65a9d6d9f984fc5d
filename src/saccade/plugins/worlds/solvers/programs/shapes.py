"""Circles or regular polygons of one kind: how many are there, alone (filled or not) or as overlapping outlines?

A shape alone is recognised by its area. For the others an outline of every size is laid over the lines: where a shape
is, lines run under all of it. Not for filled shapes that overlap, nor for shapes cut by the edge of the picture.
"""

# ruff: noqa: T201
# mypy: allow-untyped-defs, allow-untyped-calls

import cv2
import numpy as np
from PIL import Image

from saccade.plugins.worlds.solvers.programs.parameters import image, sides

paper = Image.new("RGBA", image.size, "white")
pixels = np.array(Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB"), dtype=np.int16)
background = np.median(pixels.reshape(-1, 3), axis=0)
contrast = np.abs(pixels - background).max(axis=2).astype(np.float32)
threshold = 0.25 * np.percentile(contrast[contrast > contrast.max() / 4], 90)
corners = sides or 90


def enlarge(picture, zoom):
    """Return the picture at `zoom` times its size, smaller or larger."""
    return cv2.resize(picture, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_CUBIC if zoom > 1 else cv2.INTER_AREA)


def take_single_shapes(picture):
    """Count shapes that stand alone, by how much of the circle around them they fill; wipe them all away."""
    zoom = max(1, 2400 // max(picture.shape))
    ink = (enlarge(picture, zoom) > threshold).astype(np.uint8)
    filled = {n: n / 2 / np.pi * np.sin(2 * np.pi / n) for n in (3, 4, 5, 6, 90, corners)}
    contours, tree = cv2.findContours(ink, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    count = 0
    for contour, (_, _, hole, outer) in zip(contours, tree[0], strict=True):
        one_hole_at_most = outer < 0 and (hole < 0 or tree[0][hole][0] < 0)
        if one_hole_at_most and cv2.contourArea(contour) > 0.85 * cv2.contourArea(cv2.convexHull(contour)):
            inner = contours[hole] if hole >= 0 else contour  # thick lines round the corners outside
            radius = cv2.minEnclosingCircle(inner)[1]
            share = cv2.contourArea(inner) / np.pi / radius**2
            # A speck of a few pixels has no shape.
            count += radius > 4 * zoom and min(filled, key=lambda n: abs(filled[n] - share)) == corners
            x, y, w, h = (v // zoom for v in cv2.boundingRect(contour))
            picture[max(0, y - 1) : y + h + 2, max(0, x - 1) : x + w + 2] = 0
    return count


def directions(picture):
    """Return how the polygons are turned, in degrees: directions of their sides repeat every `period`."""
    if not sides:
        return [0]
    period = 180 // sides if sides % 2 else 360 // sides
    soft = cv2.GaussianBlur(picture, (0, 0), 2)
    gx, gy = cv2.Sobel(soft, cv2.CV_32F, 1, 0), cv2.Sobel(soft, cv2.CV_32F, 0, 1)
    angles = np.rint(np.degrees(np.arctan2(gy, gx))).astype(int) % period
    found = np.bincount(angles.ravel(), np.hypot(gx, gy).ravel(), minlength=period)
    found = found + np.roll(found, 1) + np.roll(found, -1)
    peaks = (found >= np.roll(found, 1)) & (found > np.roll(found, -1)) & (found > found.max() / 2)
    return [int(turn) + flip for turn in np.flatnonzero(peaks) for flip in (0, period)]


def outline(x, y, radius, turn):
    """Return the corners of a shape, as OpenCV takes them."""
    angles = np.radians(turn + np.arange(corners) * 360 / corners)
    return [np.rint(np.column_stack([x + radius * np.cos(angles), y + radius * np.sin(angles)])).astype(np.int32)]


def count_overlapping(picture):
    """Count outlines of any size that run through each other."""
    ys, xs = np.nonzero(picture > threshold)
    picture = np.pad(picture, 8)[ys.min() : ys.max() + 17, xs.min() : xs.max() + 17]
    zoom = 480 / max(picture.shape)
    picture = enlarge(picture, zoom)
    ink = cv2.dilate((picture > threshold * min(1, zoom)).astype(np.uint8), np.ones((3, 3), np.uint8))
    # Depths in a band go evenly from 0 to half its width.
    width = 4 * cv2.distanceTransform(ink, cv2.DIST_L2, 3)[ink > 0].mean()
    largest = max(2 * width, min(picture.shape) * 2 / 3)
    found = []
    for radius in np.unique(np.geomspace(2 * width, largest, 60).astype(int)):
        for turn in directions(picture):
            drawn = np.zeros((2 * radius + 3, 2 * radius + 3), np.float32)
            cv2.polylines(drawn, outline(radius + 1, radius + 1, radius, turn), True, 1)
            cover = cv2.filter2D(ink.astype(np.float32), -1, drawn / drawn.sum(), borderType=cv2.BORDER_CONSTANT)
            best = (cover > 0.9) & (cover >= cv2.dilate(cover, np.ones((9, 9), np.uint8)))
            found += [(radius * cover[y, x] ** 4, x, y, radius, turn) for y, x in np.argwhere(best)]
    # The largest first. Each line belongs to one shape: what is made of lines already used is no shape.
    count, left = 0, ink.copy()
    for _, *place in sorted(found, reverse=True):
        drawn = np.zeros_like(ink)
        cv2.polylines(drawn, outline(*place), True, 1)
        if left[drawn > 0].mean() > 0.5:
            count += 1
            cv2.polylines(left, outline(*place), True, 0, int(1.5 * width))
    return count


alone = take_single_shapes(contrast)
together = count_overlapping(contrast) if (contrast > threshold).any() else 0
print(alone, "alone,", together, "overlapping")
print(alone + together)
