"""Amounts that add up, step by step: a column for each step, a part of it for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from saccade.report.plots.curves import HEIGHT, WIDTH, Point
from saccade.report.plots.figure import Figure, below, beside, clean, drawing, hue, key, number
from saccade.report.plots.scale import scale, tight

_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 14.0, 26.0, 40.0
_COLUMNS = 110
"""Most columns; more steps are put together by their mean."""


def stacks(title: str, says: str, parts: Mapping[str, Sequence[Point]], labels: tuple[str, str]) -> Figure | None:
    """Columns of the `parts` (name -> points of step and amount); `labels` are those of both axes.

    None if nothing is above zero. Parts that are always zero are left out.
    """
    table = {name: dict(points) for name, points in parts.items() if any(amount > 0 for _, amount in points)}
    steps = sorted({step for points in table.values() for step in points})
    if not table:
        return None
    size = -(-len(steps) // _COLUMNS)
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    heights = [[_mean(points, group) for points in table.values()] for group in groups]
    across = tight([steps[0] - 0.5, steps[-1] + 0.5], (_LEFT, WIDTH - _RIGHT))
    up = scale([sum(column) for column in heights], (HEIGHT - _BOTTOM, _TOP), zero=True)
    drawn = []
    for group, column in zip(groups, heights, strict=True):
        left, right = across(group[0] - 0.5), across(group[-1] + 0.5)
        height = 0.0
        for place, (name, amount) in enumerate(zip(table, column, strict=True)):
            if amount > 0:
                tooltip = f"{labels[0]} {number(group[0])}: {name} {number(amount)}"
                drawn.append(_part((left, up(height + amount)), (right, up(height)), place, tooltip))
            height += amount
    axes = [
        beside(up, (_LEFT, WIDTH - _RIGHT), label=labels[1]),
        below(across, (_TOP, HEIGHT - _BOTTOM), label=labels[0]),
    ]
    legend = tuple(key(name, place, "block") for place, name in enumerate(table))
    return Figure(title, says, drawing(WIDTH, HEIGHT, [*axes, *drawn], title, says), legend)


def _part(top: tuple[float, float], bottom: tuple[float, float], colour: int, tooltip: str) -> Markup:
    gap = 0.5 if bottom[0] - top[0] > 3 else 0.0
    return Markup(
        '<rect class="part {}" x="{:.2f}" y="{}" width="{:.2f}" height="{:.2f}"><title>{}</title></rect>'
    ).format(hue(colour), top[0], top[1], max(0.5, bottom[0] - top[0] - gap), bottom[1] - top[1], clean(tooltip))


def _mean(points: Mapping[float, float], group: Sequence[float]) -> float:
    return sum(max(0.0, points.get(step, 0.0)) for step in group) / len(group)
