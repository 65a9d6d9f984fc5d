"""Bars and number axes by their places alone: which pixels still count as one line, one bar, one label."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tools.chart.drawn import BLUE, GREEN, RED

from saccade.tools.chart.axes import NumberAxis, number_axis
from saccade.tools.chart.bars import BarFrame, _value, read_bars
from saccade.tools.chart.marks import ChartLegendEntry, ChartMark
from saccade.tools.chart.shapes import ColourShape
from saccade.tools.fields import PixelBox, Rgb
from saccade.tools.ocr import TextLine


def bar(*box: int, color: Rgb = RED) -> ColourShape:
    x0, y0, x1, y1 = box
    return ColourShape("rectangle", (x0, y0, x1, y1), color, (x1 - x0) * (y1 - y0), np.zeros((0, 2), np.int32))


def text(words: str, *box: int) -> TextLine:
    x0, y0, x1, y1 = box
    return TextLine(text=words, confidence=1.0, box=(x0, y0, x1, y1), corners=((0.0, 0.0),) * 4)


def turned(box: PixelBox) -> PixelBox:
    """Rows become columns: what stands lies, and grows to the right from a base line at 300 - 200."""
    return (300 - box[3], box[0], 300 - box[1], box[2])


def marks(
    shapes: list[ColourShape], lines: list[TextLine], legend: list[ChartLegendEntry] | None = None
) -> list[ChartMark]:
    found = read_bars(shapes, lines, legend or [])
    return [] if found is None else list(found[1])


BASE = [bar(100, 150, 120, 200), bar(140, 120, 160, 200)]
TICKS = [text(str(value), 60, 194 - value, 80, 206 - value) for value in (0, 50, 100)]  # a pixel is one


@pytest.mark.parametrize(
    ("third", "marked"),
    [
        ((180, 170, 200, 200), True), ((180, 170, 200, 203), True), ((180, 170, 200, 204), False),
        ((180, 170, 200, 197), True), ((180, 170, 200, 196), False), ((180, 203, 200, 240), True),
        ((180, 204, 200, 240), False), ((180, 197, 200, 240), True), ((180, 196, 200, 240), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lying", [False, True])
def test_bars_begin_on_one_line_to_three_pixels(third: PixelBox, marked: bool, lying: bool) -> None:
    shapes = [*BASE, bar(*third, color=BLUE)]
    if lying:
        shapes = [bar(*turned(shape.box), color=shape.color) for shape in shapes]
    assert (BLUE in {mark.color for mark in marks(shapes, [])}) is marked
    found = read_bars(shapes, [], [])
    assert found is not None
    assert (found[0].standing, found[0].base) == (not lying, 100 if lying else 200)


@pytest.mark.parametrize(
    ("upper", "marked"),
    [
        ((100, 100, 120, 150), True), ((102, 100, 122, 150), True), ((103, 100, 120, 150), False),
        ((100, 100, 123, 150), False), ((100, 100, 120, 147), True), ((100, 100, 120, 146), False),
        ((100, 100, 120, 153), True), ((100, 100, 120, 154), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lying", [False, True])
def test_a_bar_stands_on_another_of_its_width(upper: PixelBox, marked: bool, lying: bool) -> None:
    shapes = [*BASE, bar(220, 170, 240, 200), bar(*upper, color=BLUE)]
    if lying:
        shapes = [bar(*turned(shape.box), color=shape.color) for shape in shapes]
    assert (BLUE in {mark.color for mark in marks(shapes, [])}) is marked


@pytest.mark.parametrize(
    ("lower", "color", "joined"),
    [
        ((180, 154, 200, 200), RED, True), ((180, 155, 200, 200), RED, False), ((180, 151, 200, 200), RED, True),
        ((180, 150, 200, 200), RED, False), ((178, 154, 200, 200), RED, True), ((183, 154, 200, 200), RED, False),
        ((180, 154, 203, 200), RED, False), ((180, 154, 200, 200), BLUE, False), ((182, 154, 202, 200), RED, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lying", [False, True])
def test_a_grid_line_of_four_pixels_cuts_no_bar(lower: PixelBox, color: Rgb, joined: bool, lying: bool) -> None:
    shapes = [*BASE, bar(180, 100, 200, 150), bar(*lower, color=color)]
    if lying:
        shapes = [bar(*turned(shape.box), color=shape.color) for shape in shapes]
    both_boxes = (min(180, lower[0]), 100, max(200, lower[2]), 200)
    boxes = [mark.box for mark in marks(shapes, [])]
    assert ((turned(both_boxes) if lying else both_boxes) in boxes) is joined


@pytest.mark.parametrize("sides", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
@pytest.mark.parametrize("lying", [False, True])
def test_parts_of_a_bar_lie_a_little_to_either_side(sides: tuple[int, ...], lying: bool) -> None:
    parts = [bar(180 + side, 200 - 30 * (part + 1), 200 + side, 198 - 30 * part) for part, side in enumerate(sides)]
    shapes = [*BASE, *parts]
    if lying:
        shapes = [bar(*turned(shape.box), color=shape.color) for shape in shapes]
    joined = (180, 110, 202, 198)
    assert (turned(joined) if lying else joined) in [mark.box for mark in marks(shapes, [])]


@pytest.mark.parametrize(
    ("patch", "color", "left_out"),
    [
        ((180, 190, 190, 200), BLUE, True), ((150, 190, 160, 200), BLUE, True), ((149, 190, 159, 200), BLUE, False),
        ((180, 190, 191, 200), BLUE, False), ((180, 190, 190, 200), RED, False), ((170, 172, 180, 200), BLUE, True),
        ((170, 171, 180, 200), BLUE, False),
    ],
)  # fmt: skip
def test_a_patch_of_the_legend_is_no_bar(patch: PixelBox, color: Rgb, left_out: bool) -> None:
    legend = [ChartLegendEntry(text("North", 190, 190, 230, 200), BLUE)]
    boxes = [mark.box for mark in marks([*BASE, bar(*patch, color=color)], [], legend)]
    assert (patch not in boxes) is left_out


def test_a_patch_stands_beside_its_name() -> None:
    legend = [ChartLegendEntry(text("North", 190, 220, 230, 230), BLUE)]
    for y, is_patch in ((211, True), (210, False), (229, True), (230, False)):
        shape = bar(175, y, 185, y + 10, color=BLUE)
        base = [bar(100, 150, 120, y + 10), bar(140, 120, 160, y + 10)]
        assert (shape.box not in [mark.box for mark in marks([*base, shape], [], legend)]) is is_patch


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ((100, 130, 120, 136), 51), ((100, 130, 120, 152), 51), ((100, 130, 120, 153), 50), ((106, 130, 126, 140), 51),
        ((107, 130, 127, 140), 50), ((93, 130, 113, 140), 50), ((94, 130, 114, 140), 51), ((100, 120, 120, 135), 50),
    ],
)  # fmt: skip
def test_a_printed_number_is_taken_near_the_tip_alone(line: PixelBox, value: float) -> None:
    found = marks(BASE, [*TICKS, text("51", *line)])
    assert found[0].value == pytest.approx(value)


@pytest.mark.parametrize(("printed", "value"), [("52", 52), ("53", 50), ("47.7", 47.7), ("47.6", 50), ("x", 50)])
def test_a_printed_number_that_is_off_by_more_than_a_twentieth_is_anothers(printed: str, value: float) -> None:
    found = marks(BASE, [*TICKS, text(printed, 100, 130, 120, 140)])
    assert found[0].value == pytest.approx(value)


def test_values_of_bars_that_hang_and_that_are_stacked() -> None:
    shapes = [*BASE, bar(180, 200, 200, 230, color=GREEN), bar(100, 110, 120, 148, color=BLUE)]
    found = marks(shapes, TICKS)
    assert [(mark.color, round(mark.value or 0)) for mark in found] == [(RED, 50), (BLUE, 38), (RED, 80), (GREEN, -30)]
    assert [mark.value for mark in marks(shapes, [])] == [None] * 4


@pytest.mark.parametrize("lying", [False, True])
def test_bars_are_listed_along_the_categories_and_a_stack_from_the_base_line_on(lying: bool) -> None:
    shapes = [
        bar(100, 80, 120, 105, color=GREEN),
        bar(140, 120, 160, 200),
        bar(100, 107, 120, 148, color=BLUE),
        *(bar(left, 150, left + 20, 200) for left in (220, 180, 100)),
    ]
    if lying:
        shapes = [bar(*turned(shape.box), color=shape.color) for shape in shapes]
    assert [mark.color for mark in marks(shapes, [])] == [RED, BLUE, GREEN, RED, RED, RED]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ((100, 205, 120, 215), True), ((100, 196, 120, 206), True), ((100, 195, 120, 205), False),
        ((100, 215, 120, 225), True), ((100, 216, 120, 226), False),
    ],
)  # fmt: skip
def test_labels_stand_in_the_first_row_below_the_base_line(line: PixelBox, named: bool) -> None:
    found = marks(BASE, [text("Mon", *line), text("Tue", 140, 205, 160, 215)])
    assert (found[0].label is not None and found[0].label.text == "Mon") is named
    assert found[1].label is not None
    assert found[1].label.text == "Tue"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ((60, 105, 90, 115), True),
        ((60, 105, 104, 115), True),
        ((60, 105, 105, 115), False),
        ((50, 105, 75, 115), True),
        ((50, 105, 74, 115), False),
    ],
)
def test_labels_of_lying_bars_end_in_one_column(line: PixelBox, named: bool) -> None:
    shapes = [bar(100, 100, 150, 120), bar(100, 140, 180, 160)]
    found = marks(shapes, [text("Oak", *line), text("Fir", 60, 145, 90, 155)])
    assert (found[0].label is not None and found[0].label.text == "Oak") is named


def test_labels_of_lying_bars_stand_left_of_those_that_grow_to_the_left() -> None:
    shapes = [bar(100, 100, 150, 120), bar(60, 140, 100, 160)]
    note, label = text("mean", 62, 105, 92, 115), text("Oak", 20, 105, 55, 115)
    assert [mark.label for mark in marks(shapes, [note, label])] == [label] * 2
    assert [mark.label for mark in marks(shapes, [note])] == [None] * 2


@pytest.mark.parametrize(
    ("box", "printed", "value"),
    [
        ((100, 162, 120, 200), "40", 40), ((100, 163, 120, 200), "40", 37),  # a twentieth, and more
        ((100, 170, 120, 203), "", 30), ((100, 170, 120, 197), "", 30),  # it rests on the base line
        ((100, 170, 120, 196), "", 26), ((100, 197, 120, 203), "", 3), ((100, 197, 120, 204), "", -4),
        ((100, 196, 120, 203), "", 4), ((100, 200, 120, 230), "", -30), ((100, 198, 120, 230), "", -30),
    ],
)  # fmt: skip
def test_the_value_of_a_bar_on_an_exact_axis(box: PixelBox, printed: str, value: float) -> None:
    frame = BarFrame(True, 200.0, NumberAxis("y", -1.0, 200.0, ()))
    assert _value(bar(*box), frame, [text(printed, box[0], 140, box[2], box[1] - 5)]) == value


def test_one_bar_is_no_chart_of_bars_and_an_axis_decides_between_two_readings() -> None:
    assert read_bars(BASE[:1], TICKS, []) is None
    assert read_bars([], [], []) is None
    both = [bar(100, 100, 150, 150), bar(100, 160, 130, 210), bar(180, 120, 230, 210)]
    row = [text(str(value), 95 + value, 220, 105 + value, 230) for value in (0, 50, 100)]
    for lines, standing in (([], True), (row, False)):
        found = read_bars(both, lines, [])
        assert found is not None
        assert found[0].standing is standing


def test_of_bars_that_begin_beside_each_other_the_highest_and_then_the_leftmost_says_where() -> None:
    for right, base in ((bar(140, 120, 160, 198), 200), (bar(140, 110, 160, 198), 198)):
        left = bar(100, 120, 120, 200)
        for shapes in ([left, right], [right, left]):
            found = read_bars(shapes, [], [])
            assert found is not None
            assert (found[0].standing, found[0].base) == (True, base)


def test_what_begins_at_one_side_is_one_bar() -> None:
    found = read_bars([bar(100, 150, 120, 200), bar(100, 120, 124, 200)], [], [])
    assert found is not None
    assert not found[0].standing


@pytest.mark.parametrize(("left", "value"), [(148, 51), (147, 50), (164, 51), (165, 50)])
def test_a_number_at_the_end_of_a_lying_bar(left: int, value: float) -> None:
    lying = [bar(100, 100, 150, 120), bar(100, 140, 180, 160)]
    row = [text(str(number), 95 + number, 220, 105 + number, 230) for number in (0, 50, 100)]
    found = marks(lying, [*row, text("51", left, 105, left + 20, 115)])
    assert found[0].value == pytest.approx(value)


def test_frames_and_axes_by_hand() -> None:
    standing, lying = BarFrame(True, 200.0, None), BarFrame(False, 100.0, None)
    assert (standing.ends((1, 2, 3, 4)), standing.across((1, 2, 3, 4))) == ((4, 2), (1, 3))
    assert (lying.ends((1, 2, 3, 4)), lying.across((1, 2, 3, 4))) == ((1, 3), (2, 4))
    axis = NumberAxis("y", -0.5, 100.0, ())
    assert axis.value(150) == 25
    assert axis.through_zero(202).value(202) == 0
    assert axis.through_zero(198).value(198) == 0
    assert axis.through_zero(202.1) == axis
    assert axis.through_zero(197.9) == axis


@pytest.mark.parametrize(
    ("shift", "ticks"), [((0, 0), 3), ((8, 8), 3), ((9, 0), 3), ((0, 9), 3), ((9, 9), 2), ((-9, -9), 2), ((-8, -9), 3)]
)
def test_numbers_of_a_column_begin_or_end_in_line(shift: tuple[int, int], ticks: int) -> None:
    lines = [text(str(value), 60, 195 - value, 80, 205 - value) for value in (0, 50)]
    axis = number_axis([*lines, text("100", 60 + shift[0], 95, 80 + shift[1], 105)], "y")
    assert (axis is not None) is (ticks == 3)
    if axis is not None:
        assert [axis.value(200), axis.value(150)] == pytest.approx([0, 50])


@pytest.mark.parametrize(("shift", "found"), [(0, True), (5, True), (6, False), (-5, True), (-6, False)])
def test_numbers_of_a_row_stand_in_line(shift: int, found: bool) -> None:
    lines = [text(str(value), 95 + value, 220, 105 + value, 230) for value in (0, 50)]
    axis = number_axis([*lines, text("100", 195, 220 + shift, 205, 230 + shift)], "x")
    assert (axis is not None) is found
    if axis is not None:
        assert [axis.value(100), axis.value(175)] == pytest.approx([0, 75])


@pytest.mark.parametrize(("off", "found"), [(0, True), (3, True), (4, False), (-3, True), (-4, False)])
def test_a_number_is_on_an_axis_to_three_pixels(off: int, found: bool) -> None:
    lines = [text(str(value), 60, 195 - value, 80, 205 - value) for value in (0, 100)]
    axis = number_axis([*lines, text("50", 60, 145 + off, 80, 155 + off)], "y")
    assert (axis is not None) is found


def test_the_axis_with_most_numbers_wins_and_equal_numbers_make_none() -> None:
    left = [text(str(value), 60, 195 - value, 80, 205 - value) for value in (0, 50, 100)]
    right = [text(str(2 * value), 260, 195 - value, 290, 205 - value) for value in (0, 30, 60, 90)]
    for lines in ([*left, *right], [*right, *left]):
        axis = number_axis(lines, "y")
        assert axis is not None
        assert [line.box[0] for line in axis.ticks] == [260] * 4
        assert axis.slope == pytest.approx(-2)
    assert number_axis([text("7", 60, y, 80, y + 10) for y in (10, 50, 90)], "y") is None
    assert number_axis([text(str(n), 60, 100 + n, 80, 110 + n) for n in range(4)], "y") is None  # of one place
    assert number_axis([text(str(n), 60, 100 + n, 80, 110 + n) for n in range(5)], "y") is not None


def test_of_axes_with_as_many_numbers_the_first_is_taken() -> None:
    left = [text(str(value), 60, 195 - value, 80, 205 - value) for value in (0, 50, 100)]
    right = [text(str(2 * value), 260, 195 - value, 290, 205 - value) for value in (0, 50, 100)]
    among = [text(str(value), 60, 265 - 25 * value, 80, 275 - 25 * value) for value in (5, 6, 7)]
    for first, second in ((left, right), (right, left), (left, among), (among, left)):
        axis = number_axis([*first, *second], "y")
        assert axis is not None
        assert axis.ticks == tuple(first)
