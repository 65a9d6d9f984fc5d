"""Reading printed text without OCR, by drawing the glyphs again: the part that programs of several worlds share.

Every function here is also source text: `saccade.plugins.worlds.program.compose` puts it into programs that run in the
sandbox. So this file imports nothing but NumPy, OpenCV, Pillow, matplotlib (for its DejaVu fonts) and the standard
library. It reads horizontal DejaVu Sans, regular or bold, in its own sizes, dark on light or light on dark; it is no
reader of photographs or of other faces. Below 14 pixels, and of letters and bold `%`, glyphs can touch and are misread;
words are found by `find_text` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import dist
from typing import Any

import cv2
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

GLYPHS = "0123456789.,-$%°?xABCDEFGHKLMNPQRST"
SIZES = range(14, 27)


@cache
def face_of(size: int, bold: bool) -> ImageFont.FreeTypeFont:
    """Return the face at a size in pixels per em."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = f"{matplotlib.get_data_path()}/fonts/ttf/{name}"
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


@cache
def typeset(text: str, size: int, bold: bool) -> np.ndarray:
    """Return the ink of one line as coverage 0..1, trimmed to what is at least a third covered."""
    page = Image.new("L", (size * (len(text) + 2), 3 * size))
    ImageDraw.Draw(page).text((size, size), text, font=face_of(size, bold), fill=255)
    ink = np.asarray(page, np.float32) / 255
    rows, columns = np.nonzero(ink > 0.35)
    return ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def find_text(grey: np.ndarray, text: str, sizes: range = SIZES) -> tuple[int, int, int, int]:
    """Return box (x0, y0, x1, y1) of the place in a grey picture that looks most like `text`, with blank paper around
    it.

    Raises ValueError if nothing looks like it.
    """
    best, box = -1.0, (0, 0, 0, 0)
    for size in sizes:
        for bold in (False, True):
            glyphs = np.pad(typeset(text, size, bold), 3)
            height, width = glyphs.shape
            if height > grey.shape[0] or width > grey.shape[1]:
                continue
            scores = np.abs(cv2.matchTemplate(grey.astype(np.float32), glyphs, cv2.TM_CCOEFF_NORMED))
            scores[~np.isfinite(scores)] = 0  # flat paper has no correlation
            y, x = np.unravel_index(scores.argmax(), scores.shape)
            if scores[y, x] > best:
                best = float(scores[y, x])
                box = (int(x) + 3, int(y) + 3, int(x) + width - 3, int(y) + height - 3)
            if best > 0.985:  # no other size comes as near
                return box
    if best < 0.6:
        raise ValueError(f"{text!r} is not printed here")
    return box


def coverage(grey: np.ndarray) -> np.ndarray:
    """Return the ink of a crop as 0..1: the paper is what most of its edge shows, the ink what differs most from it."""
    grey = grey.astype(np.float32)
    paper = np.median(np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]]))
    distance = np.abs(grey - paper)
    return np.asarray(distance / max(1.0, float(distance.max())))


