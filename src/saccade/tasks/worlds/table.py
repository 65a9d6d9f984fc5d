"""World `table-arithmetic`: a drawn table and a question that needs some of its numbers and a little arithmetic."""

from __future__ import annotations

from pydantic import Field

from saccade.record.task import EvidenceBox
from saccade.tasks.worlds import reading, table_reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.table_draw import draw_table
from saccade.tasks.worlds.table_questions import KINDS, TableKind, table_question


class TableKnobs(Knobs):
    """How long a table may be, and what is asked."""

    rows: int = Field(7, ge=4, le=8)
    """Most rows of values; at least four."""
    kinds: tuple[TableKind, ...] = KINDS


def draw(rng: Rng, knobs: TableKnobs) -> WorldSample:
    """One table and a question about it."""
    kind = rng.choice(knobs.kinds)
    asked = table_question(rng, kind, knobs.rows)
    picture, boxes = draw_table(rng, asked.grid)
    start = 'grey = grey_of(np.asarray(image_0.convert("RGB")))\n'
    return WorldSample(
        question=asked.question,
        media={"image_0": picture},
        answer=asked.answer,
        answer_type=asked.answer_type,
        choices=asked.choices,
        program=compose(reading, table_reading, last=start + asked.lines),
        evidence=tuple(
            EvidenceBox(image="image_0", xyxy=boxes[row][column], label=asked.grid.rows[row][0])
            for row, column in asked.used
        ),
        difficulty=min(1.0, len(asked.used) / 9),
        tags=(kind, "choice" if asked.choices else "free"),
    )


WORLD = World("table-arithmetic@3", "Sums, means, fractions, prices and more from a drawn table.", TableKnobs, draw)
