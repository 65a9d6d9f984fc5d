"""How programs read charts: frame, ticks, colours of a legend, marks. Goes into programs by `program.compose`.

Knows charts with a left or bottom value axis with ticks outwards, marks of flat colours and a legend of squares before
names. Colours are compared exactly, so the picture must not have been compressed with loss.
"""

from __future__ import annotations

import cv2
import numpy as np

from saccade.plugins.worlds.reading.kit import find_text, number, read_text


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
    """Whether the bars lie: the left axis has no ticks, for its values stand at the bottom."""
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
