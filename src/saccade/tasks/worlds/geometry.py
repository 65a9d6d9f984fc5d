"""World `geometry`: angles, lengths and areas from a drawn diagram with its marks and labels.

Diagrams are to scale to within a pixel; the gold answer follows from what is written on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, get_args

from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import geometry_angles, geometry_lengths, geometry_reading, reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import grow
from saccade.tasks.worlds.geometry_draw import Sheet, new_sheet
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng

GeometryKind = Literal[
    "triangle-angle",
    "isosceles",
    "transversal",
    "inscribed",
    "right-triangle",
    "triangle-area",
    "rectangle",
    "circle",
    "grid-area",
]
KINDS: Final[tuple[GeometryKind, ...]] = get_args(GeometryKind)
_DRAW: Final[dict[GeometryKind, Callable[[Rng, Sheet], geometry_angles.Asked]]] = {
    "triangle-angle": geometry_angles.triangle_angle,
    "isosceles": geometry_angles.isosceles,
    "transversal": geometry_angles.transversal,
    "inscribed": geometry_angles.inscribed,
    "right-triangle": geometry_lengths.right_triangle,
    "triangle-area": geometry_lengths.triangle_area,
    "rectangle": geometry_lengths.rectangle,
    "circle": geometry_lengths.circle,
    "grid-area": geometry_lengths.grid_area,
}


class GeometryKnobs(Knobs):
    """Size of the sheet, and what is asked."""

    least_side: int = Field(380, ge=380, le=700)
    most_side: int = Field(560, ge=380, le=900)
    kinds: tuple[GeometryKind, ...] = KINDS


def draw(rng: Rng, knobs: GeometryKnobs) -> WorldSample:
    """One diagram and a question about it."""
    kind = rng.choice(knobs.kinds)
    while True:
        sides = [rng.integer(knobs.least_side, max(knobs.least_side, knobs.most_side)) for _ in range(2)]
        sheet = new_sheet(rng, (sides[0], sides[1]))
        try:
            question, answer, lines = _DRAW[kind](rng, sheet)
        except ValueError:  # a label found no clear place: draw another diagram
            continue
        break
    start = 'labels, lines = diagram(np.asarray(image_0.convert("RGB")))\nprint(labels)\n'
    return WorldSample(
        question=question,
        media={"image_0": sheet.picture},
        answer=answer,
        answer_type=AnswerType.NUMBER,
        program=compose(reading, geometry_reading, last=start + lines),
        evidence=tuple(
            EvidenceBox(image="image_0", xyxy=grow(box, 2, sheet.picture.size), label="label") for box in sheet.boxes
        ),
        difficulty=(KINDS.index(kind) % 4 + 1) / 4,
        tags=(kind,),
    )


WORLD = World("geometry@1", "Angles, lengths and areas from a diagram with marks and labels.", GeometryKnobs, draw)
