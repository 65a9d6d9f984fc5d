"""How programs read diagrams: labels with their places, corners, straight lines. Goes into programs by `compose`.

Knows one figure of lines that hang together on flat paper, with labels next to them that touch nothing.
"""

from __future__ import annotations

from math import dist

import cv2
import numpy as np

from saccade.plugins.worlds.reading.kit import number, read_text, text_boxes

Spot = tuple[float, float]
Label = tuple[str, Spot]


def diagram(rgb: np.ndarray) -> tuple[list[Label], np.ndarray]:
    """Return the labels with their middles, and the mask of the figure's lines."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    paper = int(np.bincount(grey.ravel()).argmax())
    ink = (np.abs(grey.astype(int) - paper) > 60).astype(np.uint8)
    labels = []
    for box in text_boxes(ink, 8):
        labels.append((read_text(grey, box), ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)))
    count, parts, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    large = [part for part in range(1, count) if max(stats[part][2:4]) > 32]
    return labels, np.isin(parts, large).astype(np.uint8)


def known(labels: list[Label]) -> list[tuple[float, Spot]]:
    """Return the labels that are numbers."""
    return [(number(text), at) for text, at in labels if any(sign.isdigit() for sign in text)]


def unknown(labels: list[Label]) -> Spot:
    """Return the place of the x."""
    return next(at for text, at in labels if "x" in text)


def corners(lines: np.ndarray, tolerance: float = 14) -> list[Spot]:
    """Return the corners of the outline of a figure; what sticks out by less than `tolerance` pixels does not count."""
    contours, _ = cv2.findContours(lines, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    outline = max(contours, key=cv2.contourArea)
    polygon = cv2.approxPolyDP(outline, tolerance, True)
    return [(float(x), float(y)) for ((x, y),) in polygon]


def round_outline(lines: np.ndarray) -> tuple[Spot, float]:
    """Return the centre and radius of the circle around a figure."""
    contours, _ = cv2.findContours(lines, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    (x, y), radius = cv2.minEnclosingCircle(max(contours, key=cv2.contourArea))
    return (float(x), float(y)), float(radius)


def sides(points: list[Spot]) -> list[tuple[float, Spot]]:
    """Return the length and middle of every side of a polygon, the longest first."""
    pairs = zip(points, points[1:] + points[:1], strict=True)
    return sorted(((dist(a, b), ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)) for a, b in pairs), reverse=True)


def apex(points: list[Spot]) -> Spot:
    """Return the corner of a triangle whose two sides are most alike."""
    return min(
        points,
        key=lambda p: max(dist(p, q) for q in points if q != p) / min(dist(p, q) for q in points if q != p),
    )


def straight_lines(lines: np.ndarray, count: int) -> list[tuple[float, float]]:
    """Return (distance from the origin, angle of the normal) of the `count` longest straight lines that differ."""
    found: list[tuple[float, float]] = []
    voted = np.asarray(cv2.HoughLines(lines * 255, 1, np.pi / 360, 120))
    for ((rho, theta),) in voted:
        new = True
        for other, angle in found:
            turn = abs(theta - angle)
            flipped = turn > np.pi / 2
            turn = min(turn, np.pi - turn)
            new &= turn > 0.12 or abs(rho - (-other if flipped else other)) > 40
        if new:
            found.append((float(rho), float(theta)))
        if len(found) == count:
            break
    return found


def meeting(a: tuple[float, float], b: tuple[float, float]) -> Spot:
    """Return the point in which two lines cross."""
    normals = np.array([[np.cos(a[1]), np.sin(a[1])], [np.cos(b[1]), np.sin(b[1])]])
    x, y = np.linalg.solve(normals, np.array([a[0], b[0]]))
    return float(x), float(y)


def in_acute(at: Spot, across: tuple[float, float], along: tuple[float, float]) -> bool:
    """Whether a place is in one of the two acute of the four angles between crossing lines."""
    centre = meeting(across, along)
    first, second = (np.array([-np.sin(line[1]), np.cos(line[1])]) for line in (across, along))
    if first @ second < 0:
        second = -second
    parts = np.linalg.solve(np.column_stack([first, second]), np.array(at) - np.array(centre))
    return bool(parts[0] * parts[1] > 0)


def polygon_area(points: list[Spot]) -> float:
    """Return the area by the shoelace formula."""
    pairs = zip(points, points[1:] + points[:1], strict=True)
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs)) / 2
