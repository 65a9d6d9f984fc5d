"""Curves of line charts at the places of their categories, and slices of pies; each with the evidence that it is one.

A curve is a thin stroke of one colour over most of the labels, with one height for each column; clouds of points, areas
and frames are none. A pie is a full disc or ring whose colours change with the angle only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from saccade.plugins.vista.chart.marks import (
    ChartLegendEntry,
    ChartMark,
    NumberAxis,
    common_colours,
    mask_of_colour,
    middle,
)
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import PixelBox, Rgb
from saccade.tools.measure import PixelArray

_GAP: Final = 9
"""Pixels between dashes of one stroke, or less."""
_SPAN: Final = 0.75
"""Part of the way from the first to the last label that a curve covers."""
_FAT: Final = 16.0
"""Pixels of a stroke from top to bottom, on average, beyond what its slope explains."""
_REACH: Final = 8
"""Columns from a label within which there is ink to both sides, where dashes leave out its own."""

_LEAST_SHADE: Final = 0.4
_MOST_SHADE: Final = 1.6
"""How far a pixel of a curve is from the ground, where its colour, which may be that of a thin stroke, is 1."""
_STEEP: Final = 0.015
"""Part of the height of the axis by which a curve may move from one column to the next."""
_END: Final = 3
"""Columns by which the middle of a label misses the end of a curve."""


@dataclass(frozen=True, slots=True)
class Place:
    """A label and the column, or the row, that it marks."""

    label: TextLine
    at: float


def find_curve(
    rgb: PixelArray, colour: Rgb, ground: Rgb, window: PixelBox, hidden: PixelBox | None
) -> NDArray[np.bool_] | None:
    """Return where the one curve of a colour is, (height, width) of the picture; None if no stroke is one.

    Args:
        rgb: The picture.
        colour: Of the curve.
        ground: What it is drawn on.
        window: The first and the last label, and the rows between which to look.
        hidden: The legend, whose strokes are no curves.
    """
    left, top, right, bottom = window
    mask = _shades(rgb, colour, ground)
    mask[:top] = mask[bottom:] = 0
    if hidden is not None:
        mask[max(0, hidden[1]) : hidden[3], max(0, hidden[0]) : hidden[2]] = 0
    joined = np.asarray(cv2.dilate(mask, np.ones((_GAP, _GAP), np.uint8)), np.uint8)
    _, parts, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    found = []
    for part in range(1, len(stats)):
        if stats[part][2] >= _SPAN * (right - left):
            ink = (parts == part) & (mask > 0)
            columns = np.flatnonzero(ink[:, max(0, left) : right + 1].any(axis=0))
            if len(columns) and columns[-1] - columns[0] >= _SPAN * (right - left) and _is_stroke(ink):
                found.append(ink)
    return found[0] if len(found) == 1 else None


def _shades(rgb: PixelArray, colour: Rgb, ground: Rgb) -> PixelArray:
    """Return where a picture has a colour, or one between it and the ground as thin strokes have: 0 or 255."""
    way = np.array(colour, np.float32) - np.array(ground, np.float32)
    off = rgb.astype(np.float32) - np.array(ground, np.float32)
    part = off @ way / max(1.0, float(way @ way))
    aside = np.abs(off - part[..., None] * way).max(axis=2)
    return np.where((part >= _LEAST_SHADE) & (part <= _MOST_SHADE) & (aside <= 18), 255, 0).astype(np.uint8)


def _is_stroke(ink: NDArray[np.bool_]) -> bool:
    """Whether each column has ink in one place, and no more of it than slope and a pen or markers need."""
    columns = np.flatnonzero(ink.any(axis=0))
    part = ink[:, columns]
    tops, ends = part.argmax(axis=0), len(part) - part[::-1].argmax(axis=0)
    extents, heights = ends - tops, part.sum(axis=0)
    slopes = np.abs(np.gradient((tops + ends) / 2)) if len(columns) > 1 else np.zeros(1)
    torn = np.mean(extents - heights > 2 * _GAP)
    return bool(torn <= 0.1 and np.mean(extents - 2 * slopes) <= _FAT)


def read_points(
    ink: NDArray[np.bool_], axis: NumberAxis, places: Sequence[Place], colour: Rgb, entry: ChartLegendEntry | None
) -> list[ChartMark]:
    """Return a point for each label where the curve passes above it, and not so steeply that a pixel aside matters."""
    marks = []
    ends = [middle(tick, "y") for tick in axis.ticks]
    steepest = _STEEP * (max(ends) - min(ends))
    for place in places:
        x = round(place.at)
        near = [
            column for column in range(max(0, x - _REACH), min(ink.shape[1], x + _REACH + 1)) if ink[:, column].any()
        ]
        below, above = [column for column in near if column <= x], [column for column in near if column >= x]
        if not near or (not (below and above) and min(abs(column - x) for column in near) > _END):
            continue  # beyond its end, where the middle of a label may be a little aside
        before, after = (below or above[:1])[-1], (above or below[-1:])[0]
        first, last = _middle(ink[:, before]), _middle(ink[:, after])
        if max(_leap(ink, before), _leap(ink, after)) * max(1.0, (after - before) / 2) > steepest:
            continue
        row = first if before == after else first + (last - first) * (x - before) / (after - before)
        box = (x - 3, round(row) - 3, x + 4, round(row) + 4)
        marks.append(ChartMark("point", box, colour, place.label, entry, axis.value(row)))
    return marks


def _leap(ink: NDArray[np.bool_], column: int) -> float:
    """Rows by which a curve moves from one column to the next."""
    sides = [other for other in (column - 1, column + 1) if 0 <= other < ink.shape[1] and ink[:, other].any()]
    return max((abs(_middle(ink[:, other]) - _middle(ink[:, column])) for other in sides), default=0.0)


def _middle(column: NDArray[Any]) -> float:
    rows = np.flatnonzero(column)
    return float(rows[0] + rows[-1]) / 2


_SURE: Final = 0.9
"""Confidence of OCR from which a text names a slice."""
_LEAST_RADIUS: Final = 40
_TURNS: Final = 720
_RINGS: Final = (0.25, 0.4, 0.55, 0.7, 0.85)
"""Where a disc or ring is looked at, as parts of the way from its inner to its outer rim."""
_RADIAL: Final = 0.92
"""Share of directions in which most of those are of one colour."""
_LEAST_TURN: Final = 4
"""Steps of the turn that a slice has at least."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A sector of a pie, angles in steps of the turn, clockwise from the right."""

    color: Rgb
    begin: int
    end: int

    @property
    def share(self) -> float:
        """In percent."""
        return 100 * (self.end - self.begin) / _TURNS


