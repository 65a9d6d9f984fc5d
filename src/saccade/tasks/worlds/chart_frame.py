"""What drawn charts share: themes, number scales of whole pixels, frame with ticks, legend and title.

A scale has a whole number of pixels for each step of its values, so a mark's place says its value exactly. Lines are
drawn without smoothing, so one colour means one thing; text alone is smoothed.
"""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageDraw

from saccade.tasks.worlds.canvas import Box, Colour, Lettering, font, put_label, put_text_centred, text_size
from saccade.tasks.worlds.rng import Rng


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
        """How labels are printed."""
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
        """The value of n as it is printed and answered."""
        return decimal_text(n * self.step, self.decimals)


MARKS: tuple[Colour, ...] = (
    (214, 40, 40),
    (36, 84, 205),
    (30, 150, 60),
    (245, 130, 20),
    (128, 52, 168),
    (150, 96, 52),
    (235, 110, 170),
    (20, 160, 175),
)
"""Colours of marks, told apart at a glance on light and on dark paper."""

_PAPERS: tuple[tuple[Colour, Colour, Colour, Colour], ...] = (
    ((255, 255, 255), (255, 255, 255), (30, 30, 30), (208, 208, 208)),
    ((255, 255, 255), (234, 236, 243), (40, 44, 56), (255, 255, 255)),
    ((250, 246, 238), (250, 246, 238), (60, 50, 44), (222, 212, 198)),
    ((32, 36, 46), (32, 36, 46), (226, 228, 232), (78, 84, 98)),
    ((242, 244, 240), (255, 255, 255), (46, 58, 50), (214, 220, 212)),
)


def decimal_text(amount: int, decimals: int) -> str:
    """`amount / 10**decimals` without trailing zeros."""
    if decimals == 0:
        return str(amount)
    integer, part = divmod(abs(amount), 10**decimals)
    digits = f"{part:0{decimals}d}".rstrip("0")
    return f"{'-' if amount < 0 else ''}{integer}{'.' + digits if digits else ''}"


def random_theme(rng: Rng) -> Theme:
    """One of five papers, with or without grid lines, labels of 14 to 18 pixels."""
    paper, plot, ink, grid = rng.choice(_PAPERS)
    return Theme(paper, plot, ink, grid if rng.chance(60) else None, rng.integer(14, 18))


def random_scale(rng: Rng, least_px: int) -> ChartScale:
    """A scale of 180 to 480 pixels whose steps are at least `least_px` pixels wide."""
    decimals = 1 if rng.chance(15) else 0
    step = rng.choice((1, 2, 5)) if decimals else rng.choice((1, 1, 2, 5, 10, 20, 50, 100))
    while True:
        per_tick, ticks = rng.choice((5, 10)), rng.integer(4, 7)
        least, most = max(least_px, -(-180 // (per_tick * ticks))), 480 // (per_tick * ticks)
        if least <= most:
            return ChartScale(step, decimals, rng.integer(least, most), per_tick, ticks)


def draw_left_axis(pen: ImageDraw.ImageDraw, theme: Theme, plot: Box, scale: ChartScale) -> None:
    """Ticks, labels, grid and spine of a value axis at the left; n = 0 lies on the row `plot[3]`."""
    for tick in range(scale.ticks + 1):
        n = tick * scale.per_tick
        y = plot[3] - n * scale.px
        if theme.grid:
            pen.line((plot[0] + 1, y, plot[2], y), fill=theme.grid)
        pen.line((plot[0] - 5, y, plot[0], y), fill=theme.ink)
        put_label(pen, (plot[0] - 10, y), scale.text(n), theme.label, "right")
    pen.line((plot[0], plot[1], plot[0], plot[3]), fill=theme.ink)


def draw_bottom_axis(pen: ImageDraw.ImageDraw, theme: Theme, plot: Box, scale: ChartScale) -> None:
    """As `draw_left_axis` at the bottom; n = 0 lies on the column `plot[0]`."""
    for tick in range(scale.ticks + 1):
        n = tick * scale.per_tick
        x = plot[0] + n * scale.px
        if theme.grid:
            pen.line((x, plot[1], x, plot[3] - 1), fill=theme.grid)
        pen.line((x, plot[3], x, plot[3] + 5), fill=theme.ink)
        put_label(pen, (x, plot[3] + 10 + theme.text_size // 2), scale.text(n), theme.label)
    pen.line((plot[0], plot[3], plot[2], plot[3]), fill=theme.ink)


def label_room(texts: list[str], theme: Theme) -> int:
    """Width in pixels of the widest text."""
    return max(text_size(text, font(theme.text_size))[0] for text in texts)


def put_title(picture: Image.Image, theme: Theme, title: str) -> None:
    """The title, centred at the top."""
    face = font(theme.text_size + 4, "sans-bold")
    put_text_centred(ImageDraw.Draw(picture), (picture.width // 2, 26), title, face, theme.ink)


def title_room(theme: Theme, title: str) -> int:
    """Least width in pixels of a picture with that title."""
    return text_size(title, font(theme.text_size + 4, "sans-bold"))[0] + 32


def legend_size(theme: Theme, names: list[str]) -> tuple[int, int]:
    """Width and height in pixels of a legend of one column."""
    return 24 + label_room(names, theme) + 8, len(names) * (theme.text_size + 12)


def draw_legend(
    pen: ImageDraw.ImageDraw, theme: Theme, at: tuple[int, int], entries: list[tuple[str, Colour]]
) -> dict[str, Box]:
    """A square of the colour before each name, one below the other; the boxes of the entries by name."""
    pitch, boxes = theme.text_size + 12, {}
    for index, (name, colour) in enumerate(entries):
        y = at[1] + index * pitch + pitch // 2
        pen.rectangle((at[0], y - 6, at[0] + 12, y + 6), fill=colour)
        box = put_label(pen, (at[0] + 22, y), name, theme.label, "left")
        boxes[name] = (at[0], min(y - 6, box[1]), box[2], max(y + 7, box[3]))
    return boxes
