"""Share the parts of drawn charts: themes, number scales of whole pixels, frame with ticks, legend and title.

A scale has a whole number of pixels for each step of its values, so a mark's place says its value exactly. Lines are
drawn without smoothing, so one colour means one thing; text alone is smoothed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from PIL import Image, ImageDraw

from saccade.plugins.worlds import reading
from saccade.plugins.worlds.canvas import (
    ANIMALS,
    BOOKS,
    DAYS,
    FOODS,
    MONTHS,
    PEOPLE,
    PLACES,
    THINGS,
    Box,
    Colour,
    Lettering,
    blank,
    font,
    put_label,
    put_text_centred,
    text_size,
)
from saccade.plugins.worlds.program import compose
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Rng, WorldSample


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of everything but the marks."""

    paper: Colour
    plot: Colour
    ink: Colour
    grid: Colour | None
    """None: no grid lines."""
    text_size: int
    """Pixels per em of labels; the title is four larger."""

    @property
    def label(self) -> Lettering:
        return Lettering(font(self.text_size), self.ink)


@dataclass(frozen=True, slots=True)
class ChartScale:
    """Values `n * step / 10**decimals` for n = 0 .. ticks * per_tick, each `px` pixels from the next."""

    step: int
    decimals: int
    px: int
    per_tick: int
    ticks: int

    @property
    def top(self) -> int:
        """The largest n."""
        return self.per_tick * self.ticks

    def text(self, n: int) -> str:
        return decimal_text(n * self.step, self.decimals)


MARKS: tuple[Colour, ...] = (
    (214, 40, 40), (36, 84, 205), (30, 150, 60), (245, 130, 20), (128, 52, 168), (150, 96, 52), (235, 110, 170),
    (20, 160, 175),
)  # fmt: skip
"""Colours of marks, told apart at a glance on light and on dark paper."""

_PAPERS: tuple[tuple[Colour, Colour, Colour, Colour], ...] = (
    ((255, 255, 255), (255, 255, 255), (30, 30, 30), (208, 208, 208)),
    ((255, 255, 255), (234, 236, 243), (40, 44, 56), (255, 255, 255)),
    ((250, 246, 238), (250, 246, 238), (60, 50, 44), (222, 212, 198)),
    ((32, 36, 46), (32, 36, 46), (226, 228, 232), (78, 84, 98)),
    ((242, 244, 240), (255, 255, 255), (46, 58, 50), (214, 220, 212)),
)


def decimal_text(amount: int, decimals: int) -> str:
    """Return `amount / 10**decimals` without trailing zeros."""
    if decimals == 0:
        return str(amount)
    integer, part = divmod(abs(amount), 10**decimals)
    digits = f"{part:0{decimals}d}".rstrip("0")
    return f"{'-' if amount < 0 else ''}{integer}{'.' + digits if digits else ''}"


def random_theme(rng: Rng) -> Theme:
    """Return one of five papers, with or without grid lines, labels of 14 to 18 pixels."""
    paper, plot, ink, grid = rng.choice(_PAPERS)
    return Theme(paper, plot, ink, grid if rng.chance(60) else None, rng.integer(14, 18))


