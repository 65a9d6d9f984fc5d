"""Draw charts: a title, a picture in SVG, a description for readers who cannot see it, and a legend.

Texts go in through `Markup.format`, which escapes them. Colours are classes (`hue0`… for series, names for kinds), so
the style sheet of the page decides how they look in dark and light; no element has a style of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Literal

from markupsafe import Markup

from saccade.report.words import one_line, readable

# Axes in numbers: round ticks, pixels of values, and numbers as people write them.


@dataclass(frozen=True, slots=True)
class AxisScale:
    """Values of an axis and the pixels at which they stand."""

    low: float
    high: float
    ticks: tuple[float, ...]
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`; may be the smaller one."""

    def __call__(self, value: float) -> float:
        """Return the pixel of `value`, to a tenth."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def step(self) -> float:
        return self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else self.high - self.low


_SMALL = 0.1
"""Shares up to which an axis ends near them: as of clipped tokens, where 100% would leave a flat line."""


def scale(
    values: Iterable[float], span: tuple[float, float], *, zero: bool = False, share: bool = False, ticks: int = 5
) -> AxisScale:
    """Return an axis over `values` that begins and ends at a tick; `span` is its pixels, with `zero` 0 is on it.

    That of a `share` ends at 1, but where all of them are small.
    """
    known = [value for value in values if isfinite(value)] + ([0.0] if zero else [])
    known += [1.0] if share and max(known, default=0.0) > _SMALL else []
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = (min(low, 0.0), max(high, 0.0)) if low else (0.0, 1.0)
    step = _round_step((high - low) / ticks)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    marks = tuple(step * number for number in range(first, last + 1))
    return AxisScale(marks[0], marks[-1], marks, *span)


def tight(values: Iterable[float], span: tuple[float, float], *, ticks: int = 6) -> AxisScale:
    """Return an axis that begins and ends with the values, for steps of a run; ticks are between."""
    known = [value for value in values if isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = max(1.0, _round_step((high - low) / ticks))
    marks = tuple(step * number for number in range(ceil(low / step), floor(high / step) + 1))
    return AxisScale(low, high, marks, *span)


def short(value: float, step: float = 0.0) -> str:
    """Write a number in few characters, as in `0.25`, `1,200`, `35k`, with the digits that a `step` needs."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            divisor = 1e3 if unit == "k" else size
            return f"{value / divisor:.3g}{unit}".replace("-", "−")
    if value == 0 or abs(value) < step * 1e-6:
        return "0"
    if step and step < abs(value):
        digits = max(0, -floor(log10(step) + 1e-9))
        digits += abs(round(step, digits) - step) > step * 1e-6  # 0.25 needs two
        text = f"{value:,.{digits}f}" if digits <= 4 else f"{value:.2g}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is no smaller."""
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= least * (1 - 1e-9))


HUES = (1, 3, 2, 4, 5, 6, 0, 7)
"""Colours of series in their order, red late; beyond them lines are dashed."""
ValueSpan = tuple[float, float]
Point = tuple[float, float]


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
    """Content of the chart in a sentence: its accessible description and its caption."""
    svg: Markup
    legend: tuple[LegendEntry, ...] = ()
    flat: str = ""
    """What all of it is (`0`, `100%`): then there is nothing to see, and a page folds it."""


def key(name: str, number: int, shape: Literal["line", "mark", "block"] = "line") -> LegendEntry:
    """Return the entry of series `number`, from 0."""
    return LegendEntry(name, hue(number), ("", "6 4", "2 3")[number // len(HUES) % 3], shape)


def hue(number: int) -> str:
    """Return the class of series `number`, from 0; a run has the same in tables and figures."""
    return f"hue{HUES[number % len(HUES)]}"


def drawing(width: float, height: float, parts: Iterable[Markup], title: str, says: str) -> Markup:
    """Return the `svg` element around `parts`."""
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img"><title>{}</title><desc>{}</desc>{}</svg>').format(
        width, height, clean(title), clean(says), Markup("").join(parts)
    )


def text(place: tuple[float, float], words: str, *, anchor: str = "start", kind: str = "tick") -> Markup:
    """Return words at a place; `anchor` is SVG's, `kind` a class."""
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind, round(place[0], 1), round(place[1], 1), anchor, clean(words)
    )


def line(start: tuple[float, float], end: tuple[float, float], kind: str) -> Markup:
    """Return a straight line of the class `kind`."""
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(kind, *start, *end)


