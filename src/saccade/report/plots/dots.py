"""Scores one below the other: a dot for each, an interval where it is known; own runs beside published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from saccade.report.plots.figure import Figure, below, clean, drawing, line, number, short_percent, text
from saccade.report.plots.scale import scale

WIDTH = 440.0
_ROW = 22.0
_LABEL = 30


@dataclass(frozen=True, slots=True)
class Dot:
    """One score on its line."""

    name: str
    value: float
    """From 0 to 1."""
    colour: str = "reference"
    """Name of a class: that of a run, or `reference`."""
    interval: tuple[float, float] | None = None
    why: str = ""
    """Where it comes from."""


def dots(title: str, says: str, rows: Sequence[Dot], label: str) -> Figure | None:
    """The scores in the given order, on an axis from 0 to 100%."""
    if not rows:
        return None
    left = 16 + 7.0 * max(min(len(row.name), _LABEL) for row in rows)
    height = 6 + _ROW * len(rows)
    across = scale([0.0, 1.0], (left, WIDTH - 50), ticks=4)
    drawn = [below(across, (0, height), True, label)]
    for place, row in enumerate(rows):
        y = 6 + _ROW * (place + 0.5)
        x = across(row.value)
        drawn.append(text((left - 8, y + 4), clean(row.name, _LABEL), anchor="end", kind="name"))
        marks = []
        if row.interval is not None:
            marks.append(line((across(row.interval[0]), y), (across(row.interval[1]), y), "whisker"))
        tooltip = f"{row.name}: {number(row.value, 0, True)}" + (f", {row.why}" if row.why else "")
        marks.append(
            Markup('<circle class="mark" cx="{}" cy="{}" r="5"><title>{}</title></circle>').format(x, y, clean(tooltip))
        )
        drawn.append(Markup('<g class="{}">{}</g>').format(row.colour, Markup("").join(marks)))
        drawn.append(text((WIDTH, y + 4), short_percent(row.value), anchor="end", kind="value"))
    return Figure(title, says, drawing(WIDTH, height + 38, drawn, title, says))
