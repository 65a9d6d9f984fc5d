"""Reading printed text without OCR, by drawing the glyphs again: the part that programs of several worlds share.

Every function here is also source text: `saccade.plugins.worlds.program.compose` puts it into programs that run in the
sandbox. So this file imports nothing but NumPy, OpenCV, Pillow, matplotlib (for its DejaVu fonts) and the standard
library. It reads horizontal DejaVu Sans, regular or bold, in its own sizes, dark on light or light on dark; it is no
reader of photographs or of other faces. Below 14 pixels, and of letters and bold `%`, glyphs can touch and are misread;
words are found by `find_text` instead.
"""

from __future__ import annotations

from functools import cache

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
