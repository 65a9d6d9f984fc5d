"""Colours, shapes, points and slices of a chart at the bounds where they begin to count, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plugins.vista.chart.drawn import BLUE, GREEN, RED

from saccade.plugins.vista.chart.marks import (
    ChartLegendEntry,
    ColourShape,
    NumberAxis,
    common_colours,
    find_shapes,
    mask_of_colour,
    paper_colour,
    same_colour,
)
from saccade.plugins.vista.chart.reading import read_points, read_slices, split_lines
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import PixelBox, Rgb
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


@pytest.mark.parametrize(("ink", "labels"), [((235, 235, 235), ["a b"]), ((235, 235, 234), ["a", "b"])])
def test_ink_is_what_differs_enough_from_the_ground(ink: Rgb, labels: list[str]) -> None:
    rgb = page(60, 10, (0, 0, 10, 10, ink), (50, 0, 60, 10, ink))
    assert [part.text for part in split_lines(rgb, [text("a b", 0, 0, 60, 10)])] == labels


def test_colours_that_are_one_to_the_eye() -> None:
    for other, one in (((30, 100, 0), True), ((0, 70, 30), True), ((31, 100, 0), False), ((0, 100, 31), False)):
        assert same_colour((0, 100, 0), other) is one


def test_paper_is_the_commonest_colour_of_the_border() -> None:
    assert paper_colour(page(40, 40, (1, 1, 39, 39, RED))) == WHITE
    for block in ((0, 0, 40, 36), (0, 4, 40, 40), (0, 0, 36, 40), (4, 0, 40, 40)):
        assert paper_colour(page(40, 40, (*block, BLUE))) == BLUE
    ramp = np.zeros((3, 3, 3), np.uint8)
    ramp[..., 1] = np.arange(9).reshape(3, 3) * 25
    assert paper_colour(ramp) == (0, 100, 0)


@pytest.mark.parametrize(("width", "height", "found"), [(5, 30, True), (4, 30, False), (30, 5, True), (30, 4, False)])
def test_what_is_five_pixels_thick_is_a_shape(width: int, height: int, found: bool) -> None:
    shapes = find_shapes(page(60, 60, (10, 12, 10 + width, 12 + height, RED)))
    assert [one.box for one in shapes] == ([(10, 12, 10 + width, 12 + height)] if found else [])
    if found:
        (one,) = shapes
        assert (one.kind, one.color, one.area) == ("rectangle", RED, width * height)
        assert one.size == (width, height)
        assert one.center == (10 + width / 2, 12 + height / 2)
        assert (one.outline.min(axis=0).tolist(), one.outline.max(axis=0).tolist()) == (
            [10, 12],
            [9 + width, 11 + height],
        )


@pytest.mark.parametrize(("missing", "kind"), [(0, "rectangle"), (2, "rectangle"), (3, "region"), (8, "region")])
def test_a_rectangle_fills_93_parts_in_100_of_its_box(missing: int, kind: str) -> None:
    block = page(60, 60, (10, 10, 42, 30, RED))  # 640 pixels: 44 may be missing, a step of 15 rows and 3 columns not
    block[10:25, 42 - missing : 42] = 255
    (one,) = find_shapes(block)
    assert (one.kind, one.area) == (kind, 640 - 15 * missing)


def ellipse(width: int, height: int, hole: float = 0.0) -> PixelArray:
    y, x = np.mgrid[:60, :80]
    away = ((x - 40) / (width / 2)) ** 2 + ((y - 30) / (height / 2)) ** 2
    rgb = np.full((60, 80, 3), 255, np.uint8)
    rgb[(away <= 1) & (away >= hole**2)] = BLUE
    return rgb


@pytest.mark.parametrize(
    ("width", "height", "hole", "kind"),
    [(40, 40, 0, "circle"), (40, 34, 0, "circle"), (34, 40, 0, "circle"), (40, 31, 0, "region"), (31, 40, 0, "region"),
     (40, 40, 0.4, "circle"), (40, 40, 0.5, "region")],
)  # fmt: skip
def test_a_circle_is_nearly_as_wide_as_high_and_nearly_full(width: int, height: int, hole: float, kind: str) -> None:
    (one,) = find_shapes(ellipse(width, height, hole))
    assert one.kind == kind


@pytest.mark.parametrize(("thick", "kind"), [(5, "line"), (18, "line"), (24, "region")])
def test_a_stroke_is_thin_everywhere_and_fills_little(thick: int, kind: str) -> None:
    rgb = page(120, 120)
    for step in range(80):
        rgb[20 + step, 10 + step : 10 + step + thick] = RED
    (one,) = find_shapes(rgb)
    assert one.kind == kind


def test_thin_strokes_that_fill_much_of_their_box_are_no_line() -> None:
    comb = page(120, 120, (10, 10, 106, 16, RED), *((x, 16, x + 6, 110, RED) for x in range(10, 106, 12)))
    (one,) = find_shapes(comb)
    assert (one.kind, one.box) == ("region", (10, 10, 106, 110))


AXIS = NumberAxis("y", -1.0, 100.0, (text("0", 0, 95, 20, 105),))


@pytest.mark.parametrize(
    ("blocks", "label", "value"),
    [
        ([(40, 30, 70, 32)], (50, 110, 60, 120), 69),
        ([(55, 30, 56, 33), (55, 60, 56, 62)], (50, 110, 60, 120), 68.5),  # the longer run
        ([(55, 30, 56, 32), (55, 60, 56, 64), (55, 80, 56, 83)], (50, 110, 60, 120), 38),
        ([(40, 108, 70, 114)], (50, 110, 60, 120), -9),  # down to the label
        ([(40, 30, 70, 32), (56, 60, 61, 65)], (50, 110, 60, 120), 37.5),  # the middle of a marker 3 pixels aside
        ([(40, 30, 70, 32), (57, 60, 62, 65)], (50, 110, 60, 120), 69),  # 4 pixels
        ([(40, 30, 70, 32), (49, 60, 55, 65)], (50, 110, 60, 120), 37.5),
        ([(40, 30, 70, 32), (48, 60, 53, 65)], (50, 110, 60, 120), 69),
        ([(40, 30, 70, 32), (53, 104, 58, 112)], (50, 110, 60, 120), -8),  # a marker down to the label
        ([(40, 30, 70, 32), (56, 60, 60, 65)], (50, 110, 60, 120), 69),  # too thin for a marker
        ([(56, 30, 57, 33)], (50, 110, 60, 120), None),  # beside the middle of the label
        ([(40, 30, 70, 32), (52, 60, 59, 67)], (50, 110, 60, 120), 36.5),  # a marker before a stroke
        ([(40, 112, 70, 116)], (50, 110, 60, 120), None),  # below the label
        ([(10, 30, 70, 32)], (10, 110, 30, 120), None),  # left of the axis
        ([(10, 30, 70, 32)], (11, 110, 32, 120), 69),
    ],
)
def test_a_curve_is_read_above_the_middle_of_a_label(
    blocks: list[tuple[int, int, int, int]], label: PixelBox, value: float | None
) -> None:
    rgb = page(100, 130, *((*block, RED) for block in blocks))
    entry = ChartLegendEntry(text("North", 0, 0, 9, 9), RED)
    found = read_points(rgb, AXIS, [text("Mon", *label)], [(RED, entry)])
    assert [mark.value for mark in found] == ([] if value is None else [value])
    for mark in found:
        assert (mark.kind, mark.color, mark.series) == ("point", RED, entry)
        x = round((label[0] + label[2]) / 2)
        assert (mark.box[0], mark.box[2]) == (x - 3, x + 4)
        assert (mark.box[1] + mark.box[3]) / 2 == 100 - (value or 0)


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


@pytest.mark.parametrize(
    ("gaps", "parts"),
    [
        ((5, 11), ["one two", "three"]), ((11, 5), ["one", "two three"]), ((11, 11), ["one", "two", "three"]),
        ((10, 10), ["one two three"]), ((12, 10), ["one", "two three"]), ((11, 1), ["one", "two three"]),
        ((11, 0), ["one two three"]),
    ],
)  # fmt: skip
def test_words_more_than_half_a_height_apart_are_labels_of_their_own(gaps: tuple[int, int], parts: list[str]) -> None:
    first, second = gaps
    stops = [30, 30 + first, 60 + first, 60 + first + second]
    black = (0, 0, 0)
    rgb = page(160, 60, (0, 20, 30, 24, black), (stops[1], 22, stops[2], 26, black), (stops[3], 20, 140, 24, black))
    line = text("one two three", 0, 10, 140, 30)
    found = split_lines(rgb, [line])
    assert [part.text for part in found] == parts
    assert (found[0].box[0], found[-1].box[2]) == (0, 140)
    if len(found) == 3:
        assert [part.box for part in found] == [
            (0, 10, 30, 30),
            (stops[1], 10, stops[2], 30),
            (stops[3], 10, 140, 30),
        ]
        assert found[1].corners[0] == (stops[1], 10)
    uncut = (
        text("one", 0, 10, 140, 30),
        text("a b c d e", 0, 10, 140, 30),  # fewer gaps than spaces
        text("one two three", 0, 10, 19, 30),  # it stands upright
    )
    assert split_lines(rgb, uncut) == uncut


@pytest.mark.parametrize(("shade", "seen"), [(235, False), (234, True)])
def test_ink_differs_from_the_ground_by_more_than_60_over_its_channels(shade: int, seen: bool) -> None:
    ink = (shade, shade, shade)
    line = text("one two", 0, 10, 90, 30)
    found = split_lines(page(90, 60, (0, 20, 30, 24, ink), (60, 20, 90, 24, ink)), [line])
    assert [part.text for part in found] == (["one", "two"] if seen else ["one two"])
    as_high = text("one two", 0, 10, 20, 30)
    assert len(split_lines(page(90, 60, (0, 20, 2, 24, ink), (18, 20, 20, 24, ink)), [as_high])) == 1 + seen
