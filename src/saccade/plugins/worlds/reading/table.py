"""How programs read printed tables: cells by the label of their row and the header of their column.

Knows dark text on light paper, with lines, with stripes or bare. Goes into programs by `program.compose`.
"""

from __future__ import annotations

from fractions import Fraction

import cv2
import numpy as np

from saccade.plugins.worlds.reading.kit import find_text, number, read_text, text_boxes

Cell = tuple[int, int, int, int]


def grey_of(picture: np.ndarray) -> np.ndarray:
    """Brightness of an RGB picture, 0..255."""
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))


def cells(grey: np.ndarray) -> list[Cell]:
    """Boxes of the texts of a table, lines left out."""
    dark = (grey < 110).astype(np.uint8)
    lines = [cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones(shape, np.uint8)) for shape in ((1, 41), (41, 1))]
    dark[(lines[0] > 0) | (lines[1] > 0)] = 0
    return text_boxes(dark, 16)  # two columns are 20 pixels apart or more, words of a title up to 12


def column_texts(grey: np.ndarray, header: str) -> list[tuple[float, Cell]]:
    """(value, box) of every cell under a header, top to bottom."""
    x0, _, x1, y1 = find_text(grey, header)
    below = [box for box in cells(grey) if box[1] > y1 and box[0] < x1 and x0 < box[2]]
    return [(number(read_text(grey, box)), box) for box in below]


def value_at(grey: np.ndarray, row: str, header: str) -> float:
    """The number in the row of a label and the column of a header."""
    _, y0, _, y1 = find_text(grey, row)
    return min(column_texts(grey, header), key=lambda cell: abs(cell[1][1] + cell[1][3] - y0 - y1))[0]


def body(grey: np.ndarray) -> list[list[Cell]]:
    """The boxes of each row below the headers, left to right; what stands alone in its row is a title."""
    rows: list[list[Cell]] = []
    for box in cells(grey):
        if rows and box[1] < (rows[-1][0][1] + rows[-1][0][3]) / 2:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [sorted(row) for row in rows if len(row) > 1][1:]


def all_numbers(grey: np.ndarray) -> list[float]:
    """Every number of a table, row by row; the first column holds labels."""
    return [number(read_text(grey, box)) for row in body(grey) for box in row[1:]]


def row_numbers(grey: np.ndarray, row: str) -> list[float]:
    """All numbers to the right of a row's label, left to right."""
    _, y0, x1, y1 = find_text(grey, row)
    found = [box for box in cells(grey) if box[0] > x1 and box[1] < (y0 + y1) / 2 < box[3]]
    return [number(read_text(grey, box)) for box in sorted(found)]


def ratio(part: float, total: float) -> str:
    """A fraction of two whole numbers in lowest terms."""
    return str(Fraction(int(part), int(total)))
