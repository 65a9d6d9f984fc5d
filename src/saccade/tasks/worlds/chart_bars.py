"""World `chart-bar`: value, difference, extreme and count in bar charts, standing or lying, of one to three series."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.tasks.worlds import chart_reading, reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import Box, Colour, blank, put_label
from saccade.tasks.worlds.chart_frame import (
    MARKS,
    ChartScale,
    Theme,
    draw_bottom_axis,
    draw_left_axis,
    draw_legend,
    label_room,
    legend_size,
    put_title,
    random_scale,
    random_theme,
    title_room,
)
from saccade.tasks.worlds.chart_questions import KINDS, TOPICS, Drawn, Kind, ask, pick_values
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng


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
    """One bar chart."""
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
    """One bar chart and a question about it."""
    chart = bar_chart(rng, knobs)
    drawn = chart.drawn
    kind = rng.choice(knobs.kinds)
    asked = ask(rng, kind, drawn)
    start = (
        'rgb = np.asarray(image_0.convert("RGB"))\n'
        f"marks = chart_marks(rgb, {drawn.series!r})\n"
        "values = lambda labels: by_label(rgb, marks, labels)\n"
    )
    return WorldSample(
        question=asked.question,
        media={"image_0": chart.picture},
        answer=asked.answer,
        answer_type=asked.answer_type,
        choices=asked.choices,
        program=compose(reading, chart_reading, last=start + asked.lines),
        evidence=asked.evidence,
        difficulty=min(1.0, len(drawn.values) / 21),
        tags=(kind, "lying" if chart.sideways else "standing", f"{chart.series} series"),
    )


def _colours(rng: Rng, labels: tuple[str, ...], series: list[str]) -> dict[Key, Colour]:
    shades = rng.shuffled(MARKS)
    if len(series) == 1 and rng.chance(30):
        return {(label, series[0]): shade for label, shade in zip(labels, shades, strict=False)}
    return {(label, name): shade for name, shade in zip(series, shades, strict=False) for label in labels}


Bars = tuple[dict[Key, int], dict[Key, Colour]]
"""Value and colour of each bar."""


def _names(bars: Bars) -> tuple[list[str], list[str]]:
    """Labels and series in the order drawn."""
    return list(dict.fromkeys(label for label, _ in bars[0])), list(dict.fromkeys(name for _, name in bars[0]))


def _legend(pen: ImageDraw.ImageDraw, theme: Theme, at: tuple[int, int], bars: Bars) -> None:
    labels, series = _names(bars)
    if len(series) > 1:
        draw_legend(pen, theme, at, [(name, bars[1][labels[0], name]) for name in series])


def _standing(rng: Rng, theme: Theme, scale: ChartScale, title: str, bars: Bars) -> tuple[Image.Image, dict[Key, Box]]:
    labels, series = _names(bars)
    bar = rng.integer(12, 30) if len(series) > 1 else rng.integer(20, 46)
    slot = max(bar * len(series) + rng.integer(12, 30), label_room(labels, theme) + 14)
    left = 24 + label_room([scale.text(n) for n in range(0, scale.top + 1, scale.per_tick)], theme)
    plot = (left, 60, left + slot * len(labels) + 8, 60 + scale.top * scale.px)
    legend = legend_size(theme, series)[0] + 16 if len(series) > 1 else 16
    size = (max(plot[2] + legend, title_room(theme, title)), plot[3] + theme.text_size + 32)
    picture, pen = blank(size, theme.paper)
    pen.rectangle((plot[0], plot[1], plot[2], plot[3] - 1), fill=theme.plot)
    draw_left_axis(pen, theme, plot, scale)
    pen.line((plot[0], plot[3], plot[2], plot[3]), fill=theme.ink)
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
    put_title(picture, theme, title)
    return picture, marks


def _lying(rng: Rng, theme: Theme, scale: ChartScale, title: str, bars: Bars) -> tuple[Image.Image, dict[Key, Box]]:
    labels, series = _names(bars)
    bar = rng.integer(10, 20) if len(series) > 1 else rng.integer(16, 34)
    slot = max(bar * len(series) + rng.integer(10, 24), theme.text_size + 10)
    left = 20 + label_room(labels, theme)
    # Labels of the value axis need room beside each other.
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
