"""Read printed pages and rows of small pictures: forms, tables, pictographs, maps with legends, lit solids.

Programs of the worlds are made of these functions by `program.compose`, so each imports only what the sandbox has.
"""

from __future__ import annotations

from fractions import Fraction

import cv2
import numpy as np

from saccade.plugins.worlds.reading.kit import coverage, find_text, number, read_text, text_boxes

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
