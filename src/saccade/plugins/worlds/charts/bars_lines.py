"""World `chart-bar`: value, difference, extreme and count in bar charts, standing or lying, of one to three series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds.canvas import Box, Colour, blank, put_label
from saccade.plugins.worlds.charts.frame import (
    KINDS,
    MARKS,
    TOPICS,
    ChartScale,
    Drawn,
    Kind,
    Theme,
    Topic,
    draw_bottom_axis,
    draw_legend,
    label_room,
    legend_size,
    pick_values,
    put_title,
    random_scale,
    random_theme,
    sample_of,
    title_room,
    upright_plot,
)
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample


class ChartBarKnobs(Knobs):
    """How much stands in a chart."""

    categories: int = Field(6, ge=3, le=7)
    """Most categories; at least three."""
    series: int = Field(3, ge=1, le=3)
    """Most series."""
    kinds: tuple[Kind, ...] = KINDS


Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class BarChart:
    """A drawn chart with what stands in it."""

    picture: Image.Image
    drawn: Drawn
    series: int
    sideways: bool


def bar_chart(rng: Rng, knobs: ChartBarKnobs) -> BarChart:
    """Return one bar chart."""
    theme, scale, topic = random_theme(rng), random_scale(rng, 2), rng.choice(TOPICS)
    count = rng.integer(3, min(knobs.categories, len(topic.labels)))
    names = rng.sample(topic.series, rng.integer(1, min(knobs.series, len(topic.series))))
    series = names if len(names) > 1 else [""]
    labels = tuple(topic.labels[:count] if topic.ordered else rng.sample(topic.labels, count))
    values = {
        (label, name): n for name in series for label, n in zip(labels, pick_values(rng, count, scale, 3), strict=True)
    }
    colours = _colours(rng, labels, series)
    sideways = rng.chance(35)
    picture, marks = (_lying if sideways else _standing)(rng, theme, scale, topic.title, (values, colours))
    return BarChart(picture, Drawn(scale, values, marks, labels, rng.choice(series)), len(series), sideways)


def draw(rng: Rng, knobs: ChartBarKnobs) -> WorldSample:
    """Return one bar chart and a question about it."""
    chart = bar_chart(rng, knobs)
    tags = ("lying" if chart.sideways else "standing", f"{chart.series} series")
    sample = sample_of(rng, knobs.kinds, chart.picture, chart.drawn, tags)
    return replace(sample, difficulty=min(1.0, len(chart.drawn.values) / 21))


def _colours(rng: Rng, labels: tuple[str, ...], series: list[str]) -> dict[Key, Colour]:
    shades = rng.shuffled(MARKS)
    if len(series) == 1 and rng.chance(30):
        return {(label, series[0]): shade for label, shade in zip(labels, shades, strict=False)}
    return {(label, name): shade for name, shade in zip(series, shades, strict=False) for label in labels}


Bars = tuple[dict[Key, int], dict[Key, Colour]]
"""Value and colour of each bar."""


def _names(bars: Bars) -> tuple[list[str], list[str]]:
    """Return labels and series in the order drawn."""
    return list(dict.fromkeys(label for label, _ in bars[0])), list(dict.fromkeys(name for _, name in bars[0]))


def _legend(pen: ImageDraw.ImageDraw, theme: Theme, at: tuple[int, int], bars: Bars) -> None:
    labels, series = _names(bars)
    if len(series) > 1:
        draw_legend(pen, theme, at, [(name, bars[1][labels[0], name]) for name in series])


def _standing(rng: Rng, theme: Theme, scale: ChartScale, title: str, bars: Bars) -> tuple[Image.Image, dict[Key, Box]]:
    labels, series = _names(bars)
    bar = rng.integer(12, 30) if len(series) > 1 else rng.integer(20, 46)
    slot = max(bar * len(series) + rng.integer(12, 30), label_room(labels, theme) + 14)
    picture, pen, plot = upright_plot(theme, scale, title, series, (slot * len(labels) + 8, 0))
    marks: dict[Key, Box] = {}
    for index, label in enumerate(labels):
        middle = plot[0] + 4 + index * slot + slot // 2
        put_label(pen, (middle, plot[3] + 10 + theme.text_size // 2), label, theme.label)
        for order, name in enumerate(series):
            x = middle - bar * len(series) // 2 + order * bar
            box = (x, plot[3] - bars[0][label, name] * scale.px, x + bar, plot[3])
            pen.rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=bars[1][label, name])
            marks[label, name] = box
    _legend(pen, theme, (plot[2] + 12, plot[1] + 8), bars)
    return picture, marks


def _lying(rng: Rng, theme: Theme, scale: ChartScale, title: str, bars: Bars) -> tuple[Image.Image, dict[Key, Box]]:
    labels, series = _names(bars)
    bar = rng.integer(10, 20) if len(series) > 1 else rng.integer(16, 34)
    slot = max(bar * len(series) + rng.integer(10, 24), theme.text_size + 10)
    left = 20 + label_room(labels, theme)
    # Labels of the value axis need room side by side.
    least = label_room([scale.text(scale.top)], theme) + 12
    wide = ChartScale(
        scale.step, scale.decimals, max(scale.px, -(-least // scale.per_tick)), scale.per_tick, scale.ticks
    )
    plot = (left, 60, left + wide.top * wide.px, 60 + slot * len(labels) + 8)
    legend = legend_size(theme, series)[0] + 24 if len(series) > 1 else 40
    size = (max(plot[2] + legend, title_room(theme, title)), plot[3] + theme.text_size + 32)
    picture, pen = blank(size, theme.paper)
    pen.rectangle((plot[0] + 1, plot[1], plot[2], plot[3] - 1), fill=theme.plot)
    draw_bottom_axis(pen, theme, plot, wide)
    pen.line((plot[0], plot[1], plot[0], plot[3]), fill=theme.ink)
    marks: dict[Key, Box] = {}
    for index, label in enumerate(labels):
        middle = plot[1] + 4 + index * slot + slot // 2
        put_label(pen, (plot[0] - 8, middle), label, theme.label, "right")
        for order, name in enumerate(series):
            y = middle - bar * len(series) // 2 + order * bar
            box = (plot[0] + 1, y, plot[0] + 1 + bars[0][label, name] * wide.px, y + bar)
            pen.rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=bars[1][label, name])
            marks[label, name] = box
    _legend(pen, theme, (plot[2] + 16, plot[1] + 8), bars)
    put_title(picture, theme, title)
    return picture, marks


WORLD = World("chart-bar@2", "Read values, differences, extremes and counts from bar charts.", ChartBarKnobs, draw)


# World `chart-line`: value, difference, extreme and count in line charts of one to three series.
#
# Every point has a marker with a ring of the background around it; two markers never touch.


class ChartLineKnobs(Knobs):
    """How much stands in a chart."""

    categories: int = Field(8, ge=4, le=10)
    """Most categories; at least four."""
    series: int = Field(3, ge=1, le=3)
    """Most series."""
    kinds: tuple[Kind, ...] = KINDS


_ORDERED = tuple(topic for topic in TOPICS if topic.ordered)
_RING = 3
_HEADROOM = 12
"""Pixels above the top of the scale, so that a marker there stays inside the plot."""
Lines = dict[str, list[int]]
"""The values of each series, in the order of the labels, as n of the scale."""


def draw_chart_lines(rng: Rng, knobs: ChartLineKnobs) -> WorldSample:
    """Return one line chart and a question about it."""
    theme, topic = random_theme(rng), rng.choice(_ORDERED)
    scale, radius = random_scale(rng, 3), rng.integer(4, 6)
    count = rng.integer(4, min(knobs.categories, len(topic.labels)))
    labels = topic.labels[:count]
    series = rng.sample(topic.series, rng.integer(1, min(knobs.series, len(topic.series))))
    if len(series) == 1:
        series = [""]
    lines = _values(rng, series, count, scale, radius + _RING)
    picture, marks = _chart(rng, theme, scale, (topic, labels), (lines, radius))
    values = {(label, name): n for name, line in lines.items() for label, n in zip(labels, line, strict=True)}
    drawn = Drawn(scale, values, marks, labels, rng.choice(series))
    sample = sample_of(rng, knobs.kinds, picture, drawn, (f"{len(series)} series",))
    return replace(sample, difficulty=min(1.0, len(values) / 30))


def _values(rng: Rng, series: list[str], count: int, scale: ChartScale, reach: int) -> Lines:
    """Draw values of every series, so far apart that markers of `reach` pixels touch neither axis nor marker."""
    apart_px = 2 * reach + 2
    while True:
        lines = {name: pick_values(rng, count, scale, 3, reach + 2) for name in series}
        columns = [sorted(line[place] for line in lines.values()) for place in range(count)]
        if all((b - a) * scale.px >= apart_px for column in columns for a, b in pairwise(column)):
            return lines


def _chart(
    rng: Rng, theme: Theme, scale: ChartScale, words: tuple[Topic, tuple[str, ...]], drawn: tuple[Lines, int]
) -> tuple[Image.Image, dict[tuple[str, str], Box]]:
    (topic, labels), (lines, radius) = words, drawn
    slot = max(rng.integer(40, 72), label_room(list(labels), theme) + 14)
    size = (slot * len(labels), _HEADROOM)
    picture, pen, plot = upright_plot(theme, scale, topic.title, list(lines), size)
    middles = [plot[0] + slot * index + slot // 2 for index in range(len(labels))]
    for middle, label in zip(middles, labels, strict=True):
        put_label(pen, (middle, plot[3] + 10 + theme.text_size // 2), label, theme.label)
    shades = dict(zip(lines, rng.shuffled(MARKS), strict=False))
    rows = {name: [plot[3] - n * scale.px for n in line] for name, line in lines.items()}
    width = rng.integer(2, 3)
    for name, line in rows.items():
        pen.line(list(zip(middles, line, strict=True)), fill=shades[name], width=width)
    marks = {}
    for name, line in rows.items():
        for label, x, y in zip(labels, middles, line, strict=True):
            marks[label, name] = _marker(pen, (x, y), radius, (theme.plot, shades[name]))
    if len(lines) > 1:
        draw_legend(pen, theme, (plot[2] + 12, plot[1] + 8), list(shades.items()))
    return picture, marks


def _marker(pen: ImageDraw.ImageDraw, at: tuple[int, int], radius: int, shades: tuple[Colour, Colour]) -> Box:
    for reach, shade in zip((radius + _RING, radius), shades, strict=True):
        pen.ellipse((at[0] - reach, at[1] - reach, at[0] + reach, at[1] + reach), fill=shade)
    return at[0] - radius, at[1] - radius, at[0] + radius + 1, at[1] + radius + 1


CHART_LINES_WORLD = World(
    "chart-line@2", "Read values, differences, extremes and counts from line charts.", ChartLineKnobs, draw_chart_lines
)
