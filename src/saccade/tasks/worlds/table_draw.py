"""Draws a table: a title, a row of headers, a column of labels and columns of values; with lines, stripes or bare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageDraw

from saccade.tasks.worlds.canvas import Box, Colour, Lettering, blank, font, put_label, text_size
from saccade.tasks.worlds.rng import Rng


@dataclass(frozen=True, slots=True)
class TableTexts:
    """The texts of a table."""

    title: str
    headers: tuple[str, ...]
    """The first is that of the labels."""
    rows: tuple[tuple[str, ...], ...]
    """The first text of each is its label."""


@dataclass(frozen=True, slots=True)
class _Style:
    line: Colour
    head: Colour
    stripe: Colour
    ink: Colour
    rules: str
    """`grid`, `rows` or `none`: which lines are drawn."""
    text_size: int
    bold_head: bool


_SHADES: tuple[tuple[Colour, Colour, Colour], ...] = (
    ((196, 86, 104), (255, 214, 222), (255, 240, 243)),
    ((86, 122, 176), (208, 224, 246), (238, 244, 252)),
    ((20, 20, 20), (255, 255, 255), (255, 255, 255)),
    ((110, 150, 100), (216, 234, 208), (242, 248, 238)),
    ((170, 140, 80), (246, 232, 196), (252, 247, 234)),
    ((150, 150, 150), (228, 228, 228), (244, 244, 244)),
)


def draw_table(rng: Rng, grid: TableTexts) -> tuple[Image.Image, list[list[Box]]]:
    """The picture, and the boxes of the cells of `grid.rows` in their order."""
    style = _style(rng)
    face = font(style.text_size)
    bold = font(style.text_size, "sans-bold" if style.bold_head else "sans")
    pad, height = rng.integer(10, 20), style.text_size + rng.integer(12, 20)
    widths = [
        max(text_size(grid.headers[i], bold)[0], *(text_size(row[i], face)[0] for row in grid.rows)) + 2 * pad
        for i in range(len(grid.headers))
    ]
    title_face = font(style.text_size + 2, "sans-bold")
    widths[-1] += max(0, text_size(grid.title, title_face)[0] + 2 * pad - sum(widths))
    left, top = rng.integer(8, 40), rng.integer(8, 30)
    picture, pen = blank((sum(widths) + 2 * left, (len(grid.rows) + 2) * height + 2 * top), (255, 255, 255))
    right = left + sum(widths)
    pen.rectangle((left, top, right, top + 2 * height), fill=style.head)
    put_label(pen, ((left + right) // 2, top + height // 2), grid.title, Lettering(title_face, style.ink))
    edges = [left + sum(widths[:i]) for i in range(len(widths) + 1)]
    for i, header in enumerate(grid.headers):
        middle = (edges[i] + edges[i + 1]) // 2
        put_label(pen, (middle, top + height + height // 2), header, Lettering(bold, style.ink))
    boxes = []
    flush = rng.chance(60)
    for index, row in enumerate(grid.rows):
        y = top + (index + 2) * height
        if index % 2:
            pen.rectangle((left, y, right, y + height), fill=style.stripe)
        boxes.append([(edges[i], y, edges[i + 1], y + height) for i in range(len(row))])
        for i, text in enumerate(row):
            align: Literal["left", "middle"] = "left" if i == 0 and flush else "middle"
            x = edges[0] + pad if align == "left" else (edges[i] + edges[i + 1]) // 2
            put_label(pen, (x, y + height // 2), text, Lettering(face, style.ink), align)
    _rules(pen, style, edges, [top, *(top + (i + 1) * height for i in range(len(grid.rows) + 2))])
    return picture, boxes


def _style(rng: Rng) -> _Style:
    line, head, stripe = rng.choice(_SHADES)
    ink = rng.choice(((0, 0, 0), (34, 38, 48), (50, 34, 30)))
    rules = rng.choice(("grid", "grid", "rows", "none"))
    paper = stripe if rng.chance(50) else (255, 255, 255)
    return _Style(line, head, paper, ink, rules, rng.integer(14, 20), rng.chance(70))


def _rules(pen: ImageDraw.ImageDraw, style: _Style, edges: list[int], rows: list[int]) -> None:
    if style.rules == "none":
        return
    for y in rows:
        pen.line((edges[0], y, edges[-1], y), fill=style.line)
    if style.rules == "grid":
        for x in (edges[0], edges[-1]):
            pen.line((x, rows[0], x, rows[-1]), fill=style.line)
        for x in edges[1:-1]:
            # The title spans all columns.
            pen.line((x, rows[1], x, rows[-1]), fill=style.line)