def read_pie(
    rgb: PixelArray, paper: Rgb, lines: Sequence[TextLine], legend: Sequence[ChartLegendEntry]
) -> tuple[ChartMark, ...]:
    """Return the slices with their shares in percent, and names from the legend or at their rims where all have one."""
    disc = _disc(rgb, paper)
    if disc is None:
        return ()
    (x, y), radius, inner = disc
    slices = _slices(rgb, (x, y), inner, radius, paper)
    if len(slices) < 2 or len({piece.color for piece in slices}) < len(slices):
        return ()
    named = _by_colour(slices, legend) or _by_rim(slices, lines, (x, y), radius)
    marks = []
    for piece, name in zip(slices, named or [None] * len(slices), strict=True):
        turns = np.radians(np.arange(piece.begin, piece.end + 1) * 360 / _TURNS)
        xs = x + np.outer((inner, radius), np.cos(turns))
        ys = y + np.outer((inner, radius), np.sin(turns))
        box = (int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1)
        entry = next((entry for entry in legend if entry.text is name), None)
        marks.append(ChartMark("slice", box, piece.color, name, entry, piece.share))
    return tuple(marks)


def _disc(rgb: PixelArray, paper: Rgb) -> tuple[tuple[float, float], float, float] | None:
    """Middle, radius and inner radius of the one large disc or ring; None if the largest thing is none."""
    drawn = cv2.bitwise_not(mask_of_colour(rgb, paper))
    thick = cv2.morphologyEx(drawn, cv2.MORPH_CLOSE, np.ones((7, 7), np.uint8))
    thick = cv2.morphologyEx(thick, cv2.MORPH_OPEN, np.ones((15, 15), np.uint8))
    outlines, _ = cv2.findContours(np.asarray(thick, np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline: Any = max(outlines, key=cv2.contourArea, default=None)
    if outline is None:
        return None
    left, top, width, height = cv2.boundingRect(outline)
    x, y, radius = left + (width - 1) / 2, top + (height - 1) / 2, (width + height) / 4
    off = np.abs(np.hypot(*(outline[:, 0] - np.array([x, y])).T) - radius)
    if radius < _LEAST_RADIUS or np.quantile(off, 0.97) > max(2.0, 0.03 * radius):
        return None
    reach = np.arange(0.0, 0.97 * radius)
    turns = np.radians(np.arange(0, 360, 15))[:, None]
    column, row = (x + reach * np.cos(turns)).round().astype(int), (y + reach * np.sin(turns)).round().astype(int)
    empty = drawn[row, column] == 0
    # A hole is as deep in every direction; lines between slices are not.
    holes = [int(np.argmin(line)) for line in empty]
    return (x, y), radius, float(np.median(holes)) if max(holes) - min(holes) <= 0.05 * radius + 4 else 0.0


def _slices(rgb: PixelArray, centre: tuple[float, float], inner: float, radius: float, paper: Rgb) -> list[Slice]:
    turns = np.radians(np.arange(_TURNS) * 360 / _TURNS)[:, None]
    reach = inner + np.array(_RINGS) * (radius - inner)
    columns = (centre[0] + reach * np.cos(turns)).round().astype(int)
    rows = (centre[1] + reach * np.sin(turns)).round().astype(int)
    seen = np.ascontiguousarray(rgb[rows, columns])  # (turns, rings, 3)
    palette = [colour for colour in common_colours(seen) if colour != paper]
    if not palette:
        return []
    off = np.abs(seen[:, :, None].astype(int) - np.array(palette)).max(axis=3)
    nearest = np.where(off.min(axis=2) <= 18, off.argmin(axis=2), -1)
    counts = np.stack([(nearest == index).sum(axis=1) for index in range(len(palette))], axis=1)
    colour, agreed = counts.argmax(axis=1), counts.max(axis=1) >= 3
    if agreed.mean() < _RADIAL:
        return []
    sure = np.flatnonzero(agreed)
    starts = [b for a, b in pairwise([sure[-1], *sure]) if colour[a] != colour[b]]
    before = [a for a, b in pairwise([sure[-1], *sure]) if colour[a] != colour[b]]
    edges = [b - ((b - a) % _TURNS - 1) / 2 for a, b in zip(before, starts, strict=True)]  # between two sure directions
    pieces = []
    for place, (start, edge) in enumerate(zip(starts, edges, strict=True)):
        end = edges[(place + 1) % len(edges)]
        begin = round(edge)
        pieces.append(Slice(palette[int(colour[start])], begin, begin + round((end - edge) % _TURNS)))
    return pieces if all(piece.end - piece.begin >= _LEAST_TURN for piece in pieces) else []


def _by_colour(slices: Sequence[Slice], legend: Sequence[ChartLegendEntry]) -> list[TextLine | None] | None:
    if len(legend) != len(slices):
        return None
    names: list[TextLine | None] = []
    for piece in slices:
        alike = [
            entry.text
            for entry in legend
            if max(abs(a - b) for a, b in zip(entry.color, piece.color, strict=True)) <= 18
        ]
        if len(alike) != 1:
            return None
        names += alike
    return names


def _by_rim(
    slices: Sequence[Slice], lines: Sequence[TextLine], centre: tuple[float, float], radius: float
) -> list[TextLine | None] | None:
    """Return the text at the rim of each slice, at its middle; None unless each slice has just one."""
    names: list[list[TextLine]] = [[] for _ in slices]
    for line in (line for line in lines if line.confidence >= _SURE):
        left, top, right, bottom = line.box
        x = min(max(centre[0], left), right) - centre[0]
        y = (top + bottom) / 2 - centre[1]
        if not 0.98 * radius < np.hypot(x, y) < 1.3 * radius:
            continue
        turn = np.degrees(np.arctan2(y, x)) * _TURNS / 360
        for piece, found in zip(slices, names, strict=True):
            off = (turn - (piece.begin + piece.end) / 2 + _TURNS / 2) % _TURNS - _TURNS / 2
            if abs(off) <= max(12, min(24, (piece.end - piece.begin) / 4)):
                found.append(line)
    used = [found[0] for found in names if len(found) == 1]
    return list(used) if len(used) == len(slices) == len({id(line) for line in used}) else None
