"""What texts of a chart are, which colours are its ground, and where curves are read, at the bounds of each rule."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plugins.vista.chart.drawn import BLUE, RED

from saccade.plugins.vista.chart.marks import ChartLegendEntry, ChartMark, NumberAxis, common_colours
from saccade.plugins.vista.chart.reading import _curves, _ground, _plot_colours, _roles
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import Rgb
from saccade.tools.look import PixelArray

WHITE = (255, 255, 255)


def text(words: str, *box: int) -> TextLine:
    x0, y0, x1, y1 = box
    return TextLine(text=words, confidence=1.0, box=(x0, y0, x1, y1), corners=((0.0, 0.0),) * 4)


def page(*blocks: tuple[int, int, int, int, Rgb], width: int = 100, height: int = 100) -> PixelArray:
    rgb = np.full((height, width, 3), 255, np.uint8)
    for x0, y0, x1, y1, colour in blocks:
        rgb[y0:y1, x0:x1] = colour
    return rgb


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


@pytest.mark.parametrize(("bottom", "role"), [(20, "title"), (24, "title"), (25, "other")])
def test_a_title_stands_above_the_highest_mark(bottom: int, role: str) -> None:
    marks = [ChartMark("bar", (50, top, 60, 100), RED) for top in (40, 20)]
    line = text("Harvest", 30, bottom - 10, 60, bottom)
    assert [heard for _, heard in _roles([line], None, [], marks)] == [role]
    assert [heard for _, heard in _roles([line], None, [], [])] == ["title"]


@pytest.mark.parametrize(
    ("top", "read"), [(100, ["Tue"]), (101, ["Mon", "Tue"]), (95, ["Tue"]), (120, ["Mon", "Tue"]), (121, ["Tue"])]
)
def test_labels_of_curves_stand_in_the_first_row_below_the_lowest_number(top: int, read: list[str]) -> None:
    lines = [ZERO, HUNDRED, text("Mon", 45, top, 55, top + 10), text("Tue", 65, 110, 75, 120)]
    rgb = page((25, 30, 100, 32, RED), height=140)
    found = _curves(rgb, AXIS, lines, ((), _ground(rgb)))
    assert [mark.label.text for mark in found if mark.label] == read
    assert {mark.value for mark in found} == {69}
    assert _curves(rgb, AXIS, [ZERO, HUNDRED], ((), ())) == ()


def test_without_a_legend_the_commonest_vivid_colour_is_the_curve() -> None:
    lines = [text("Mon", 45, 110, 55, 120)]
    for colour, read in (((171, 100, 100), True), ((170, 100, 100), False)):
        rgb = page((25, 30, 100, 32, colour), height=140)
        assert [mark.color for mark in _curves(rgb, AXIS, lines, ((), ()))] == ([colour] if read else [])
    rgb = page((25, 30, 100, 32, RED), (25, 40, 90, 42, BLUE), height=140)
    assert [mark.color for mark in _curves(rgb, AXIS, lines, ((), ()))] == [RED]
    assert _curves(rgb, AXIS, lines, ((), (RED,))) == ()
    entry = ChartLegendEntry(text("South", 0, 0, 9, 9), BLUE)
    assert [(mark.color, mark.series) for mark in _curves(rgb, AXIS, lines, ((entry,), ()))] == [(BLUE, entry)]


@pytest.mark.parametrize(("blue", "grey"), [(240, True), (241, False)])
def test_what_is_hardly_coloured_is_ground_and_a_seventh_of_the_picture_is_the_plot(blue: int, grey: bool) -> None:
    colour = (200, 220, blue)
    for rows, large in ((50, False), (51, True)):
        rgb = page((10, 10, 40, 10 + rows, colour))
        assert _plot_colours(rgb) == ((WHITE, colour) if large and grey else (WHITE,))
        assert _ground(rgb) == ((WHITE, WHITE, colour) if grey else (WHITE, WHITE))


def test_colours_are_looked_for_among_the_480_commonest() -> None:
    for count, found in ((477, True), (478, False)):
        near = np.array([(100 + n % 8, 100 + n // 8 % 8, 100 + n // 64) for n in range(1, count + 1)], np.uint8)
        rows = [np.full((1000, 3), 255), np.full((100, 3), 100), np.repeat(near, 30, axis=0), [RED] * 12]
        pixels = np.concatenate(rows).astype(np.uint8)[None]
        assert common_colours(pixels) == (WHITE, (100, 100, 100), *[RED] * found)
