"""World `chart-pie`: shares, differences, extremes and counts in pie and ring charts with a legend.

Shares are whole percentages of at least three; a slice's area says its share to within half a percent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from PIL import Image
from pydantic import Field

from saccade.plugins.worlds import reading
from saccade.plugins.worlds.canvas import Box, blank
from saccade.plugins.worlds.charts.frame import (
    KINDS,
    MARKS,
    TOPICS,
    ChartScale,
    Kind,
    Theme,
    draw_bottom_axis,
    draw_left_axis,
    draw_legend,
    extreme_of,
    label_room,
    legend_size,
    put_title,
    random_scale,
    random_theme,
    title_room,
)
from saccade.plugins.worlds.program import compose
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample


class ChartPieKnobs(Knobs):
    """How many slices a pie has, and how much they differ."""

    slices: int = Field(6, ge=3, le=7)
    """Most slices; at least three."""
    apart: int = Field(2, ge=1, le=5)
    """Least difference of two shares in percent."""
    kinds: tuple[Kind, ...] = KINDS


_LEAST = 3
_NAMED = "shares = named_shares(rgb, {names})\nprint(shares)\n"


def draw(rng: Rng, knobs: ChartPieKnobs) -> WorldSample:
    """Return one pie chart and a question about it."""
    theme, topic = random_theme(rng), rng.choice(TOPICS)
    labels = rng.sample(topic.labels, rng.integer(3, min(knobs.slices, len(topic.labels))))
    shares = dict(zip(labels, _shares(rng, len(labels), knobs.apart), strict=True))
    picture, pie, entries = _chart(rng, theme, f"{topic.title}: shares", shares)
    kind = rng.choice(knobs.kinds)
    question, answer, lines, used = _ask(rng, kind, shares)
    circle = EvidenceBox(image="image_0", xyxy=pie, label="pie")
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type=AnswerType.CHOICE if kind == "extreme" else AnswerType.NUMBER,
        choices=tuple(sorted(shares)) if kind == "extreme" else (),
        program=compose(reading, last='rgb = np.asarray(image_0.convert("RGB"))\n' + lines),
        evidence=(circle, *(EvidenceBox(image="image_0", xyxy=entries[label], label=label) for label in used)),
        difficulty=len(labels) / 7,
        tags=(kind, f"{len(labels)} slices"),
    )


def _shares(rng: Rng, count: int, apart: int) -> list[int]:
    """Draw whole percentages that sum to 100, each `_LEAST` or more, two of them `apart` or more from each other."""
    while True:
        cuts = sorted(rng.sample(range(1, 100), count - 1))
        shares = [b - a for a, b in zip([0, *cuts], [*cuts, 100], strict=True)]
        ordered = sorted(shares)
        if ordered[0] >= _LEAST and all(b - a >= apart for a, b in pairwise(ordered)):
            return shares


def _ask(rng: Rng, kind: Kind, shares: dict[str, int]) -> tuple[str, str, str, list[str]]:
    """Return question, answer, end of the program, and the labels that show the answer."""
    a, b = sorted(rng.sample(list(shares), 2), key=lambda label: -shares[label])
    if kind == "value":
        return f"What percentage of the whole is {a}?", str(shares[a]), f"print(named_shares(rgb, [{a!r}])[{a!r}])", [a]
    if kind == "difference":
        question = f"By how many percentage points is the share of {a} larger than that of {b}?"
        lines = _NAMED.format(names=[a, b]) + f"print(shares[{a!r}] - shares[{b!r}])"
        return question, str(shares[a] - shares[b]), lines, [a, b]
    if kind == "extreme":
        word, function = rng.choice((("largest", max), ("smallest", min)))
        answer = function(shares, key=lambda label: shares[label])
        lines = _NAMED.format(names=sorted(shares)) + extreme_of("shares", word)
        return f"Which share is the {word}?", answer, lines, [answer]
    # An odd half never is a share itself.
    limit = rng.integer(min(shares.values()), max(shares.values()) - 1) + 0.5
    above = [label for label in shares if shares[label] > limit]
    lines = f"shares = slice_shares(rgb)\nprint(shares)\nprint(sum(share > {limit} for share in shares.values()))"
    return f"How many shares are larger than {limit}%?", str(len(above)), lines, above


def _chart(rng: Rng, theme: Theme, title: str, shares: dict[str, int]) -> tuple[Image.Image, Box, dict[str, Box]]:
    """Return the picture, the box of the pie, and the boxes of the entries of the legend."""
    radius = rng.integer(90, 170)
    labels = list(shares)
    legend = legend_size(theme, labels)
    width = max(24 + 2 * radius + 40 + legend[0], title_room(theme, title))
    height = 64 + max(2 * radius, legend[1]) + 24
    picture, pen = blank((width, height), theme.paper)
    middle = 64 + max(2 * radius, legend[1]) // 2
    pie = (24, middle - radius, 25 + 2 * radius, middle + radius + 1)
    shades = dict(zip(labels, rng.shuffled(MARKS), strict=False))
    # Whole percent are 3.6 degrees: angles of one decimal, exact in every version of the rasteriser.
    start = rng.integer(0, 359)
    tenths = 0
    for label in rng.shuffled(labels):
        end = tenths + 36 * shares[label]
        box = (pie[0], pie[1], pie[2] - 1, pie[3] - 1)
        pen.pieslice(box, start + tenths / 10, start + end / 10, fill=shades[label])
        tenths = end
    if rng.chance(40):
        hole = radius * rng.integer(30, 55) // 100
        centre = (24 + radius, middle)
        pen.ellipse((centre[0] - hole, centre[1] - hole, centre[0] + hole, centre[1] + hole), fill=theme.paper)
    entries = draw_legend(pen, theme, (pie[2] + 24, middle - legend[1] // 2), list(shades.items()))
    put_title(picture, theme, title)
    return picture, pie, entries


WORLD = World("chart-pie@3", "Read shares, differences, extremes and counts from pie charts.", ChartPieKnobs, draw)

# World `chart-scatter`: read points of a scatter chart, of one to three series, by both number axes.
#
# Points never touch; those of one series differ in x and in y, so that a question names one point.

ScatterKind = Literal["value", "difference", "extreme", "count", "count-above"]
_TITLES = ("Trees of a park", "Trial runs", "Samples of soil", "Bees on flowers", "Cups of tea")
_SERIES = ("Group A", "Group B", "Group C")
_MARGIN = 12


class ChartScatterKnobs(Knobs):
    """How many points stand in a chart."""

    points: int = Field(8, ge=4, le=14)
    """Most points of a series; at least four."""
    series: int = Field(3, ge=1, le=3)
    """Most series."""
    kinds: tuple[ScatterKind, ...] = get_args(ScatterKind)


Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Cloud:
    """The points of every series, each as its positions on the two scales."""

    across: ChartScale
    up: ChartScale
    radius: int
    points: dict[str, list[Point]]


def draw_chart_scatter(rng: Rng, knobs: ChartScatterKnobs) -> WorldSample:
    """Return one scatter chart and a question about it."""
    theme = random_theme(rng)
    up, across, radius = random_scale(rng, 3), random_scale(rng, 3), rng.integer(4, 6)
    least = label_room([across.text(tick * across.per_tick) for tick in range(across.ticks + 1)], theme) + 12
    across = ChartScale(
        across.step, across.decimals, max(across.px, -(-least // across.per_tick)), across.per_tick, across.ticks
    )
    names = list(_SERIES[: rng.integer(1, knobs.series)])
    series = names if len(names) > 1 else [""]
    cloud = _Cloud(across, up, radius, _points(rng, series, (across, up), (radius, knobs.points)))
    picture, origin = _chart_chart_scatter(theme, rng, cloud)
    name = rng.choice(series)
    kind = rng.choice(knobs.kinds)
    question, answer, lines, used = _ask_chart_scatter(rng, kind, cloud, name)
    start = f'rgb = np.asarray(image_0.convert("RGB"))\npoints = disc_points(rgb, {name!r})\nprint(points)\n'
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type=AnswerType.NUMBER,
        program=compose(reading, last=start + lines),
        evidence=tuple(_box(cloud, origin, point, name) for point in used),
        difficulty=min(1.0, sum(map(len, cloud.points.values())) / 42),
        tags=(kind, f"{len(series)} series"),
    )


def _points(
    rng: Rng, series: list[str], scales: tuple[ChartScale, ChartScale], sizes: tuple[int, int]
) -> dict[str, list[Point]]:
    radius, most = sizes
    reach = 2 * radius + 4
    taken: list[Point] = []
    points: dict[str, list[Point]] = {}
    for name in series:
        own: list[Point] = []
        wanted = rng.integer(4, most)
        for _ in range(400):
            point = tuple(rng.integer(-(-(radius + 2) // s.px), s.top) for s in scales)
            x, y = (n * s.px for n, s in zip(point, scales, strict=True))
            # Distances of 3 pixels in x and y keep "at x = ..." and "the highest" plain to see.
            if all(max(abs(x - a), abs(y - b)) > reach for a, b in taken) and all(
                min(abs(x - n * scales[0].px), abs(y - m * scales[1].px)) >= 3 for n, m in own
            ):
                own.append((point[0], point[1]))
                taken.append((x, y))
            if len(own) == wanted:
                break
        points[name] = own
    return points


def _ask_chart_scatter(rng: Rng, kind: ScatterKind, cloud: _Cloud, name: str) -> tuple[str, str, str, list[Point]]:
    """Return question, answer, end of the program, and the points that show the answer."""
    points, across, up = cloud.points[name], cloud.across, cloud.up
    whose = f" of {name}" if name else ""
    if kind == "value":
        x, y = rng.choice(points)
        question = f"What is the y value of the point{whose} at x = {across.text(x)}?"
        lines = f"print(show(min(points, key=lambda point: abs(point[0] - {across.text(x)}))[1]))"
        return question, up.text(y), lines, [(x, y)]
    low, high = (f(points, key=lambda point: point[1]) for f in (min, max))
    if kind == "difference":
        question = f"How much larger is the y value of the highest point{whose} than that of the lowest?"
        lines = "heights = [y for _, y in points]\nprint(show(max(heights) - min(heights)))"
        return question, up.text(high[1] - low[1]), lines, [high, low]
    if kind == "extreme":
        top = rng.chance(50)
        word = "highest" if top else "lowest"
        question = f"What is the x value of the {word} point{whose}?"
        lines = (
            f'pick = {{"highest": max, "lowest": min}}[{word!r}]\n'
            "print(show(pick(points, key=lambda point: point[1])[0]))"
        )
        return question, across.text((high if top else low)[0]), lines, [high if top else low]
    if kind == "count":
        return f"How many points{whose} are in the chart?", str(len(points)), "print(len(points))", points
    limit = rng.choice([n for n in range(low[1], high[1]) if all(n != y for _, y in points)])
    above = [point for point in points if point[1] > limit]
    question = f"How many points{whose} have a y value above {up.text(limit)}?"
    return question, str(len(above)), f"print(sum(y > {up.text(limit)} for _, y in points))", above


def _chart_chart_scatter(theme: Theme, rng: Rng, cloud: _Cloud) -> tuple[Image.Image, Point]:
    """Return the picture, and where its axes meet."""
    names = list(cloud.points)
    up, across, title = cloud.up, cloud.across, rng.choice(_TITLES)
    left = 24 + label_room([up.text(n) for n in range(0, up.top + 1, up.per_tick)], theme)
    plot = (left, 60, left + across.top * across.px + _MARGIN, 60 + up.top * up.px + _MARGIN)
    legend = legend_size(theme, names)[0] + 24 if len(names) > 1 else 30
    size = (max(plot[2] + legend, title_room(theme, title)), plot[3] + theme.text_size + 32)
    picture, pen = blank(size, theme.paper)
    pen.rectangle((plot[0], plot[1], plot[2], plot[3] - 1), fill=theme.plot)
    draw_left_axis(pen, theme, plot, up)
    draw_bottom_axis(pen, theme, plot, across)
    pen.line((plot[0], plot[1], plot[0], plot[3]), fill=theme.ink)
    shades = dict(zip(names, rng.shuffled(MARKS), strict=False))
    for name, points in cloud.points.items():
        for point in points:
            x, y = plot[0] + point[0] * across.px, plot[3] - point[1] * up.px
            reach = cloud.radius
            pen.ellipse((x - reach, y - reach, x + reach, y + reach), fill=shades[name])
    if len(names) > 1:
        draw_legend(pen, theme, (plot[2] + 16, plot[1] + 8), list(shades.items()))
    put_title(picture, theme, title)
    return picture, (plot[0], plot[3])


def _box(cloud: _Cloud, origin: Point, point: Point, name: str) -> EvidenceBox:
    x, y = origin[0] + point[0] * cloud.across.px, origin[1] - point[1] * cloud.up.px
    reach = cloud.radius
    return EvidenceBox(image="image_0", xyxy=(x - reach, y - reach, x + reach + 1, y + reach + 1), label=name)


CHART_SCATTER_WORLD = World(
    "chart-scatter@3", "Read and count points of scatter charts.", ChartScatterKnobs, draw_chart_scatter
)