def below(axis: AxisScale, y: ValueSpan, percent: bool = False, label: str = "") -> Markup:
    """Return the axis below a chart that reaches from `y[0]` to `y[1]`: grid, ticks, label."""
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
    """Return the axis to the left of a chart that reaches from `x[0]` to `x[1]`; the label stands above it."""
    parts = []
    for tick in axis.ticks:
        y = axis(tick)
        parts.append(line((x[0], y), (x[1], y), "grid"))
        parts.append(text((x[0] - 7, y + 4), number(tick, axis.step, percent), anchor="end"))
    if label:
        parts.append(text((0, 12), label, kind="unit"))
    return Markup("").join(parts)


def _flat(values: Iterable[float], percent: bool) -> str:
    """Return what all `values` are, if that is nothing or, of shares, everything."""
    same = set(values)
    return number(same.pop(), 0, percent) if same in ({0.0}, {1.0} if percent else {0.0}) else ""


def number(value: float, step: float = 0.0, percent: bool = False) -> str:
    """Return a value as a chart writes it."""
    return f"{short(100 * value, 100 * step)}%" if percent else short(value, step)


def clean(words: str, longest: int = 300) -> str:
    """Return words of anybody as one line in which nothing hides."""
    return readable(one_line(words, longest))


def path(points: Sequence[tuple[float, float]]) -> str:
    """Return the `d` of a line through pixels."""
    return "M" + "L".join(f"{x:g},{y:g}" for x, y in points)


def short_percent(value: float) -> str:
    """Return a share as percent with one digit and without its sign."""
    return f"{100 * value:.1f}".replace("-", "−")


# Lying bars: amounts by kind with a bar for each run, and shares of a whole with a part for each kind.

WIDTH = 440.0
_LABEL = 32
"""Longest label next to a bar, in characters."""
_BAR = 13.0
_GAP = 9.0


@dataclass(frozen=True, slots=True)
class StackedBar:
    """One whole and its parts."""

    name: str
    parts: Mapping[str, float]
    """Kind -> amount."""


def bars(title: str, says: str, runs: Mapping[str, Mapping[str, float]], label: str, percent: bool) -> Figure | None:
    """Draw for each kind a bar for each run (run -> kind -> value).

    Kinds that are numbers (`0`, `1`, `3+`) are in their order; others in the order in which they first come.
    """
    kinds = list(dict.fromkeys(kind for values in runs.values() for kind in values))
    if all(kind.rstrip("+").isdecimal() for kind in kinds):
        kinds.sort(key=lambda kind: int(kind.rstrip("+")))
    if not kinds:
        return None
    left = _room(kinds)
    height = _GAP + len(kinds) * (len(runs) * _BAR + _GAP)
    amounts = [amount for values in runs.values() for amount in values.values()]
    across = scale(amounts, (left, WIDTH - 44), zero=True, share=percent)
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
    return Figure(title, says, drawing(WIDTH, height + 38, drawn, title, says), legend, _flat(amounts, percent))


def shares(title: str, says: str, rows: Sequence[StackedBar], kinds: Mapping[str, str]) -> Figure | None:
    """Draw for each whole one bar, cut into its parts; `kinds` gives their order and their classes."""
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
    flat = f"{used[0]}, 100%" if len(used) == 1 else ""
    return Figure(title, says, drawing(WIDTH, height + 38, drawn, title, says), legend, flat)


def _room(labels: Sequence[str]) -> float:
    """Return pixels for the longest label."""
    return 16 + 7.0 * max(min(len(label), _LABEL) for label in labels)


def _block(colour: str, place: Point, size: tuple[float, float], tooltip: str) -> Markup:
    return Markup(
        '<rect class="part {}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.2f}"><title>{}</title></rect>'
    ).format(colour, *place, *size, clean(tooltip))


def _dot(place: Point, radius: float, tooltip: str) -> Markup:
    circle = Markup('<circle class="mark" cx="{}" cy="{}" r="{}"><title>{}</title></circle>')
    return circle.format(*place, radius, clean(tooltip))


def _bar(start: Point, end: float, own: LegendEntry, value: float, percent: bool) -> Markup:
    label = number(value, 0, percent)
    bar = _block(own.colour, start, (max(0.8, end - start[0]), _BAR - 1.5), f"{own.name}: {label}")
    return bar + text((max(start[0], end) + 5, start[1] + _BAR - 3), label, kind="value")


def _share(ends: tuple[float, float], y: float, own: tuple[str, str], label: str) -> Markup:
    width = ends[1] - ends[0]
    bar = _block(own[0], (ends[0], y), (max(0.5, width - 1), 2 * _BAR), own[1])
    if width < 9 + 6.5 * len(label):
        return bar
    return bar + text(((ends[0] + ends[1]) / 2, y + _BAR + 4), label, anchor="middle", kind="inside")


# Lines over steps or amounts: several series in one chart, raw and smoothed, with single points and intervals.

