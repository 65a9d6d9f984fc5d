"""World `chart-line`: value, difference, extreme and count in line charts of one to three series.

Every point has a marker with a ring of the background around it; two markers never touch.
"""

from __future__ import annotations

from itertools import pairwise

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.tasks.worlds import chart_reading, reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import Box, Colour, blank, put_label
from saccade.tasks.worlds.chart_frame import (
    MARKS,
    ChartScale,
    Theme,
    draw_left_axis,
    draw_legend,
    label_room,
    legend_size,
    put_title,
    random_scale,
    random_theme,
    title_room,
)
from saccade.tasks.worlds.chart_questions import KINDS, TOPICS, Drawn, Kind, Topic, ask, pick_values
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng


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


def draw(rng: Rng, knobs: ChartLineKnobs) -> WorldSample:
    """One line chart and a question about it."""
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
    kind = rng.choice(knobs.kinds)
    asked = ask(rng, kind, drawn)
    start = (
        'rgb = np.asarray(image_0.convert("RGB"))\n'
        f"marks = chart_marks(rgb, {drawn.series!r})\n"
        "values = lambda labels: by_label(rgb, marks, labels)\n"
    )
    return WorldSample(
        question=asked.question,
        media={"image_0": picture},
        answer=asked.answer,
        answer_type=asked.answer_type,
        choices=asked.choices,
        program=compose(reading, chart_reading, last=start + asked.lines),
        evidence=asked.evidence,
        difficulty=min(1.0, len(values) / 30),
        tags=(kind, f"{len(series)} series"),
    )


def _values(rng: Rng, series: list[str], count: int, scale: ChartScale, reach: int) -> Lines:
    """Values of every series, different within it, so that markers of `reach` pixels touch neither axis nor marker."""
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
    left = 24 + label_room([scale.text(n) for n in range(0, scale.top + 1, scale.per_tick)], theme)
    plot = (left, 60, left + slot * len(labels), 60 + _HEADROOM + scale.top * scale.px)
    legend = legend_size(theme, list(lines))[0] + 16 if len(lines) > 1 else 16
    size = (max(plot[2] + legend, title_room(theme, topic.title)), plot[3] + theme.text_size + 32)
    picture, pen = blank(size, theme.paper)
    pen.rectangle((plot[0], plot[1], plot[2], plot[3] - 1), fill=theme.plot)
    draw_left_axis(pen, theme, plot, scale)
    pen.line((plot[0], plot[3], plot[2], plot[3]), fill=theme.ink)
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
    put_title(picture, theme, topic.title)
    return picture, marks


def _marker(pen: ImageDraw.ImageDraw, at: tuple[int, int], radius: int, shades: tuple[Colour, Colour]) -> Box:
    for reach, shade in zip((radius + _RING, radius), shades, strict=True):
        pen.ellipse((at[0] - reach, at[1] - reach, at[0] + reach, at[1] + reach), fill=shade)
    return at[0] - radius, at[1] - radius, at[0] + radius + 1, at[1] + radius + 1


WORLD = World("chart-line@2", "Read values, differences, extremes and counts from line charts.", ChartLineKnobs, draw)
