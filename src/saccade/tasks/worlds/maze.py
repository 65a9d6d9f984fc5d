"""World `maze`: which dot can be reached through a maze, and how long is the way?

Between two cells there is at most one way, so its length is never a matter of choice.
"""

from __future__ import annotations

import itertools
from typing import Literal

from PIL import Image
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import COLOURS, Box, blank
from saccade.tasks.worlds.maze_programs import LENGTH, REACH
from saccade.tasks.worlds.rng import Rng

Kind = Literal["reach", "length"]
Cell = tuple[int, int]
"""Column and row."""
Edge = frozenset[Cell]
_TARGETS = ("red", "blue", "orange", "purple")
_QUESTIONS = {
    "reach": (
        "Which dot can be reached from the green dot without crossing a wall?",
        "A mouse on the green dot walks through the maze. To which other dot can it get?",
    ),
    "length": (
        "How many steps from cell to cell is the way from the green dot to the {target} dot?",
        "Walking from cell to cell, how many moves does it take from the green dot to the {target} dot?",
    ),
}


class MazeKnobs(Knobs):
    """Size of the maze."""

    kinds: tuple[Kind, ...] = Field(("reach", "length"), min_length=1)
    fewest: int = Field(6, ge=4, le=40)
    """Cells across or down."""
    most: int = Field(14, ge=4, le=40)
    pixels: int = Field(40, ge=14, le=80)
    """Side of a cell."""


def draw(rng: Rng, knobs: MazeKnobs) -> WorldSample:
    """One picture of a maze with dots."""
    most = max(knobs.fewest, knobs.most)
    columns, rows = rng.integer(knobs.fewest, most), rng.integer(knobs.fewest, most)
    kind = rng.choice(knobs.kinds)
    inks = rng.shuffled(_TARGETS)
    while True:
        edges = _tree(rng, columns, rows)
        start, *others = rng.sample([(x, y) for x in range(columns) for y in range(rows)], 1 + len(_TARGETS))
        way = _way(edges, start, others[0])
        opened = edges if kind == "length" else _cut(rng, edges, way, start, others[1:])
        if opened is not None and len(way) > 4:
            break
    shown = others[:1] if kind == "length" else others
    picture, boxes = _picture(
        rng, knobs.pixels, (columns, rows), opened, dict(zip([start, *shown], ["green", *inks], strict=False))
    )
    return WorldSample(
        question=rng.choice(_QUESTIONS[kind]).format(target=inks[0]),
        media={"image_0": picture},
        choices=tuple(sorted(inks)) if kind == "reach" else (),
        answer=inks[0] if kind == "reach" else str(len(way) - 1),
        answer_type=AnswerType.CHOICE if kind == "reach" else AnswerType.NUMBER,
        program=REACH if kind == "reach" else LENGTH,
        evidence=(
            EvidenceBox(image="image_0", xyxy=boxes[start], label="start"),
            EvidenceBox(image="image_0", xyxy=boxes[others[0]], label="end"),
        ),
        difficulty=min(1.0, columns * rows / 900),
        tags=(kind,),
    )


def _near(cell: Cell, columns: int, rows: int) -> list[Cell]:
    x, y = cell
    around = ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1))
    return [(a, b) for a, b in around if 0 <= a < columns and 0 <= b < rows]


def _tree(rng: Rng, columns: int, rows: int) -> frozenset[Edge]:
    """Open passages that join all cells without a ring, by a random walk that turns back at dead ends."""
    walk = [(rng.integer(0, columns - 1), rng.integer(0, rows - 1))]
    seen, opened = set(walk), set()
    while walk:
        fresh = [cell for cell in _near(walk[-1], columns, rows) if cell not in seen]
        if not fresh:
            walk.pop()
            continue
        following = rng.choice(fresh)
        opened.add(frozenset((walk[-1], following)))
        seen.add(following)
        walk.append(following)
    return frozenset(opened)


def _way(edges: frozenset[Edge], start: Cell, end: Cell) -> list[Cell]:
    """The cells from start to end, both included."""
    came: dict[Cell, Cell] = {start: start}
    front = [start]
    while end not in came:
        cell = front.pop()
        for following in _near(cell, 1 << 30, 1 << 30):
            if following not in came and frozenset((cell, following)) in edges:
                came[following] = cell
                front.append(following)
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def _cut(rng: Rng, edges: frozenset[Edge], way: list[Cell], start: Cell, others: list[Cell]) -> frozenset[Edge] | None:
    """The passages without one towards each of `others` that `way` does not need; None if one lies on the way."""
    kept = {frozenset(pair) for pair in itertools.pairwise(way)}
    closed = set()
    for other in others:
        steps = _way(edges, start, other)
        spare = [frozenset(pair) for pair in itertools.pairwise(steps) if frozenset(pair) not in kept]
        if not spare:
            return None
        closed.add(rng.choice(spare))
    return edges - closed


def _picture(
    rng: Rng, pitch: int, size: tuple[int, int], opened: frozenset[Edge], dots: dict[Cell, str]
) -> tuple[Image.Image, dict[Cell, Box]]:
    """The drawn maze, and the box of every dot."""
    columns, rows = size
    wall = rng.integer(2, max(2, pitch // 10))
    left, top = rng.integer(10, 40), rng.integer(10, 40)
    total = (columns * pitch + wall + left + rng.integer(10, 40), rows * pitch + wall + top + rng.integer(10, 40))
    picture, pen = blank(total, (255, 255, 255))
    ink = rng.choice(((0, 0, 0), (50, 50, 56)))
    for x in range(columns + 1):
        for y in range(rows + 1):
            px, py = left + x * pitch, top + y * pitch
            if y < rows and frozenset(((x - 1, y), (x, y))) not in opened:
                pen.rectangle((px, py, px + wall - 1, py + pitch + wall - 1), fill=ink)
            if x < columns and frozenset(((x, y - 1), (x, y))) not in opened:
                pen.rectangle((px, py, px + pitch + wall - 1, py + wall - 1), fill=ink)
    boxes = {}
    for (x, y), name in dots.items():
        radius = max(3, pitch // 4)
        px, py = left + x * pitch + (pitch + wall) // 2, top + y * pitch + (pitch + wall) // 2
        boxes[x, y] = (px - radius, py - radius, px + radius + 1, py + radius + 1)
        pen.ellipse((px - radius, py - radius, px + radius, py + radius), fill=COLOURS[name])
    return picture, boxes


WORLD = World("maze@1", "Find which dot a maze leads to, or how long the way is.", MazeKnobs, draw)
