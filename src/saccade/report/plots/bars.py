"""Lying bars: amounts by kind with a bar for each run, and shares of a whole with a part for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from saccade.report.plots.figure import Figure, LegendEntry, below, clean, drawing, key, number, text
from saccade.report.plots.scale import scale

WIDTH = 440.0
_LABEL = 32
"""Longest label beside a bar, in characters."""
_BAR = 13.0
_GAP = 9.0


@dataclass(frozen=True, slots=True)
class StackedBar:
    """One whole and its parts."""

    name: str
    parts: Mapping[str, float]
    """Kind -> amount."""


def bars(title: str, says: str, runs: Mapping[str, Mapping[str, float]], label: str, percent: bool) -> Figure | None:
    """For each kind a bar for each run (run -> kind -> value).

    Kinds that are numbers (`0`, `1`, `3+`) are in their order; others in the order in which they first come.
    """
    kinds = list(dict.fromkeys(kind for values in runs.values() for kind in values))
    if all(kind.rstrip("+").isdecimal() for kind in kinds):
        kinds.sort(key=lambda kind: int(kind.rstrip("+")))
    if not kinds:
        return None
    left = _room(kinds)
    height = _GAP + len(kinds) * (len(runs) * _BAR + _GAP)
    across = scale([v for values in runs.values() for v in values.values()], (left, WIDTH - 44), zero=True)
    drawn = [below(across, (0, height), percent, label)]
    y = _GAP
    for kind in kinds:
        middle = y + len(runs) * _BAR / 2
        drawn.append(text((left - 7, middle + 4), clean(kind, _LABEL), anchor="end", kind="name"))
        for place, (run, values) in enumerate(runs.items()):
            if kind in values:
                drawn.append(_bar((left, y), across(values[kind]), key(run, place), values[kind], percent))
            y += _BAR
        y += _GAP
    legend = tuple(key(run, place, "block") for place, run in enumerate(runs)) if len(runs) > 1 else ()
    return Figure(title, says, drawing(WIDTH, height + 38, drawn, title, says), legend)


def shares(title: str, says: str, rows: Sequence[StackedBar], kinds: Mapping[str, str]) -> Figure | None:
    """For each whole one bar, cut into its parts; `kinds` gives their order and their classes."""
    rows = [bar for bar in rows if sum(bar.parts.values()) > 0]
    if not rows:
        return None
    left = _room([bar.name for bar in rows])
    row = 2 * _BAR
    height = _GAP + len(rows) * (row + _GAP)
    across = scale([0.0, 1.0], (left, WIDTH - 14))
    drawn = [below(across, (0, height), True, "share of samples")]
    for place, bar in enumerate(rows):
        y = _GAP + place * (row + _GAP)
        drawn.append(text((left - 7, y + row / 2 + 4), clean(bar.name, _LABEL), anchor="end", kind="name"))
        total, before = sum(bar.parts.values()), 0.0
        for kind, colour in kinds.items():
            amount = bar.parts.get(kind, 0.0)
            ends = across(before / total), across((before + amount) / total)
            before += amount
            if amount:
                tooltip = f"{bar.name}: {kind} {number(amount / total, 0, True)} ({number(amount)})"
                drawn.append(_share(ends, y, (colour, tooltip), number(round(amount / total, 3), 0, True)))
    used = [kind for kind in kinds if any(bar.parts.get(kind) for bar in rows)]
    legend = tuple(LegendEntry(kind, kinds[kind], shape="block") for kind in used)
    return Figure(title, says, drawing(WIDTH, height + 38, drawn, title, says), legend)


def _room(labels: Sequence[str]) -> float:
    """Pixels for the longest label."""
    return 16 + 7.0 * max(min(len(label), _LABEL) for label in labels)


def _bar(start: tuple[float, float], end: float, own: LegendEntry, value: float, percent: bool) -> Markup:
    label = number(value, 0, percent)
    bar = Markup(
        '<rect class="part {}" x="{}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
    ).format(own.colour, start[0], start[1], max(0.8, end - start[0]), _BAR - 1.5, clean(f"{own.name}: {label}"))
    return bar + text((max(start[0], end) + 5, start[1] + _BAR - 3), label, kind="value")


def _share(ends: tuple[float, float], y: float, own: tuple[str, str], label: str) -> Markup:
    width = ends[1] - ends[0]
    bar = Markup(
        '<rect class="part {}" x="{}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
    ).format(own[0], ends[0], y, max(0.5, width - 1), 2 * _BAR, clean(own[1]))
    if width < 9 + 6.5 * len(label):
        return bar
    return bar + text(((ends[0] + ends[1]) / 2, y + _BAR + 4), label, anchor="middle", kind="inside")
