"""World `pictograph`: rows of small pictures, each standing for so many; value, difference, most, all.

The questions are of the families of InfographicVQA (Mathew et al., 2022): pictures that are counted and multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PIL import ImageDraw
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import pictograph_reading, reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import (
    COLOURS,
    Colour,
    Lettering,
    blank,
    font,
    polygon_points,
    put_label,
    put_text,
)
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.words import ANIMALS, DAYS, FOODS, PEOPLE

PictographKind = Literal["value", "difference", "most", "all"]
KINDS: tuple[PictographKind, ...] = ("value", "difference", "most", "all")
_TOPICS = (("Trees planted", PEOPLE), ("Books read", PEOPLE), ("Baskets sold", FOODS), ("Seen in the wild", ANIMALS))
_WEEK = ("Visitors in a week", DAYS)
_INK: Colour = (28, 30, 40)
_PAPERS: tuple[Colour, ...] = ((255, 255, 255), (250, 246, 236), (238, 246, 244))
_SIDE = 22


class PictographKnobs(Knobs):
    """How many rows there are, and what is asked."""

    rows: int = Field(5, ge=2, le=6)
    """Most rows; at least two."""
    icons: int = Field(9, ge=3, le=10)
    """Most pictures of a row."""
    kinds: tuple[PictographKind, ...] = Field(KINDS, min_length=1)


@dataclass(frozen=True, slots=True)
class _Rows:
    counts: dict[str, int]
    worth: int
    """What one picture stands for."""


def draw(rng: Rng, knobs: PictographKnobs) -> WorldSample:
    """One infographic and a question about it."""
    kind = rng.choice(knobs.kinds)
    title, labels = rng.choice((*_TOPICS, _WEEK))
    # No two rows are equally long.
    names = rng.sample(labels, rng.integer(2, min(knobs.rows, knobs.icons)))
    counts = rng.sample(range(1, knobs.icons + 1), len(names))
    drawn = _Rows(dict(zip(names, counts, strict=True)), rng.choice((2, 5, 10, 20, 25, 50, 100)))
    pitch = rng.integer(46, 58)
    paper, colour = rng.choice(_PAPERS), COLOURS[rng.choice(("red", "orange", "green", "blue", "purple"))]
    size = (180 + 34 * knobs.icons + 30, 140 + pitch * len(names))
    picture, pen = blank(size, paper)
    put_text(pen, (28, 24), title, font(26, "sans-bold"), colour)
    put_icon = _ICONS[rng.choice(sorted(_ICONS))]
    put_icon(pen, (28, 68), colour)
    put_label(pen, (60, 79), f"= {drawn.worth}", Lettering(font(20, "sans-bold"), _INK), "left")
    places = {}
    for number, (name, count) in enumerate(drawn.counts.items()):
        y = 116 + number * pitch
        put_label(pen, (28, y + _SIDE // 2), name, Lettering(font(18), _INK), "left")
        for place in range(count):
            put_icon(pen, (170 + 34 * place, y), colour)
        places[name] = (26, y - 4, 170 + 34 * (count - 1) + _SIDE + 3, y + _SIDE + 5)
    question, answer, lines, used = _ask(rng, kind, drawn)
    start = f'rgb = np.asarray(image_0.convert("RGB"))\nrows = icon_rows(rgb, {names!r})\nprint(rows)\n'
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type=AnswerType.CHOICE if kind == "most" else AnswerType.NUMBER,
        choices=tuple(names) if kind == "most" else (),
        program=compose(reading, pictograph_reading, last=start + lines),
        evidence=tuple(EvidenceBox(image="image_0", xyxy=places[name], label=name) for name in used),
        difficulty=round(sum(counts) / 50, 3),
        tags=(kind, f"{len(names)} rows"),
    )


def _disc(pen: ImageDraw.ImageDraw, at: tuple[int, int], colour: Colour) -> None:
    pen.ellipse((at[0], at[1], at[0] + _SIDE, at[1] + _SIDE), fill=colour)


def _star(pen: ImageDraw.ImageDraw, at: tuple[int, int], colour: Colour) -> None:
    middle = at[0] + _SIDE // 2, at[1] + _SIDE // 2
    outer, inner = polygon_points(middle, _SIDE // 2 + 1, 5), polygon_points(middle, _SIDE // 4, 5, 36)
    pen.polygon([point for pair in zip(outer, inner, strict=True) for point in pair], fill=colour)


def _figure(pen: ImageDraw.ImageDraw, at: tuple[int, int], colour: Colour) -> None:
    """A person: a head on a body."""
    x, y = at
    pen.polygon([(x + 2, y + _SIDE), (x + 6, y + 9), (x + _SIDE - 6, y + 9), (x + _SIDE - 2, y + _SIDE)], fill=colour)
    pen.ellipse((x + 6, y, x + _SIDE - 6, y + 10), fill=colour)


_ICONS: dict[str, Callable[[ImageDraw.ImageDraw, tuple[int, int], Colour], None]] = {
    "disc": _disc,
    "figure": _figure,
    "star": _star,
}


def _ask(rng: Rng, kind: PictographKind, drawn: _Rows) -> tuple[str, str, str, tuple[str, ...]]:
    """Question, answer, end of the program, and the rows that show the answer."""
    names, worth = tuple(drawn.counts), "worth = worth_of(rgb)\nprint(worth)\n"
    if kind == "most":
        top = max(names, key=lambda name: drawn.counts[name])
        return "Which row stands for the most?", top, "print(max(rows, key=rows.get))", (top,)
    if kind == "all":
        total = drawn.worth * sum(drawn.counts.values())
        return (
            "How many do all rows stand for together?",
            str(total),
            worth + "print(worth * sum(rows.values()))",
            names,
        )
    if kind == "value":
        name = rng.choice(names)
        lines = worth + f"print(worth * rows[{name!r}])"
        return f"How many does the row {name} stand for?", str(drawn.worth * drawn.counts[name]), lines, (name,)
    first, second = sorted(rng.sample(names, 2), key=lambda name: -drawn.counts[name])
    answer = str(drawn.worth * (drawn.counts[first] - drawn.counts[second]))
    lines = worth + f"print(worth * (rows[{first!r}] - rows[{second!r}]))"
    return f"How many more does {first} stand for than {second}?", answer, lines, (first, second)


WORLD = World("pictograph@1", "Count and multiply the small pictures of an infographic.", PictographKnobs, draw)
