"""World `chart-pie`: shares, differences, extremes and counts in pie and ring charts with a legend.

Shares are whole percentages of at least three; a slice's area says its share to within half a percent.
"""

from __future__ import annotations

from itertools import pairwise

from PIL import Image
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import chart_reading, reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import Box, blank
from saccade.tasks.worlds.chart_frame import (
    MARKS,
    Theme,
    draw_legend,
    legend_size,
    put_title,
    random_theme,
    title_room,
)
from saccade.tasks.worlds.chart_questions import KINDS, TOPICS, Kind, extreme_of
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng


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
    """One pie chart and a question about it."""
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
        program=compose(reading, chart_reading, last='rgb = np.asarray(image_0.convert("RGB"))\n' + lines),
        evidence=(circle, *(EvidenceBox(image="image_0", xyxy=entries[label], label=label) for label in used)),
        difficulty=len(labels) / 7,
        tags=(kind, f"{len(labels)} slices"),
    )


def _shares(rng: Rng, count: int, apart: int) -> list[int]:
    """Whole percentages that sum to 100, each `_LEAST` or more, two of them `apart` or more from each other."""
    while True:
        cuts = sorted(rng.sample(range(1, 100), count - 1))
        shares = [b - a for a, b in zip([0, *cuts], [*cuts, 100], strict=True)]
        ordered = sorted(shares)
        if ordered[0] >= _LEAST and all(b - a >= apart for a, b in pairwise(ordered)):
            return shares


def _ask(rng: Rng, kind: Kind, shares: dict[str, int]) -> tuple[str, str, str, list[str]]:
    """Question, answer, end of the program, and the labels that show the answer."""
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
    """The picture, the box of the pie, and the boxes of the entries of the legend."""
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
