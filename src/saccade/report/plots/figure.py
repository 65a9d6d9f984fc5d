"""What every chart is: a title, a picture in SVG, the words for whoever cannot see it, and a legend.

Texts go in through `Markup.format`, which escapes them. Colours are classes (`hue0`… for series, names for kinds), so
the style sheet of the page decides how they look in dark and light; no element has a style of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from saccade.report.plain_text import one_line, readable
from saccade.report.plots.scale import AxisScale, short

HUES = (1, 3, 2, 4, 5, 6, 0, 7)
"""Colours of series in their order, red late; beyond them lines are dashed."""
ValueSpan = tuple[float, float]


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One entry of a legend."""

    name: str
    colour: str
    """Name of its class."""
    dash: str = ""
    """`stroke-dasharray`; empty for a whole line."""
    shape: Literal["line", "mark", "block"] = "line"
    """As what it is drawn."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart as a page shows it."""

    title: str
    says: str
    """What the chart shows, in a sentence: its accessible description and its caption."""
    svg: Markup
    legend: tuple[LegendEntry, ...] = ()
    wide: bool = False


def key(name: str, number: int, shape: Literal["line", "mark", "block"] = "line") -> LegendEntry:
    """The entry of series `number`, from 0."""
    return LegendEntry(name, hue(number), ("", "6 4", "2 3")[number // len(HUES) % 3], shape)


def hue(number: int) -> str:
    """The class of series `number`, from 0; a run has the same in tables and figures."""
    return f"hue{HUES[number % len(HUES)]}"


def drawing(width: float, height: float, parts: Iterable[Markup], title: str, says: str) -> Markup:
    """The `svg` element around `parts`."""
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img"><title>{}</title><desc>{}</desc>{}</svg>').format(
        width, height, clean(title), clean(says), Markup("").join(parts)
    )


def text(place: tuple[float, float], words: str, *, anchor: str = "start", kind: str = "tick") -> Markup:
    """Words at a place; `anchor` is SVG's, `kind` a class."""
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind, round(place[0], 1), round(place[1], 1), anchor, clean(words)
    )


def line(start: tuple[float, float], end: tuple[float, float], kind: str) -> Markup:
    """A straight line of the class `kind`."""
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(kind, *start, *end)


def below(axis: AxisScale, y: ValueSpan, percent: bool = False, label: str = "") -> Markup:
    """The axis below a chart that reaches from `y[0]` to `y[1]`: grid, ticks, label."""
    parts = []
    for tick in axis.ticks:
        x = axis(tick)
        parts.append(line((x, y[0]), (x, y[1]), "grid"))
        parts.append(text((x, y[1] + 15), number(tick, axis.step, percent), anchor="middle"))
    parts.append(line((min(axis.start, axis.end), y[1]), (max(axis.start, axis.end), y[1]), "axis"))
    if label:
        parts.append(text((max(axis.start, axis.end), y[1] + 32), label, anchor="end", kind="unit"))
    return Markup("").join(parts)


def beside(axis: AxisScale, x: ValueSpan, percent: bool = False, label: str = "") -> Markup:
    """The axis to the left of a chart that reaches from `x[0]` to `x[1]`; the label stands above it."""
    parts = []
    for tick in axis.ticks:
        y = axis(tick)
        parts.append(line((x[0], y), (x[1], y), "grid"))
        parts.append(text((x[0] - 7, y + 4), number(tick, axis.step, percent), anchor="end"))
    if label:
        parts.append(text((0, 12), label, kind="unit"))
    return Markup("").join(parts)


def number(value: float, step: float = 0.0, percent: bool = False) -> str:
    """A value as a chart writes it."""
    return f"{short(100 * value, 100 * step)}%" if percent else short(value, step)


def clean(words: str, longest: int = 300) -> str:
    """Words of anybody as one line in which nothing hides."""
    return readable(one_line(words, longest))


def path(points: Sequence[tuple[float, float]]) -> str:
    """The `d` of a line through pixels."""
    return "M" + "L".join(f"{x:g},{y:g}" for x, y in points)


def short_percent(value: float) -> str:
    """A share as percent with one digit and without its sign."""
    return f"{100 * value:.1f}".replace("-", "−")
