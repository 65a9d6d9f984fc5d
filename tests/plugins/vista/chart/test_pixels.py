"""Colours, shapes, points and slices of a chart at the bounds where they begin to count, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plugins.vista.chart.drawn import BLUE, GREEN, RED

from saccade.plugins.vista.chart.marks import (
    ChartLegendEntry,
    ChartMark,
    ColourShape,
    NumberAxis,
    common_colours,
    mask_of_colour,
    paper_colour,
)
from saccade.plugins.vista.chart.reading import _roles, read_points, read_slices, split_lines
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import Rgb
from saccade.tools.look import PixelArray

WHITE = (255, 255, 255)


def page(width: int, height: int, *blocks: tuple[int, int, int, int, Rgb]) -> PixelArray:
    """White, with blocks of columns x0 to x1 and rows y0 to y1."""
    rgb = np.full((height, width, 3), 255, np.uint8)
    for x0, y0, x1, y1, colour in blocks:
        rgb[y0:y1, x0:x1] = colour
    return rgb


def text(words: str, *box: int) -> TextLine:
    x0, y0, x1, y1 = box
    return TextLine(text=words, confidence=1.0, box=(x0, y0, x1, y1), corners=((0.0, 0.0),) * 4)


def shape(area: int, color: Rgb, *box: int) -> ColourShape:
    x0, y0, x1, y1 = box
    return ColourShape("region", (x0, y0, x1, y1), color, area, np.zeros((0, 2), np.int32))


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


def test_no_curve_is_read_left_of_the_widest_number_of_the_axis() -> None:
    axis = NumberAxis("y", -1.0, 100.0, (text("0", 0, 95, 20, 105), text("100", 0, 5, 28, 15), text("9", 0, 5, 9, 15)))
    rgb = page(100, 130, (10, 30, 70, 32, RED))
    labels = [text("Mon", middle - 5, 110, middle + 5, 120) for middle in (24, 28, 29)]
    assert [mark.label for mark in read_points(rgb, axis, labels, [(RED, None)])] == labels[2:]


def test_slices_are_shares_of_a_round_whole() -> None:
    legend = [ChartLegendEntry(text(name, 0, 0, 9, 9), colour) for name, colour in (("a", RED), ("b", BLUE))]
    red, blue = shape(300, RED, 10, 10, 60, 60), shape(100, BLUE, 60, 10, 110, 110)
    small = shape(5, RED, 200, 10, 205, 15)
    marks = read_slices([small, red, blue, shape(900, GREEN, 0, 0, 9, 9)], legend)
    assert [(mark.label.text if mark.label else "", mark.value, mark.box) for mark in marks] == [
        ("a", 75, red.box),
        ("b", 25, blue.box),
    ]
    assert read_slices([red], legend) == ()
    assert read_slices([red, blue], legend[:1]) == ()
    for right, bottom, is_round in ((134, 110, True), (135, 110, False), (110, 135, False), (110, 134, True)):
        pie = [shape(300, RED, 10, 10, 60, 60), shape(100, BLUE, 60, 10, right, bottom)]
        assert bool(read_slices(pie, legend)) is is_round
    for right, is_round in ((154, True), (155, False)):  # it may lie anywhere
        assert (
            bool(read_slices([shape(9, RED, 30, 10, 60, 60), shape(9, BLUE, 60, 10, right, 110)], legend)) is is_round
        )


@pytest.mark.parametrize(("shade", "seen"), [(235, False), (234, True)])
def test_ink_differs_from_the_ground_by_more_than_60_over_its_channels(shade: int, seen: bool) -> None:
    ink = (shade, shade, shade)
    line = text("one two", 0, 10, 90, 30)
    found = split_lines(page(90, 60, (0, 20, 30, 24, ink), (60, 20, 90, 24, ink)), [line])
    assert [part.text for part in found] == (["one", "two"] if seen else ["one two"])
    as_high = text("one two", 0, 10, 20, 30)
    assert len(split_lines(page(90, 60, (0, 20, 2, 24, ink), (18, 20, 20, 24, ink)), [as_high])) == 1 + seen


ZERO, HUNDRED = text("0", 0, 95, 20, 105), text("100", 0, 0, 20, 10)


AXIS = NumberAxis("y", -1.0, 100.0, (ZERO, HUNDRED))


def test_each_text_is_what_its_place_says() -> None:
    label, name, high, low = text("Mon", 50, 110, 60, 120), text("North", 70, 40, 90, 50), *(
        text(words, 30, y, 60, y + 10) for words, y in (("Harvest", 2), ("of 1984", 14))
    )  # fmt: skip
    entry = ChartLegendEntry(name, RED)
    lines = [low, ZERO, label, name, high, HUNDRED]
    bars = [ChartMark("bar", (50, 20 + top, 60, 100), RED, label, entry, 50) for top in (30, 0)]
    heard = {line.text: role for line, role in _roles(lines, AXIS, [entry], bars)}
    assert heard == {
        "of 1984": "other", "0": "axis_tick", "Mon": "category", "North": "legend", "Harvest": "title",
        "100": "axis_tick",
    }  # fmt: skip
    assert [line for line, _ in _roles(lines, AXIS, [entry], bars)] == lines
    slices = [ChartMark("slice", (50, 60, 60, 100), RED, name, entry, 50)]
    assert [role for _, role in _roles([name, high], None, [entry], slices)] == ["legend", "title"]
    assert [role for _, role in _roles([name, high], None, [], slices)] == ["other", "title"]