def random_scale(rng: Rng, least_px: int) -> ChartScale:
    """Return a scale of 180 to 480 pixels whose steps are at least `least_px` pixels wide."""
    decimals = 1 if rng.chance(15) else 0
    step = rng.choice((1, 2, 5)) if decimals else rng.choice((1, 1, 2, 5, 10, 20, 50, 100))
    while True:
        per_tick, ticks = rng.choice((5, 10)), rng.integer(4, 7)
        least, most = max(least_px, -(-180 // (per_tick * ticks))), 480 // (per_tick * ticks)
        if least <= most:
            return ChartScale(step, decimals, rng.integer(least, most), per_tick, ticks)


def draw_left_axis(pen: ImageDraw.ImageDraw, theme: Theme, plot: Box, scale: ChartScale) -> None:
    """Draw ticks, labels, grid and spine of a value axis at the left; n = 0 is on the row `plot[3]`."""
    for tick in range(scale.ticks + 1):
        n = tick * scale.per_tick
        y = plot[3] - n * scale.px
        if theme.grid:
            pen.line((plot[0] + 1, y, plot[2], y), fill=theme.grid)
        pen.line((plot[0] - 5, y, plot[0], y), fill=theme.ink)
        put_label(pen, (plot[0] - 10, y), scale.text(n), theme.label, "right")
    pen.line((plot[0], plot[1], plot[0], plot[3]), fill=theme.ink)


def draw_bottom_axis(pen: ImageDraw.ImageDraw, theme: Theme, plot: Box, scale: ChartScale) -> None:
    """Draw a value axis like `draw_left_axis`, at the bottom; n = 0 is on the column `plot[0]`."""
    for tick in range(scale.ticks + 1):
        n = tick * scale.per_tick
        x = plot[0] + n * scale.px
        if theme.grid:
            pen.line((x, plot[1], x, plot[3] - 1), fill=theme.grid)
        pen.line((x, plot[3], x, plot[3] + 5), fill=theme.ink)
        put_label(pen, (x, plot[3] + 10 + theme.text_size // 2), scale.text(n), theme.label)
    pen.line((plot[0], plot[3], plot[2], plot[3]), fill=theme.ink)


def label_room(texts: list[str], theme: Theme) -> int:
    """Return the width in pixels of the widest text."""
    return max(text_size(text, font(theme.text_size))[0] for text in texts)


def put_title(picture: Image.Image, theme: Theme, title: str) -> None:
    """Draw the title, centred at the top."""
    face = font(theme.text_size + 4, "sans-bold")
    put_text_centred(ImageDraw.Draw(picture), (picture.width // 2, 26), title, face, theme.ink)


def title_room(theme: Theme, title: str) -> int:
    """Return the least width in pixels of a picture with that title."""
    return text_size(title, font(theme.text_size + 4, "sans-bold"))[0] + 32


def legend_size(theme: Theme, names: list[str]) -> tuple[int, int]:
    """Return the width and height in pixels of a legend of one column."""
    return 24 + label_room(names, theme) + 8, len(names) * (theme.text_size + 12)


def upright_plot(
    theme: Theme, scale: ChartScale, title: str, series: list[str], wide: tuple[int, int]
) -> tuple[Image.Image, ImageDraw.ImageDraw, Box]:
    """Return a picture with title, plot and value axis at the left, its pen, and the plot; `series` get a legend.

    `wide` is the width of the plot, and the pixels above the top of the scale.
    """
    left = 24 + label_room([scale.text(n) for n in range(0, scale.top + 1, scale.per_tick)], theme)
    plot = (left, 60, left + wide[0], 60 + wide[1] + scale.top * scale.px)
    legend = legend_size(theme, series)[0] + 16 if len(series) > 1 else 16
    size = (max(plot[2] + legend, title_room(theme, title)), plot[3] + theme.text_size + 32)
    picture, pen = blank(size, theme.paper)
    pen.rectangle((plot[0], plot[1], plot[2], plot[3] - 1), fill=theme.plot)
    draw_left_axis(pen, theme, plot, scale)
    pen.line((plot[0], plot[3], plot[2], plot[3]), fill=theme.ink)
    put_title(picture, theme, title)
    return picture, pen, plot


def draw_legend(
    pen: ImageDraw.ImageDraw, theme: Theme, at: tuple[int, int], entries: list[tuple[str, Colour]]
) -> dict[str, Box]:
    """Return a square of the colour before each name, one below the other; the boxes of the entries by name."""
    pitch, boxes = theme.text_size + 12, {}
    for index, (name, colour) in enumerate(entries):
        y = at[1] + index * pitch + pitch // 2
        pen.rectangle((at[0], y - 6, at[0] + 12, y + 6), fill=colour)
        box = put_label(pen, (at[0] + 22, y), name, theme.label, "left")
        boxes[name] = (at[0], min(y - 6, box[1]), box[2], max(y + 7, box[3]))
    return boxes


# Questions about charts of categories, one or several values each: value, difference, extreme, count.
#
# A bar chart and a line chart are asked the same things; they differ in how a program finds the marks.


Kind = Literal["value", "difference", "extreme", "count"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Topic:
    """Subject of a chart."""

    title: str
    labels: tuple[str, ...]
    series: tuple[str, ...]
    ordered: bool = False
    """Whether the labels have an order of their own."""


_MONTHS = tuple(month[:3] for month in MONTHS)
_DAYS = tuple(day[:3] for day in DAYS)
_CROWDS = ("Adults", "Children", "Students", "Guests", "Members", "Seniors", "Tourists")
TOPICS: Final = (
    Topic("Sales of a fruit stand", FOODS, ("2019", "2020", "2021", "2022", "2023")),
    Topic("Visitors of a museum", _DAYS, _CROWDS, ordered=True),
    Topic("Rain in a year", _MONTHS, PLACES, ordered=True),
    Topic("Books lent", BOOKS, _CROWDS),
    Topic("Animals seen", ANIMALS, ("Spring", "Summer", "Autumn", "Winter")),
    Topic("Bikes rented", _MONTHS, PLACES, ordered=True),
    Topic("Energy used", THINGS, ("Spring", "Summer", "Autumn", "Winter")),
    Topic("Goals scored", ANIMALS, ("Home", "Away")),
    Topic("Steps walked", _DAYS, PEOPLE, ordered=True),
    Topic("Tickets sold", PLACES, _DAYS),
    Topic("Stamps collected", PEOPLE, ("2019", "2020", "2021", "2022", "2023")),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Contents of a drawn chart. Marks are keyed by (label, series), the series being empty if there is one only."""

    scale: ChartScale
    values: dict[tuple[str, str], int]
    """As n of the scale."""
    marks: dict[tuple[str, str], Box]
    labels: tuple[str, ...]
    series: str
    """The series that is asked about."""

    @property
    def of_series(self) -> dict[str, int]:
        return {label: self.values[label, self.series] for label in self.labels}


Asked = tuple[str, str, str, tuple[str, ...]]
"""Question, answer, end of the program (`marks` and `values(labels)` are defined before it), labels that show it."""


def pick_values(rng: Rng, count: int, scale: ChartScale, apart_px: int, above_px: int = 1) -> list[int]:
    """Return `count` values up to the top of the scale, at least `above_px` pixels above zero and `apart_px` from each
    other.

    ValueError if they do not fit.
    """
    apart, lowest = -(-apart_px // scale.px), -(-above_px // scale.px)
    spare = scale.top - lowest - apart * (count - 1)
    if spare < 0:
        raise ValueError(f"{count} values do not fit on a scale of {scale.top} steps, {apart} apart")
    offsets = sorted(rng.integer(0, spare) for _ in range(count))
    return rng.shuffled([lowest + offset + apart * index for index, offset in enumerate(offsets)])


def sample_of(
    rng: Rng, kinds: tuple[Kind, ...], chart: Image.Image, drawn: Drawn, tags: tuple[str, ...]
) -> WorldSample:
    """Return a question of one of the kinds about one series of a chart of bars or lines; its kind is the first tag."""
    kind = rng.choice(kinds)
    question, answer, lines, labels = _ASK[kind](rng, drawn)
    name = f" {drawn.series}" if drawn.series else ""
    start = (
        'rgb = np.asarray(image_0.convert("RGB"))\n'
        f"marks = chart_marks(rgb, {drawn.series!r})\n"
        "values = lambda labels: by_label(rgb, marks, labels)\n"
    )
    return WorldSample(
        question=question,
        media={"image_0": chart},
        answer=answer,
        answer_type=AnswerType.CHOICE if kind == "extreme" else AnswerType.NUMBER,
        choices=drawn.labels if kind == "extreme" else (),
        program=compose(reading, last=start + lines),
        evidence=tuple(
            EvidenceBox(image="image_0", xyxy=drawn.marks[label, drawn.series], label=label + name) for label in labels
        ),
        tags=(kind, *tags),
    )


def extreme_of(names: str, word: str) -> str:
    """Return the end of a program that prints which of these names (a variable: name to value) is the extreme one."""
    return f'pick = {{"largest": max, "smallest": min}}[{word!r}]\nprint(pick({names}, key={names}.get))'


def _of(series: str) -> str:
    return f" of {series}" if series else ""


def _value(rng: Rng, drawn: Drawn) -> Asked:
    label = rng.choice(drawn.labels)
    wordings = ("What is the value{of} for {label}?", "How large is the value{of} for {label} in this chart?")
    question = rng.choice(wordings).format(of=_of(drawn.series), label=label)
    lines = f"found = values([{label!r}])\nprint(found)\nprint(show(found[{label!r}]))"
    return question, drawn.scale.text(drawn.of_series[label]), lines, (label,)


def _difference(rng: Rng, drawn: Drawn) -> Asked:
    values = drawn.of_series
    a, b = sorted(rng.sample(drawn.labels, 2), key=lambda label: -values[label])
    wordings = (
        "By how much is the value{of} for {a} larger than for {b}?",
        "What is the difference between the values{of} for {a} and {b}?",
    )
    question = rng.choice(wordings).format(of=_of(drawn.series), a=a, b=b)
    lines = f"found = values([{a!r}, {b!r}])\nprint(found)\nprint(show(abs(found[{a!r}] - found[{b!r}])))"
    return question, drawn.scale.text(values[a] - values[b]), lines, (a, b)


def _extreme(rng: Rng, drawn: Drawn) -> Asked:
    word, function = ("largest", max) if rng.chance(50) else ("smallest", min)
    answer = function(drawn.labels, key=lambda label: drawn.of_series[label])
    wordings = ("For which category is the value{of} {word}?", "Which category has the {word} value{of}?")
    question = rng.choice(wordings).format(of=_of(drawn.series), word=word)
    lines = f"found = values({list(drawn.labels)!r})\nprint(found)\n" + extreme_of("found", word)
    return question, answer, lines, (answer,)


def _count(rng: Rng, drawn: Drawn) -> Asked:
    values = drawn.of_series
    low, high = min(values.values()), max(values.values())
    # No mark stands on the threshold.
    limit = rng.choice([n for n in range(low, high) if n not in values.values()])
    above = tuple(label for label in drawn.labels if values[label] > limit)
    text = drawn.scale.text(limit)
    question = f"For how many categories is the value{_of(drawn.series)} above {text}?"
    lines = f"print(len(marks), 'marks')\nprint(sum(value > {text} for _, value in marks))"
    return question, str(len(above)), lines, above


_ASK: Final = {"value": _value, "difference": _difference, "extreme": _extreme, "count": _count}
