"""World `sign-colours`: which signs are in the picture, as a look shows a part of a larger one?

For learning to see signs before learning to look for them. A sign counts unless a quarter or more of its width or
height is cut off. Signs lie anywhere, over the border too, but none is cut by about a quarter.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import Field

from saccade.record.task import EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import Box
from saccade.tasks.worlds.parts import ViewBox, holds_middle
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.signs import PLATES
from saccade.tasks.worlds.small_signs import FIND, put_signs
from saccade.tasks.worlds.textures import backdrop

_QUESTION = "Which of these signs are there: {colours}?"
_SAY = 'print(", ".join(colour for colour in sorted(COLOURS) if colour in signs) or "none")\n'


Count = Annotated[int, Field(ge=1, le=len(PLATES))]


class SignColoursKnobs(Knobs):
    """How many signs are asked for, sizes of the picture and of the signs, and how many there are."""

    asked: tuple[Count, Count] = (1, 7)
    """Fewest and most colours that are asked for; one of them is there as often as not."""
    side: tuple[int, int] = (112, 112)
    """Least and greatest side of the square picture in pixels."""
    plate: tuple[int, int] = (6, 55)
    """Least and greatest side of a plate in per cent of the picture's."""
    signs: tuple[int, int] = (1, 6)
    """Fewest and most signs in and around the picture; fewer where there is no room."""
    clutter: int = Field(3, ge=0, le=100)
    """Muted shapes in the background."""


def found_line(asked: Collection[str], inside: Collection[str]) -> str:
    """`blue, red`: the colours that are asked for and there, or `none`."""
    return ", ".join(sorted(colour for colour in asked if colour in inside)) or "none"


def draw(rng: Rng, knobs: SignColoursKnobs) -> WorldSample:
    """A window into a scene with signs of different colours and about one size."""
    side = rng.integer(*knobs.side)
    margin = side // 6
    scene = backdrop(rng, (side + 2 * margin, side + 2 * margin), 2 * knobs.clutter)
    window = (margin, margin, margin + side, margin + side)
    plate = side * rng.integer(*knobs.plate) // 100
    placed = put_signs(rng, scene, plate, rng.integer(*knobs.signs), lambda box: _is_clear(box, window))
    inside = {colour: box for colour, box in placed.items() if holds_middle(window, box)}
    asked = _asked(rng, list(inside), rng.integer(*knobs.asked))
    shown = {colour: _within(box, window) for colour, box in inside.items()}
    return WorldSample(
        question=_QUESTION.format(colours=", ".join(asked)),
        media={"image_0": scene.crop(window)},
        answer=found_line(asked, inside),
        program=f"COLOURS = {asked!r}\n{FIND}{_SAY}",
        evidence=tuple(EvidenceBox(image="image_0", xyxy=box, label=f"{name} sign") for name, box in shown.items()),
        difficulty=0.2,
        tags=("colours",),
    )


def _asked(rng: Rng, inside: list[str], count: int) -> list[str]:
    """The first is as often the colour of a sign that is there as another."""
    there = inside if inside and rng.chance(50) else [colour for colour in PLATES if colour not in inside]
    first = rng.choice(there or inside)
    return rng.shuffled([first, *rng.sample([colour for colour in PLATES if colour != first], count - 1)])


def _is_clear(box: Box, window: ViewBox) -> bool:
    """Whether it is out of question if the sign counts: cut on one side at most, and not by about a quarter."""
    size = box[2] - box[0]
    cut = [(window[0] - box[0]) / size, (window[1] - box[1]) / size]
    cut += [(box[2] - window[2]) / size, (box[3] - window[3]) / size]
    partly = [share for share in cut if share > -0.05]
    if not partly or max(partly) >= 1.05:
        return True
    return len(partly) == 1 and (partly[0] < 0.12 or partly[0] > 0.42)


def _within(box: Box, window: ViewBox) -> Box:
    x0, y0, side = window[0], window[1], window[2] - window[0]
    x, y, right, bottom = (min(max(value - start, 0), side) for value, start in zip(box, (x0, y0, x0, y0), strict=True))
    return x, y, right, bottom


WORLD = World("sign-colours@2", "Say of which colours there are signs in a small picture.", SignColoursKnobs, draw)
