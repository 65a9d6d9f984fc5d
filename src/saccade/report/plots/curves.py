"""Lines over steps or amounts: several series in one chart, raw and smoothed, with single points and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from markupsafe import Markup

from saccade.report.plots.figure import Figure, LegendEntry, below, beside, clean, drawing, key, number, path
from saccade.report.plots.scale import AxisScale, scale, tight

WIDTH, HEIGHT = 440.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 14.0, 26.0, 40.0
_SMOOTHED_FROM = 60
"""Points from which a line is also drawn as a running mean, which then is what the eye follows."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one thing."""

    name: str
    points: tuple[Point, ...]
    number: int
    """Decides the colour."""
    marks: bool = False
    """Drawn with a mark at each point, for few ones."""
    intervals: tuple[tuple[float, float], ...] = ()
    """Of each point, low and high; none, or as many as points."""


@dataclass(frozen=True, slots=True)
class Axes:
    """What the axes of a chart say."""

    x: str
    """Label with its unit."""
    y: str
    percent: bool = False
    """Values are shares, written as percent."""
    zero: bool = True
    """Whether the values begin at 0."""
    percent_x: bool = False
    amounts_x: bool = False
    """Whether x is an amount and begins at 0, and not the step of a run."""


def curves(title: str, says: str, series: Sequence[Series], axes: Axes) -> Figure | None:
    """The chart of `series`; None if they hold no finite value."""
    shown = [kept for one in series if (kept := _finite(one)).points]
    if not shown:
        return None
    xs = [x for one in shown for x, _ in one.points]
    ys = [y for one in shown for _, y in one.points] + [end for one in shown for pair in one.intervals for end in pair]
    room = (_LEFT, WIDTH - _RIGHT)
    across = scale(xs, room, zero=axes.amounts_x) if axes.percent_x or axes.amounts_x else tight(xs, room)
    up = scale(ys, (HEIGHT - _BOTTOM, _TOP), zero=axes.zero)
    parts = [
        beside(up, (_LEFT, WIDTH - _RIGHT), axes.percent, axes.y),
        below(across, (_TOP, HEIGHT - _BOTTOM), axes.percent_x, axes.x),
        *(_drawn(one, across, up, axes) for one in shown),
    ]
    legend = _legend(shown)
    return Figure(title, says, drawing(WIDTH, HEIGHT, parts, title, says), legend if len(legend) > 1 else ())


def smoothed(points: Sequence[Point]) -> list[Point]:
    """The running mean over about a twentieth of the points, fewer at the ends."""
    half = max(1, len(points) // 40)
    values = [y for _, y in points]
    means = []
    for place, (x, _) in enumerate(points):
        near = values[max(0, place - half) : place + half + 1]
        means.append((x, sum(near) / len(near)))
    return means


def _finite(series: Series) -> Series:
    kept = [place for place, point in enumerate(series.points) if all(map(isfinite, point))]
    intervals = tuple(series.intervals[place] for place in kept) if series.intervals else ()
    points = tuple(series.points[place] for place in kept)
    return Series(series.name, points, series.number, series.marks, intervals)


def _legend(series: Sequence[Series]) -> tuple[LegendEntry, ...]:
    return tuple(dict.fromkeys(key(one.name, one.number, "mark" if one.marks else "line") for one in series))


def _drawn(series: Series, across: AxisScale, up: AxisScale, axes: Axes) -> Markup:
    own = key(series.name, series.number)
    parts = []
    if series.marks:
        parts.append(_polyline(series.points, across, up, "link", own.dash))
    elif len(series.points) > _SMOOTHED_FROM:
        parts.append(_polyline(series.points, across, up, "raw", own.dash))
        parts.append(_polyline(smoothed(series.points), across, up, "curve", own.dash))
    else:
        parts.append(_polyline(series.points, across, up, "curve", own.dash))
    for (x, _), (low, high) in zip(series.points, series.intervals, strict=False):
        parts.append(
            Markup('<line class="whisker" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                across(x), across(x), up(low), up(high)
            )
        )
    if series.marks or len(series.points) == 1:
        parts += [_mark(series, point, (across(point[0]), up(point[1])), axes) for point in series.points]
    return Markup('<g class="{}">{}</g>').format(own.colour, Markup("").join(parts))


def _polyline(points: Sequence[Point], across: AxisScale, up: AxisScale, kind: str, dash: str) -> Markup:
    line = path([(across(x), up(y)) for x, y in points])
    return Markup('<path class="{}" d="{}"{}/>').format(
        kind, line, Markup(' stroke-dasharray="{}"').format(dash) if dash else ""
    )


def _mark(series: Series, point: Point, place: tuple[float, float], axes: Axes) -> Markup:
    tooltip = f"{series.name}: {number(point[1], 0, axes.percent)} at {number(point[0], 0, axes.percent_x)}"
    return Markup('<circle class="mark" cx="{}" cy="{}" r="3.6"><title>{}</title></circle>').format(
        *place, clean(tooltip)
    )
