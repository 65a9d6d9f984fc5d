"""Colours, shapes, points and slices of a chart at the bounds where they begin to count, pixel by pixel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.plugins.vista.chart.drawn import BLUE, GREEN, RED, text

from saccade.plugins.vista.chart.marks import (
    ChartLegendEntry,
    NumberAxis,
    Place,
    common_colours,
    find_curve,
    mask_of_colour,
    on_ticks,
    paper_colour,
    read_pie,
    read_points,
)
from saccade.plugins.vista.chart.reading import _tight, _whole, split_lines
from saccade.tools.definition import Rgb
from saccade.tools.measure import PixelArray

WHITE = (255, 255, 255)


def page(width: int, height: int, *blocks: tuple[int, int, int, int, Rgb]) -> PixelArray:
    """White, with blocks of columns x0 to x1 and rows y0 to y1."""
    rgb = np.full((height, width, 3), 255, np.uint8)
    for x0, y0, x1, y1, colour in blocks:
        rgb[y0:y1, x0:x1] = colour
    return rgb


def test_colours_that_are_common_and_apart() -> None:
    assert common_colours(page(50, 50, (0, 0, 10, 1, RED), (0, 1, 9, 2, BLUE))) == (WHITE, RED)
    assert common_colours(page(400, 400, (0, 0, 16, 1, RED), (0, 1, 15, 2, BLUE))) == (WHITE, RED)
    assert common_colours(page(50, 50, (0, 0, 30, 1, RED), (0, 1, 40, 2, BLUE))) == (WHITE, BLUE, RED)
    red, green, blue = RED
    for off, apart in ((18, False), (19, True)):
        near = (red, green + off, blue)
        assert common_colours(page(50, 50, (0, 0, 40, 1, RED), (0, 1, 30, 2, near))) == (WHITE, RED, *[near] * apart)
        mask = mask_of_colour(page(3, 1, (0, 0, 1, 1, near), (1, 0, 2, 1, (red, green - off, blue))), RED)
        assert mask.tolist() == [[0 if apart else 255] * 2 + [0]]
    many = page(60, 60, *((0, row, 30, row + 1, (row % 6 * 40, row // 6 * 40, 100)) for row in range(30)))
    assert len(common_colours(many)) == 24
    assert common_colours(np.arange(300, dtype=np.uint8).reshape(10, 10, 3)) == ()


def test_paper_is_the_commonest_colour_of_the_border() -> None:
    assert paper_colour(page(40, 40, (1, 1, 39, 39, RED))) == WHITE
    for block in ((0, 0, 40, 36), (0, 4, 40, 40), (0, 0, 36, 40), (4, 0, 40, 40)):
        assert paper_colour(page(40, 40, (*block, BLUE))) == BLUE
    ramp = np.zeros((3, 3, 3), np.uint8)
    ramp[..., 1] = np.arange(9).reshape(3, 3) * 25
    assert paper_colour(ramp) == (0, 100, 0)


AXIS = NumberAxis("y", -1.0, 250.0, (text("0", 0, 245, 20, 255), text("200", 0, 45, 20, 55)))
WINDOW = (50, 0, 350, 260)
POINTS = [(50, 200), (150, 100), (250, 180), (350, 60)]


def sheet(draw: Callable[[ImageDraw.ImageDraw], object]) -> PixelArray:
    picture = Image.new("RGB", (400, 300), "white")
    draw(ImageDraw.Draw(picture))
    return np.asarray(picture)


def dashed(pen: ImageDraw.ImageDraw) -> None:
    pen.line(POINTS, fill=RED, width=2)
    for x in range(52, 360, 12):
        pen.rectangle((x, 0, x + 3, 299), fill="white")


@pytest.mark.parametrize(
    ("draw", "read"),
    [
        (lambda pen: pen.line(POINTS, fill=RED, width=2), True),
        (lambda pen: pen.line(POINTS, fill=RED, width=8), True),
        (dashed, True),
        (lambda pen: [pen.ellipse((x - 6, y - 6, x + 6, y + 6), fill=RED) for x, y in POINTS], False),  # no line
        (lambda pen: pen.polygon([(50, 250), *POINTS, (350, 250)], fill=RED), False),  # an area
        (lambda pen: pen.rectangle((50, 50, 350, 250), outline=RED, width=2), False),  # a frame
        (lambda pen: pen.line(POINTS[:2], fill=RED, width=2), False),  # a stroke over a third
        (lambda pen: [pen.line([(50, y), (350, y)], fill=RED, width=2) for y in (60, 100)], False),  # two
    ],
)  # fmt: skip
def test_a_curve_is_one_thin_stroke_over_the_labels(draw: Callable[[ImageDraw.ImageDraw], object], read: bool) -> None:
    ink = find_curve(sheet(draw), RED, WHITE, WINDOW, None)
    assert (ink is not None) is read
    if ink is not None:
        places = [Place(text(str(250 - y), x - 9, 270, x + 9, 280), x) for x, y in POINTS]
        marks = read_points(ink, AXIS, places, RED, None)
        assert len(marks) == 4 - (draw is dashed), "a gap hides a corner"
        assert all(mark.label and mark.value == pytest.approx(float(mark.label.text), abs=4) for mark in marks)


def test_powers_of_ten_and_marks_of_ticks_move_an_axis_that_the_numbers_would_set_aside() -> None:
    rgb = sheet(lambda pen: [pen.line([(50, y), (56, y)], fill=BLUE, width=1) for y in (52, 152, 252)])
    numbers = tuple(text(name, 20, y - 7, 44, y + 3) for name, y in (("0", 252), ("10", 152), ("20", 52)))
    axis = NumberAxis("y", -0.1, 25.0, numbers)
    moved = on_ticks(rgb, axis)
    assert moved is not None
    assert [moved.value(y + 0.5) for y in (252, 152, 52)] == pytest.approx([0, 10, 20])
    assert on_ticks(sheet(lambda pen: None), axis) is axis, "no marks"
    ten = page(40, 30, (2, 10, 16, 20, BLUE), (18, 4, 22, 10, BLUE))
    assert _tight(ten, text("10³", 0, 0, 26, 26)).box == (2, 10, 22, 20), "the tick is at the ten"
    assert _tight(ten, text("15", 0, 0, 26, 26)).box == (2, 4, 22, 20)


def test_a_label_of_which_a_word_was_not_read_or_is_cut_names_nothing() -> None:
    rgb = page(90, 30, (10, 14, 30, 16, BLUE), (36, 14, 56, 16, BLUE))
    assert _whole([text("cars", 36, 9, 56, 21)], rgb, None) == []
    both = [text("Private cars", 10, 9, 56, 21)]
    assert _whole(both, rgb, None) == both
    assert _whole([text("ivate cars", 0, 9, 56, 21)], rgb, None) == []


def test_a_curve_is_not_looked_for_in_a_legend_or_read_where_a_pixel_matters() -> None:
    rgb = sheet(lambda pen: pen.line(POINTS, fill=RED, width=2))
    assert find_curve(rgb, RED, WHITE, WINDOW, (200, 50, 360, 200)) is None
    cliff = sheet(lambda pen: pen.line([(50, 200), (196, 200), (204, 40), (350, 40)], fill=RED, width=2))
    ink = find_curve(cliff, RED, WHITE, WINDOW, None)
    assert ink is not None
    places = [Place(text(str(x), x - 9, 270, x + 9, 280), x) for x in (100, 200, 300)]
    assert [mark.label and mark.label.text for mark in read_points(ink, AXIS, places, RED, None)] == ["100", "300"]


def pie(hole: int = 0, *, third: bool = True) -> PixelArray:
    def draw(pen: ImageDraw.ImageDraw) -> None:
        pen.pieslice((100, 50, 300, 250), 0, 180, fill=RED)
        pen.pieslice((100, 50, 300, 250), 180, 270 if third else 360, fill=BLUE)
        if third:
            pen.pieslice((100, 50, 300, 250), 270, 360, fill=GREEN)
        if hole:
            pen.ellipse((200 - hole, 150 - hole, 200 + hole, 150 + hole), fill="white")

    return sheet(draw)


@pytest.mark.parametrize("hole", [0, 40, 70])
def test_slices_are_sectors_of_a_disc_or_a_ring_named_by_legend_or_rim(hole: int) -> None:
    named = (("a", RED), ("b", BLUE), ("c", GREEN))
    legend = [ChartLegendEntry(text(name, 0, 0, 9, 9), colour) for name, colour in named]
    rim = [text("a", 195, 262, 205, 274), text("b", 95, 60, 112, 72), text("c", 285, 60, 300, 72)]
    for lines, names in (([], legend), (rim, [])):
        marks = read_pie(pie(hole), WHITE, lines, names)
        assert {(mark.color, mark.label.text if mark.label else ""): mark.value for mark in marks} == pytest.approx(
            {(RED, "a"): 50, (BLUE, "b"): 25, (GREEN, "c"): 25}, abs=1
        )
    # A name that is missing, or stands between two slices, leaves all of them without.
    for lines in (rim[:2], [*rim[:2], text("c", 310, 144, 330, 156)]):
        assert [mark.label for mark in read_pie(pie(hole), WHITE, lines, [])] == [None] * 3


def test_discs_that_are_no_pies() -> None:
    def rings(pen: ImageDraw.ImageDraw) -> None:
        for radius, colour in ((100, RED), (70, BLUE), (40, GREEN)):
            pen.ellipse((200 - radius, 150 - radius, 200 + radius, 150 + radius), fill=colour)

    def area(pen: ImageDraw.ImageDraw) -> None:
        pen.polygon([(100, 250), (110, 90), (150, 60), (260, 52), (300, 120), (296, 250)], fill=RED)
        pen.polygon([(100, 250), (200, 150), (296, 250)], fill=BLUE)

    for draw in (rings, area, lambda pen: pen.ellipse((100, 50, 300, 250), fill=RED)):
        assert read_pie(sheet(draw), WHITE, [], []) == ()
    assert len(read_pie(pie(third=False), WHITE, [], [])) == 2


@pytest.mark.parametrize(("shade", "seen"), [(235, False), (234, True)])
def test_ink_differs_from_the_ground_by_more_than_60_over_its_channels(shade: int, seen: bool) -> None:
    ink = (shade, shade, shade)
    line = text("one two", 0, 10, 90, 30)
    found = split_lines(page(90, 60, (0, 20, 30, 24, ink), (60, 20, 90, 24, ink)), [line])
    assert [part.text for part in found] == (["one", "two"] if seen else ["one two"])
    as_high = text("one two", 0, 10, 20, 30)
    assert len(split_lines(page(90, 60, (0, 20, 2, 24, ink), (18, 20, 20, 24, ink)), [as_high])) == 1 + seen