CURVES_WIDTH, HEIGHT = 440.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 14.0, 26.0, 40.0
_SMOOTHED_FROM = 60
"""Points from which a line is also drawn as a running mean, which then is what the eye follows."""


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
    """Axes of a chart."""

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
    """Return the chart of `series`; None if they hold no finite value."""
    shown = [kept for one in series if (kept := _finite(one)).points]
    if not shown:
        return None
    xs = [x for one in shown for x, _ in one.points]
    ys = [y for one in shown for _, y in one.points] + [end for one in shown for pair in one.intervals for end in pair]
    room = (_LEFT, CURVES_WIDTH - _RIGHT)
    known = axes.percent_x or axes.amounts_x
    across = scale(xs, room, zero=axes.amounts_x, share=axes.percent_x) if known else tight(xs, room)
    up = scale(ys, (HEIGHT - _BOTTOM, _TOP), zero=axes.zero, share=axes.percent)
    parts = [
        beside(up, (_LEFT, CURVES_WIDTH - _RIGHT), axes.percent, axes.y),
        below(across, (_TOP, HEIGHT - _BOTTOM), axes.percent_x, axes.x),
        *(_drawn(one, across, up, axes) for one in shown),
    ]
    legend = _legend(shown)
    flat = _flat((y for one in shown for _, y in one.points), axes.percent)
    legend = legend if len(legend) > 1 else ()
    return Figure(title, says, drawing(CURVES_WIDTH, HEIGHT, parts, title, says), legend, flat)


def smoothed(points: Sequence[Point]) -> list[Point]:
    """Return the running mean over about a twentieth of the points, fewer at the ends."""
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
    return _dot(place, 3.6, tooltip)


# Scores one below the other: a dot for each, an interval where it is known; own runs next to published numbers.

_ROW = 22.0
_DOTS_LABEL = 30


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
    """Return the scores in the given order, on an axis from 0 to 100%."""
    if not rows:
        return None
    left = 16 + 7.0 * max(min(len(row.name), _DOTS_LABEL) for row in rows)
    height = 6 + _ROW * len(rows)
    across = scale([0.0, 1.0], (left, WIDTH - 50), ticks=4)
    drawn = [below(across, (0, height), True, label)]
    for place, row in enumerate(rows):
        y = 6 + _ROW * (place + 0.5)
        x = across(row.value)
        drawn.append(text((left - 8, y + 4), clean(row.name, _DOTS_LABEL), anchor="end", kind="name"))
        marks = []
        if row.interval is not None:
            marks.append(line((across(row.interval[0]), y), (across(row.interval[1]), y), "whisker"))
        tooltip = f"{row.name}: {number(row.value, 0, True)}" + (f", {row.why}" if row.why else "")
        marks.append(_dot((x, y), 5, tooltip))
        drawn.append(Markup('<g class="{}">{}</g>').format(row.colour, Markup("").join(marks)))
        drawn.append(text((WIDTH, y + 4), short_percent(row.value), anchor="end", kind="value"))
    flat = _flat((row.value for row in rows), percent=True)
    return Figure(title, says, drawing(WIDTH, height + 38, drawn, title, says), flat=flat)


# Amounts that add up, step by step: a column for each step, a part of it for each kind.

_COLUMNS = 110
"""Most columns; more steps are put together by their mean."""


def stacks(title: str, says: str, parts: Mapping[str, Sequence[Point]], labels: tuple[str, str]) -> Figure | None:
    """Return columns of the `parts` (name -> points of step and amount); `labels` are those of both axes.

    None if nothing is above zero. Parts that are always zero are left out.
    """
    table = {name: dict(points) for name, points in parts.items() if any(amount > 0 for _, amount in points)}
    steps = sorted({step for points in table.values() for step in points})
    if not table:
        return None
    size = -(-len(steps) // _COLUMNS)
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    heights = [[_mean(points, group) for points in table.values()] for group in groups]
    across = tight([steps[0] - 0.5, steps[-1] + 0.5], (_LEFT, CURVES_WIDTH - _RIGHT))
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
        beside(up, (_LEFT, CURVES_WIDTH - _RIGHT), label=labels[1]),
        below(across, (_TOP, HEIGHT - _BOTTOM), label=labels[0]),
    ]
    legend = tuple(key(name, place, "block") for place, name in enumerate(table))
    return Figure(title, says, drawing(CURVES_WIDTH, HEIGHT, [*axes, *drawn], title, says), legend)


def _part(top: tuple[float, float], bottom: tuple[float, float], colour: int, tooltip: str) -> Markup:
    gap = 0.5 if bottom[0] - top[0] > 3 else 0.0
    return _block(hue(colour), top, (max(0.5, bottom[0] - top[0] - gap), bottom[1] - top[1]), tooltip)


def _mean(points: Mapping[float, float], group: Sequence[float]) -> float:
    return sum(max(0.0, points.get(step, 0.0)) for step in group) / len(group)