def difference(seen: np.ndarray, glyph: np.ndarray) -> float:
    """Compute the mean squared difference of a patch of ink and a glyph, 1 if sizes differ by more than a pixel."""
    if max(abs(seen.shape[0] - glyph.shape[0]), abs(seen.shape[1] - glyph.shape[1])) > 1:
        return 1.0
    framed = cv2.copyMakeBorder(seen, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    scores = cv2.matchTemplate(framed, glyph, cv2.TM_SQDIFF)
    return float(scores.min()) / max(seen.size, glyph.size)


def read_text(grey: np.ndarray, box: tuple[int, int, int, int], sizes: range = SIZES) -> str:
    """Read the one line of `GLYPHS` inside `box`, in the size in which it fits best; spaces are not kept."""
    x0, y0, x1, y1 = box
    ink = coverage(grey[max(0, y0) : y1, max(0, x0) : x1])
    inked = np.concatenate([[False], (ink > 0.35).any(axis=0), [False]])
    edges = np.flatnonzero(inked[1:] != inked[:-1])
    patches = []
    for left, right in zip(edges[::2], edges[1::2], strict=True):
        rows = np.flatnonzero((ink[:, left:right] > 0.35).any(axis=1))
        patches.append(ink[rows[0] : rows[-1] + 1, left:right])
    best, text = float("inf"), ""
    for size in sizes:
        for bold in (False, True):
            fits = [min((difference(patch, typeset(g, size, bold)), g) for g in GLYPHS) for patch in patches]
            badness = sum(fit for fit, _ in fits)
            if badness < best:
                best, text = badness, "".join(glyph for _, glyph in fits)
            if best < 0.001 * len(patches):  # no other size comes as near
                return text
    return text


def number(text: str) -> float:
    """Return the number in a printed text such as `$1,250`, `45%` or `-3.5`."""
    return float("".join(sign for sign in text if sign in "0123456789.-"))


def text_boxes(ink: np.ndarray, gap: int, tallest: int = 32) -> list[tuple[int, int, int, int]]:
    """Return boxes of the lines of text in a mask, top to bottom; joins blots at most `gap` pixels apart."""
    count, _, stats, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    small = np.zeros(ink.shape, np.uint8)
    for x, y, w, h, _ in stats[1:count]:
        if h <= tallest and w <= tallest:
            small[y : y + h, x : x + w] = 1
    joined = cv2.morphologyEx(np.pad(small, gap), cv2.MORPH_CLOSE, np.ones((3, gap), np.uint8))[gap:-gap, gap:-gap]
    count, _, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    boxes = [(int(x) - 2, int(y) - 2, int(x + w) + 2, int(y + h) + 2) for x, y, w, h, _ in stats[1:count]]
    return sorted(boxes, key=lambda box: (box[1], box[0]))


def show(value: float) -> str:
    """Return a number as one writes it: no trailing zeros, no rest of the arithmetic."""
    text = f"{round(value, 3):.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# How programs read charts: frame, ticks, colours of a legend, marks. Goes into programs by `program.compose`.
#
# Knows charts with a left or bottom value axis with ticks outwards, marks of flat colours and a legend of squares
# before names. Colours are compared exactly, so the picture must not have been compressed with loss.


def commonest(pixels: np.ndarray) -> np.ndarray:
    """Return the colour that most pixels have."""
    colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    return np.asarray(colours[counts.argmax()])


def mask_of(rgb: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Return where a picture has exactly that colour."""
    return np.asarray(np.all(rgb == colour, axis=2))


def left_spine(rgb: np.ndarray) -> tuple[int, int, int]:
    """Find column, first and last row of the leftmost of the longest one-coloured vertical runs that are not paper."""
    paper = commonest(np.concatenate([rgb[0], rgb[-1]]))
    ink = ~mask_of(rgb, paper)
    run = np.zeros(rgb.shape[1], int)
    best, found = 0, (0, 0, 0)
    for y in range(1, rgb.shape[0]):
        run = (run + 1) * (ink[y] & np.all(rgb[y] == rgb[y - 1], axis=1))
        if run.max() > best or (run.max() == best and int(run.argmax()) < found[0]):
            best = int(run.max())
            found = (int(run.argmax()), y - best, y)
    return found


def upright(rgb: np.ndarray, sideways: bool) -> np.ndarray:
    """Return the picture, or mirrored so that an axis at the bottom stands at the left, its values growing upwards."""
    return rgb[::-1, ::-1].swapaxes(0, 1) if sideways else rgb


def is_sideways(rgb: np.ndarray) -> bool:
    """Return whether the bars lie: the left axis has no ticks, for its values stand at the bottom."""
    column, top, foot = left_spine(rgb)
    beside = rgb[top : foot + 1, column - 3]
    return not np.any(beside != commonest(beside))


def value_scale(rgb: np.ndarray, sideways: bool = False) -> tuple[float, float]:
    """Return (slope, offset) so that slope * row + offset is the value at a row of `upright(rgb, sideways)`."""
    grey = cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2GRAY)
    turned = upright(rgb, sideways)
    column, top, foot = left_spine(turned)
    beside = turned[top : foot + 1, column - 3]
    rows = top + np.flatnonzero(np.any(beside != commonest(beside), axis=1))
    half = int(min(np.diff(rows))) // 2
    height, width = grey.shape
    values = []
    for row in rows:
        if sideways:
            x, y = width - 1 - int(row), height - 1 - column
            box = (x - half, y + 8, x + half, y + 36)
        else:
            box = (0, int(row) - min(half, 14), column - 7, int(row) + min(half, 14))
        values.append(number(read_text(grey, box)))
    slope, offset = np.polyfit(rows, values, 1)
    return float(slope), float(offset)


def swatch(rgb: np.ndarray, name: str) -> np.ndarray:
    """Return the colour of the square that stands before a name in the legend."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    x0, y0, _, y1 = find_text(grey, name)
    return np.asarray(rgb[(y0 + y1) // 2, x0 - 16])


def discs(rgb: np.ndarray, colour: np.ndarray) -> list[tuple[float, float]]:
    """Return centres (x, y) of the discs of a colour right of the left spine and above its foot."""
    column, top, foot = left_spine(rgb)
    count, _, stats, centres = cv2.connectedComponentsWithStats(mask_of(rgb, colour).astype(np.uint8), connectivity=8)
    found = []
    for (_, _, w, h, area), (x, y) in zip(stats[1:count], centres[1:count], strict=True):
        round_enough = w == h and w >= 7 and 0.7 < area / (w * h) < 0.92
        if round_enough and x > column and top <= y < foot:
            found.append((float(x), float(y)))
    return found


def vivid(rgb: np.ndarray) -> np.ndarray:
    """Return the commonest colour that is not nearly grey."""
    spread = rgb.max(axis=2).astype(int) - rgb.min(axis=2)
    return commonest(rgb[spread > 70])


def bar_marks(rgb: np.ndarray, series: str = "") -> list[tuple[float, float]]:
    """Return (place along the category axis, value) of every bar; only those of a series unless that is empty."""
    sideways = is_sideways(rgb)
    slope, offset = value_scale(rgb, sideways)
    wanted = swatch(rgb, series) if series else None
    turned = upright(rgb, sideways)
    column, _, foot = left_spine(turned)
    line = turned[foot - 2, column + 1 :]
    edges = np.flatnonzero(np.any(line[1:] != line[:-1], axis=1)) + 1
    found = []
    for left, right in zip([0, *edges], [*edges, len(line)], strict=True):
        colour = line[left]
        grey = int(colour.max()) - int(colour.min()) <= 70
        if right - left < 5 or grey or (wanted is not None and np.any(colour != wanted)):
            continue
        middle = column + 1 + (left + right - 1) / 2
        other = np.flatnonzero(np.any(turned[: foot - 1, int(middle)] != colour, axis=1))
        found.append((middle, round(slope * (int(other[-1]) + 1) + offset, 3)))
    return found


def disc_marks(rgb: np.ndarray, series: str = "") -> list[tuple[float, float]]:
    """Return (column, value) of every round marker; only those of a series unless that is empty."""
    slope, offset = value_scale(rgb)
    colour = swatch(rgb, series) if series else vivid(rgb)
    return [(x, round(slope * y + offset, 3)) for x, y in discs(rgb, colour)]


def chart_marks(rgb: np.ndarray, series: str = "") -> list[tuple[float, float]]:
    """Return (place along the category axis, value) of every round marker, or of every bar where there is no marker."""
    colour = swatch(rgb, series) if series else vivid(rgb)
    return disc_marks(rgb, series) if discs(rgb, colour) else bar_marks(rgb, series)


def disc_points(rgb: np.ndarray, series: str = "") -> list[tuple[float, float]]:
    """Return (x, y) by both number axes of every round marker; only those of a series unless that is empty."""
    slope, offset = value_scale(rgb)
    across, start = value_scale(rgb, sideways=True)
    colour = swatch(rgb, series) if series else vivid(rgb)
    places = discs(rgb, colour)
    return [(round(across * (rgb.shape[1] - 1 - x) + start, 3), round(slope * y + offset, 3)) for x, y in places]


def slice_shares(rgb: np.ndarray) -> dict[tuple[int, ...], int]:
    """Return the share in percent of each colour of a pie that has a square in the legend."""
    areas = {}
    packed = rgb.astype(np.int32) @ np.array([65536, 256, 1], np.int32)
    for value, pixels in zip(*np.unique(packed, return_counts=True), strict=True):
        if pixels <= 13 * 13:
            continue
        count, _, stats, _ = cv2.connectedComponentsWithStats((packed == value).astype(np.uint8), connectivity=8)
        squares = [area == w * h and (w, h) == (13, 13) for *_, w, h, area in stats[1:count]]
        if any(squares) and not all(squares):
            colour = (int(value) >> 16, int(value) >> 8 & 255, int(value) & 255)
            areas[colour] = max(int(area) for area in stats[1:count, 4])
    return {colour: round(100 * area / sum(areas.values())) for colour, area in areas.items()}


def named_shares(rgb: np.ndarray, names: list[str]) -> dict[str, int]:
    """Return the share in percent of each of these names of the legend."""
    shares = slice_shares(rgb)
    return {name: shares[tuple(map(int, swatch(rgb, name)))] for name in names}


def by_label(rgb: np.ndarray, marks: list[tuple[float, float]], labels: list[str]) -> dict[str, float]:
    """Return the value of the mark that is nearest to each printed label of the category axis."""
    sideways = is_sideways(rgb)
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    _, _, foot = left_spine(upright(rgb, sideways))
    values = {}
    for label in labels:
        if sideways:
            _, y0, _, y1 = find_text(grey[:, : rgb.shape[1] - 1 - foot], label)
            place = rgb.shape[0] - (y0 + y1) / 2 - 0.5
        else:
            x0, _, x1, _ = find_text(grey[foot + 1 :], label)
            place = (x0 + x1) / 2 - 0.5
        values[label] = min(marks, key=lambda mark: abs(mark[0] - place))[1]
    return values


# How programs read diagrams: labels with their places, corners, straight lines. Goes into programs by `compose`.
#
# Knows one figure of lines that hang together on flat paper, with labels next to them that touch nothing.


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
    """Return whether a place is in one of the two acute of the four angles between crossing lines."""
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


# Read printed pages and rows of small pictures: forms, tables, pictographs, maps with legends, lit solids.
#
# Programs of the worlds are made of these functions by `program.compose`, so each imports only what the sandbox has.


# Forms of `form-page`.


PRINT = range(18, 19)
"""Pixels per em of everything but the title."""


def cells_after(grey: np.ndarray, text: str) -> list[str]:
    """Return the texts printed to the right of a text, in the same row, cell by cell."""
    _, y0, x1, y1 = find_text(grey, text, PRINT)
    strip = (coverage(grey[y0 - 5 : y1 + 5, x1 + 14 :]) > 0.35).astype(np.uint8)
    boxes = sorted(text_boxes(strip, 15))
    return [read_text(grey, (x0 + x1 + 14, y0 - 5, x2 + x1 + 14, y1 + 5), PRINT) for x0, _, x2, _ in boxes]


def rows_below(grey: np.ndarray, text: str) -> int:
    """Count the rows that are printed below a text in its column."""
    x0, _, x1, y1 = find_text(grey, text, PRINT)
    column = coverage(grey[y1 + 4 :, x0 : x1 + 30]) > 0.5
    # A rule is ink all the way, a row of words is not.
    inked = np.concatenate([[False], column.any(axis=1) & (column.mean(axis=1) < 0.9), [False]])
    edges = np.flatnonzero(inked[1:] != inked[:-1])
    return int(sum(end - start > 6 for start, end in zip(edges[::2], edges[1::2], strict=True)))


# Tables, dark on light paper, with lines, with stripes or bare: cells by the label of their row and the header of their
# column.


Cell = tuple[int, int, int, int]


def grey_of(picture: np.ndarray) -> np.ndarray:
    """Return the brightness of an RGB picture, 0..255."""
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))


def cells(grey: np.ndarray) -> list[Cell]:
    """Return boxes of the texts of a table, lines left out."""
    dark = (grey < 110).astype(np.uint8)
    lines = [cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones(shape, np.uint8)) for shape in ((1, 41), (41, 1))]
    dark[(lines[0] > 0) | (lines[1] > 0)] = 0
    return text_boxes(dark, 16)  # two columns are 20 pixels apart or more, words of a title up to 12


def column_texts(grey: np.ndarray, header: str) -> list[tuple[float, Cell]]:
    """Return (value, box) of every cell under a header, top to bottom."""
    x0, _, x1, y1 = find_text(grey, header)
    below = [box for box in cells(grey) if box[1] > y1 and box[0] < x1 and x0 < box[2]]
    return [(number(read_text(grey, box)), box) for box in below]


def value_at(grey: np.ndarray, row: str, header: str) -> float:
    """Return the number in the row of a label and the column of a header."""
    _, y0, _, y1 = find_text(grey, row)
    return min(column_texts(grey, header), key=lambda cell: abs(cell[1][1] + cell[1][3] - y0 - y1))[0]


def body(grey: np.ndarray) -> list[list[Cell]]:
    """Return the boxes of each row below the headers, left to right; what stands alone in its row is a title."""
    rows: list[list[Cell]] = []
    for box in cells(grey):
        if rows and box[1] < (rows[-1][0][1] + rows[-1][0][3]) / 2:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [sorted(row) for row in rows if len(row) > 1][1:]


def all_numbers(grey: np.ndarray) -> list[float]:
    """Return every number of a table, row by row; the first column holds labels."""
    return [number(read_text(grey, box)) for row in body(grey) for box in row[1:]]


def row_numbers(grey: np.ndarray, row: str) -> list[float]:
    """Return all numbers to the right of a row's label, left to right."""
    _, y0, x1, y1 = find_text(grey, row)
    found = [box for box in cells(grey) if box[0] > x1 and box[1] < (y0 + y1) / 2 < box[3]]
    return [number(read_text(grey, box)) for box in sorted(found)]


def ratio(part: float, total: float) -> str:
    """Return a fraction of two whole numbers in lowest terms."""
    return str(Fraction(int(part), int(total)))


# Rows of small pictures, of `pictograph`.


def icon_boxes(rgb: np.ndarray) -> list[tuple[int, int]]:
    """Return left edge and middle row of every small picture; the title has their colour too, and stands above them."""
    hsv = cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)
    mask = ((hsv[..., 1] > 110) & (hsv[..., 2] > 70)).astype(np.uint8)
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    return [(int(x), int(y + h // 2)) for x, y, _, h, area in stats[1:count] if y > 60 and area > 80]


def icon_rows(rgb: np.ndarray, names: list[str]) -> dict[str, int]:
    """Count the pictures in the row of each name."""
    grey, icons = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), icon_boxes(rgb)
    rows = {}
    for name in names:
        _, y0, x1, y1 = find_text(grey, name, range(18, 19))
        rows[name] = sum(x > x1 and abs(y - (y0 + y1) / 2) < 18 for x, y in icons)
    return rows


def worth_of(rgb: np.ndarray) -> int:
    """Return how many one picture stands for: the number after the first of them."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    _, y0, x1, y1 = find_text(grey, "=", range(20, 21))
    return int(read_text(grey, (x1 + 5, y0 - 12, x1 + 64, y1 + 12), range(20, 21)))


# Maps whose regions have the colours of a legend, of `region-map`.


def colour_beside(rgb: np.ndarray, text: str, size: int, across: int) -> tuple[int, ...]:
    """Return the colour `across` pixels left of where `text` is printed in `size` pixels per em."""
    x0, y0, _, y1 = find_text(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), text, range(size, size + 1))
    return tuple(int(level) for level in rgb[(y0 + y1) // 2, x0 - across])


def class_of(rgb: np.ndarray, name: str, legend: list[str]) -> str:
    """Return the text of the legend whose colour a region has."""
    colour = colour_beside(rgb, name, 18, 6)
    return min(
        legend, key=lambda text: sum(abs(a - b) for a, b in zip(colour, colour_beside(rgb, text, 18, 20), strict=True))
    )


def regions_of(rgb: np.ndarray, text: str) -> int:
    """Count the regions that have the colour of a text of the legend, whose own patch is none."""
    colour = colour_beside(rgb, text, 18, 20)
    mask = (np.abs(rgb.astype(int) - colour).max(axis=2) == 0).astype(np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
    # Holes in letters are smaller.
    return int((stats[1:, cv2.CC_STAT_AREA] > 300).sum()) - 1


# Lit solids on a grey floor, of `solid-scene`.


HUES = {"red": 0, "yellow": 51, "green": 135, "blue": 223, "purple": 279}
"""Degrees."""


def solids_in(rgb: np.ndarray) -> list[tuple[str, str]]:
    """Return the colour and shape of every solid."""
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


# Coloured things in a video: few frames first, then nearer where something changes. `video` is a frame reader with the
# interface of decord: `len`, indexing, `get_batch`, `get_avg_fps`.


VIDEO_HUES = {"red": 0, "yellow": 25, "green": 66, "blue": 112, "purple": 140}
Blob = tuple[float, float, int]


def blobs_of(rgb: np.ndarray, colour: str) -> list[Blob]:
    """Return (x, y, area) of every blot of a colour in a frame, its hue within 9 of 180 and not dull."""
    hue, saturation, value = cv2.split(cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV))
    turn = np.abs(hue.astype(int) - VIDEO_HUES[colour])
    mask = (np.minimum(turn, 180 - turn) <= 9) & (saturation > 100) & (value > 70)
    count, _, stats, centres = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    return [
        (float(x), float(y), int(area))
        for (*_, area), (x, y) in zip(stats[1:count], centres[1:count], strict=True)
        if area >= 60
    ]


def coarse(video: Any) -> list[int]:
    """Return frames a quarter of a second apart, the last one too."""
    step = max(1, round(video.get_avg_fps() / 4))
    return sorted({*range(0, len(video), step), len(video) - 1})


def boundary(low: int, high: int, seen: Callable[[int], bool]) -> int:
    """Return the first frame after `low` where `seen` is as at `high`, if it changes once between them."""
    wanted = seen(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) == wanted else (middle, high)
    return high


def span_of(video: Any, colour: str) -> tuple[int, int]:
    """Return the first frame in which a colour is seen and the first without it afterwards."""
    frames = coarse(video)

    def seen(frame: int) -> bool:
        return bool(blobs_of(video[frame].asnumpy(), colour))

    shown = [
        frame
        for frame, pixels in zip(frames, video.get_batch(frames).asnumpy(), strict=True)
        if blobs_of(pixels, colour)
    ]
    before = max((frame for frame in frames if frame < shown[0]), default=-1)
    after = min((frame for frame in frames if frame > shown[-1]), default=-1)
    first = boundary(before, shown[0], seen) if before >= 0 else shown[0]
    end = boundary(shown[-1], after, seen) if after >= 0 else len(video)
    return first, end


def places(video: Any, colour: str) -> list[tuple[int, int]]:
    """Return the place of the largest blot of a colour, to the pixel, in each coarse frame that has one."""
    found = []
    for pixels in video.get_batch(coarse(video)).asnumpy():
        blobs = blobs_of(pixels, colour)
        if blobs:
            x, y, _ = max(blobs, key=lambda blob: blob[2])
            found.append((round(x), round(y)))
    return found


def count_tracks(video: Any, colour: str) -> int:
    """Count the things of a colour in the video: a blot with none near it a quarter of a second before is new."""
    before: list[Blob] = []
    count = 0
    for pixels in video.get_batch(coarse(video)).asnumpy():
        now = blobs_of(pixels, colour)
        count += sum(all(dist(blob[:2], old[:2]) > 30 for old in before) for blob in now)
        before = now
    return count
