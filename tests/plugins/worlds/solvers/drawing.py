"""Pictures of the families with exact gold, drawn here: large, then made smaller, so that their edges are smooth."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import cos, pi, sin
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image, ImageDraw
from tests.plugins.worlds import running

from saccade.plugins.worlds.solvers import solver_for

TAB = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")
FINE = 4
"""Drawn at this many times the size."""
Point = tuple[float, float]


def canvas(side: int, paper: str = "white") -> tuple[Image.Image, ImageDraw.ImageDraw]:
    picture = Image.new("RGB", (side * FINE, side * FINE), paper)
    return picture, ImageDraw.Draw(picture)


def done(picture: Image.Image) -> Image.Image:
    return picture.resize((picture.width // FINE, picture.height // FINE), Image.Resampling.BOX)


def corners(centre: Point, radius: float, sides: int, turn: float = 0) -> list[Point]:
    """Of a regular polygon; the first is at the top, turned clockwise by degrees. Many sides make a circle."""
    angles = [turn * pi / 180 - pi / 2 + 2 * pi * k / sides for k in range(sides)]
    return [(centre[0] + radius * cos(angle), centre[1] + radius * sin(angle)) for angle in angles]


def outline(pen: ImageDraw.ImageDraw, points: list[Point], ink: str, width: float) -> None:
    fine = [(x * FINE, y * FINE) for x, y in points]
    pen.line([*fine, fine[0], fine[1]], fill=ink, width=round(width * FINE), joint="curve")


def rings(rng: Random, sides: int, side: int, count: int) -> Image.Image:
    """Two rows of outlines, each overlapping its neighbours of the other row; `sides` 0 for circles."""
    picture, pen = canvas(side, rng.choice(("white", "#f4f1e8")))
    upper = (count + 1) // 2
    reach = side / (2.4 * upper)
    radius = rng.uniform(0.55, 0.95) * reach
    step = (2.1 if not sides else 2 * cos(pi / 10) + 0.1) * radius
    width, one, turn = rng.uniform(0.7, 2.5), rng.random() < 0.5, 0 if not sides else rng.choice((0, 180))
    for number in range(count):
        row, place = divmod(number, upper)
        centre = side / 2 + (place - (upper - 1) / 2 + row / 2) * step, side * 0.4 + row * radius
        outline(pen, corners(centre, radius, sides or 180, turn), "black" if one else TAB[number], width)
    return done(picture)


def scattered(counts: Mapping[int, int], *, filled: bool) -> Image.Image:
    """Shapes apart from each other, as many of each number of sides (0 for circles) as asked for."""
    picture, pen = canvas(500)
    shapes = [sides for sides, count in counts.items() for _ in range(count)]
    for number, sides in enumerate(shapes):
        centre = 70 + number % 4 * 115, 90 + number // 4 * 130
        points = corners(centre, 25 + 5 * number, sides or 180, 17 * number)
        if filled:
            pen.polygon([(x * FINE, y * FINE) for x, y in points], fill=TAB[number])
        else:
            outline(pen, points, TAB[number], 2)
    return done(picture)


def two_lines(rng: Random, side: int, inks: tuple[str, str]) -> tuple[Image.Image, int]:
    """Two lines with a bend each, and how often they cross."""
    picture, pen = canvas(side)
    ticks = list(range(13))
    heights = [rng.sample(ticks, 2) for _ in range(3)]
    width = rng.uniform(1.5, 6) * side / 400
    for line, ink in enumerate(inks):
        points = [(side * (0.02 + 0.48 * k), side * (0.04 + 0.92 * heights[k][line] / 12)) for k in range(3)]
        pen.line([(x * FINE, y * FINE) for x, y in points], fill=ink, width=round(width * FINE), joint="curve")
    above = [first < second for first, second in heights]
    return done(picture), sum(above[k] != above[k + 1] for k in (0, 1))


def squares(rng: Random, side: int, count: int) -> Image.Image:
    picture, pen = canvas(side)
    width = rng.uniform(1.5, 4)
    size = rng.uniform(0.5, 0.8) * side
    x, y = rng.uniform(2, side - size - 2), rng.uniform(2, side - size - 2)
    for _ in range(count):
        outline(pen, [(x, y), (x + size, y), (x + size, y + size), (x, y + size)], "#102030", width)
        inner = size * 0.7 - 2 * width
        free = size - inner - 4 * width
        x, y = x + 2 * width + rng.uniform(0, free), y + 2 * width + rng.uniform(0, free)
        size = inner
    return done(picture)


def grid(rng: Random, size: tuple[int, int], rows: int, columns: int, words: bool) -> Image.Image:
    """A ruled table that fills the picture, its outer lines cut in half by the edge, as BlindTest has them."""
    picture = Image.new("RGB", size, rng.choice(("white", "#eef4fb")))
    pen = ImageDraw.Draw(picture)
    line, ink = rng.choice((2, 5, 9)), rng.choice(("black", "#203080"))
    for k in range(columns + 1):
        pen.line([(k * (size[0] - 1) / columns, 0), (k * (size[0] - 1) / columns, size[1])], fill=ink, width=line)
    for k in range(rows + 1):
        pen.line([(0, k * (size[1] - 1) / rows), (size[0], k * (size[1] - 1) / rows)], fill=ink, width=line)
    for k in range(rows * columns if words else 0):
        at = (k % columns + 0.5) * size[0] / columns, (k // columns + 0.5) * size[1] / rows
        pen.text(at, rng.choice(("book", "light", "x-ray")), fill=ink, anchor="mm")
    return picture


def two_circles(side: int, radii: Point, gap: float, angle: float, *, outlined: bool = False) -> Image.Image:
    """Two circles whose rims are `gap` pixels apart; negative: they overlap."""
    picture, pen = canvas(side)
    apart = radii[0] + radii[1] + gap
    dx, dy = apart * cos(angle) / 2, apart * sin(angle) / 2
    for (x, y), radius, ink in (
        ((side / 2 - dx, side / 2 - dy), radii[0], TAB[0]),
        ((side / 2 + dx, side / 2 + dy), radii[1], TAB[6]),
    ):
        box = [value * FINE for value in (x - radius, y - radius, x + radius, y + radius)]
        if outlined:
            pen.ellipse(box, outline="black", width=2 * FINE)
        else:
            pen.ellipse(box, fill=ink)
    return done(picture)


def printed(question: str, picture: Image.Image) -> str:
    """The last line that the program for `question` prints about `picture`."""
    solver = solver_for(question)
    assert solver is not None, question
    return running.printed(solver.program(), image_clue_0=picture)


def plain(answer: str) -> str:
    """An answer without the form that it was asked for in: its numbers, or its word."""
    return ",".join(re.findall(r"\d+", answer)) or answer.strip(" {}").lower()


FOLDER = Path(__file__).parents[5] / "shared/data/blindtest"
TASKS = ("counting_shapes", "line_intersection", "nested_squares", "rows_columns", "touching_circles")
needs_files = pytest.mark.skipif(not FOLDER.exists(), reason="there are no BlindTest files beside the repository")


def rows(task: str) -> list[dict[str, Any]]:
    """The rows of a task: question, answer, image."""
    lines = (FOLDER / "blindtest.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["task"] == task]


def picture(row: dict[str, Any]) -> Image.Image:
    return Image.open(FOLDER / row["image"])
