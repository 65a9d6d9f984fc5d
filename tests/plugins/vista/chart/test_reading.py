"""Bars and number axes by their places alone: which pixels still count as one line, one bar, one label."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, radians, sin

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.plugins.vista.chart.drawn import BLUE, GREEN, RED, Board, pie, standing, text

from saccade.plugins.vista.chart.marks import (
    ChartLegendEntry,
    ChartMark,
    ColourShape,
    NumberAxis,
    Place,
    common_colours,
    find_curve,
    find_shapes,
    mask_of_colour,
    number_axis,
    number_of,
    on_ticks,
    paper_colour,
    read_pie,
    read_points,
)
from saccade.plugins.vista.chart.reading import (
    BarFrame,
    ChartReading,
    _tight,
    _value,
    _whole,
    find_legend,
    read_bars,
    read_chart,
    split_lines,
)
from saccade.plugins.vista.ocr import TextLine
from saccade.tools.definition import PixelBox, Rgb
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


def pie_pixels(hole: int = 0, *, third: bool = True) -> PixelArray:
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
        marks = read_pie(pie_pixels(hole), WHITE, lines, names)
        assert {(mark.color, mark.label.text if mark.label else ""): mark.value for mark in marks} == pytest.approx(
            {(RED, "a"): 50, (BLUE, "b"): 25, (GREEN, "c"): 25}, abs=1
        )
    # A name that is missing, or stands between two slices, leaves all of them without.
    for lines in (rim[:2], [*rim[:2], text("c", 310, 144, 330, 156)]):
        assert [mark.label for mark in read_pie(pie_pixels(hole), WHITE, lines, [])] == [None] * 3


def test_discs_that_are_no_pies() -> None:
    def rings(pen: ImageDraw.ImageDraw) -> None:
        for radius, colour in ((100, RED), (70, BLUE), (40, GREEN)):
            pen.ellipse((200 - radius, 150 - radius, 200 + radius, 150 + radius), fill=colour)

    def area(pen: ImageDraw.ImageDraw) -> None:
        pen.polygon([(100, 250), (110, 90), (150, 60), (260, 52), (300, 120), (296, 250)], fill=RED)
        pen.polygon([(100, 250), (200, 150), (296, 250)], fill=BLUE)

    for draw in (rings, area, lambda pen: pen.ellipse((100, 50, 300, 250), fill=RED)):
        assert read_pie(sheet(draw), WHITE, [], []) == ()
    assert len(read_pie(pie_pixels(third=False), WHITE, [], [])) == 2


@pytest.mark.parametrize(("shade", "seen"), [(235, False), (234, True)])
def test_ink_differs_from_the_ground_by_more_than_60_over_its_channels(shade: int, seen: bool) -> None:
    ink = (shade, shade, shade)
    line = text("one two", 0, 10, 90, 30)
    found = split_lines(page(90, 60, (0, 20, 30, 24, ink), (60, 20, 90, 24, ink)), [line])
    assert [part.text for part in found] == (["one", "two"] if seen else ["one two"])
    as_high = text("one two", 0, 10, 20, 30)
    assert len(split_lines(page(90, 60, (0, 20, 2, 24, ink), (18, 20, 20, 24, ink)), [as_high])) == 1 + seen


BLANK = np.full((300, 400, 3), 255, np.uint8)


def bar(*box: int, color: Rgb = RED) -> ColourShape:
    x0, y0, x1, y1 = box
    return ColourShape("rectangle", (x0, y0, x1, y1), color, (x1 - x0) * (y1 - y0), np.zeros((0, 2), np.int32))


def marks(
    shapes: list[ColourShape], lines: list[TextLine], legend: list[ChartLegendEntry] | None = None
) -> list[ChartMark]:
    found = read_bars(BLANK, shapes, lines, legend or [])
    return [] if found is None else list(found[1])


BASE = [bar(100, 150, 120, 200), bar(140, 120, 160, 200)]
TICKS = [text(str(value), 60, 194 - value, 80, 206 - value) for value in (0, 50, 100)]  # a pixel is one


def test_values_of_bars_that_hang_and_that_are_stacked() -> None:
    shapes = [*BASE, bar(180, 200, 200, 230), bar(100, 110, 120, 150, color=BLUE)]
    found = marks(shapes, TICKS)
    assert [(mark.color, round(mark.value or 0)) for mark in found] == [(RED, 50), (BLUE, 40), (RED, 80), (RED, -30)]
    assert [mark.value for mark in marks(shapes, [])] == [None] * 4
    lined = [bar(100, 151, 120, 199), BASE[1], bar(100, 111, 120, 149, color=BLUE)]  # two pixels of white around each
    assert [round(mark.value or 0) for mark in marks(lined, TICKS) if mark.color == BLUE] == [40]


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


def test_bars_are_some_that_end_differently_and_an_axis_decides_between_two_readings() -> None:
    assert read_bars(BLANK, BASE[:1], TICKS, []) is None
    assert read_bars(BLANK, [], [], []) is None
    both = [bar(100, 100, 150, 150), bar(100, 160, 130, 210), bar(180, 120, 230, 210)]
    row = [text(str(value), 95 + value, 220, 105 + value, 230) for value in (0, 50, 100)]
    assert read_bars(BLANK, both, [], []) is None, "two rectangles without an axis are no chart"
    level = [bar(100 + 40 * n, 150, 120 + 40 * n, 200) for n in range(4)]
    assert read_bars(BLANK, level, TICKS, []) is None, "all of one height: cells, markers or patches of a legend"
    uneven = [bar(100, 160, 150, 180), bar(100, 185, 130, 205)]
    found = read_bars(BLANK, uneven, row, [])
    assert found is not None
    assert not found[0].standing
    scattered = [*BASE, *(bar(180 + 30 * n, 40 + 9 * n, 200 + 30 * n, 90 + 9 * n) for n in range(3))]
    assert read_bars(BLANK, scattered, TICKS, []) is None, "most of them stand elsewhere"
    lower = [text(line.text, 60, line.box[1] + 60, 80, line.box[3] + 60) for line in TICKS]
    assert read_bars(BLANK, BASE, lower, []) is None, "the axis has its zero far below"


@pytest.mark.parametrize(("left", "value"), [(148, 51), (147, 50), (164, 51), (165, 50)])
def test_a_number_at_the_end_of_a_lying_bar(left: int, value: float) -> None:
    lying = [bar(100, 100, 150, 120), bar(100, 140, 180, 160)]
    row = [text(str(number), 95 + number, 220, 105 + number, 230) for number in (0, 50, 100)]
    found = marks(lying, [*row, text("51", left, 105, left + 20, 115)])
    assert found[0].value == pytest.approx(value)


def test_an_axis_goes_through_a_base_line_that_is_two_pixels_away() -> None:
    axis = NumberAxis("y", -0.5, 100.0, ())
    assert axis.value(150) == 25
    assert axis.through_zero(202).value(201) == 0
    assert axis.through_zero(198).value(199) == 0
    assert axis.through_zero(202.1) == axis
    assert axis.through_zero(197.9) == axis


def column(*values: float | str, right: int = 80, step: int = 50) -> list[TextLine]:
    """Numbers under each other, the first lowest."""
    return [text(str(value), right - 20, 244 - step * n, right, 256 - step * n) for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("numbers", "values"),
    [
        ((0, 50, 100), {250: 0, 225: 25, 150: 100}),
        ((0, 50, 700, 150, 200), {225: 25}),  # one was misread
        ((0, 50, 7, 150, 9), None),  # too many do not fit
        ((7, 7, 7), None), ((0, 50), None), ((100, 50, 0), None),  # grows downwards: signs were lost
        ((40, 20, 0, 20, 40), None), ((1, 10, 100, 1000), {250: 1, 225: 10**0.5, 100: 1000}),
        (("10¹", "102", "10³"), {250: 10, 200: 100}), ((101, 102, 103), None), (("10^1", "10^2", "10³"), {200: 100}),
        ((-20, 0, 20), {225: -10}),
    ],
)  # fmt: skip
def test_an_axis_is_what_nearly_all_of_its_numbers_say(
    numbers: tuple[float | str, ...], values: dict[int, float] | None
) -> None:
    axis = number_axis(column(*numbers), "y")
    assert (axis is None) is (values is None)
    for pixel, value in (values or {}).items():
        assert axis is not None
        assert axis.value(pixel) == pytest.approx(value, rel=1e-6, abs=1e-6)


def test_a_factor_at_the_end_of_an_axis_counts_and_a_second_axis_makes_none() -> None:
    left = column(0, 1, 2, 3)
    for factor, value in (("1e6", 1e6), ("1e-3", 1e-3), ("×10⁴", 1e4), ("le6", 1e6)):
        axis = number_axis([*left, text(factor, 60, 60, 90, 72)], "y")
        assert axis is not None
        assert axis.value(200) == pytest.approx(value)
    assert number_axis([*left, *column(0, 30, 60, 90, right=380)], "y") is None
    assert number_axis([*left, *column(0, 1, 2, 3, right=380)], "y") is not None


def read(board: Board) -> ChartReading:
    return read_chart(np.asarray(board.picture), board.lines)


def table(reading: ChartReading) -> dict[tuple[str, str], float | None]:
    return {
        (mark.label.text if mark.label else "", mark.series.text.text if mark.series else ""): (
            None if mark.value is None else round(mark.value)
        )
        for mark in reading.marks
    }


def test_standing_bars_of_two_series() -> None:
    reading = read(standing({"Mon": (30, 75), "Tue": (8, 50), "Wed": (99, 12)}))
    assert reading.kind == "bar"
    assert reading.title == "Harvest"
    assert table(reading) == {
        ("Mon", "North"): 30, ("Mon", "South"): 75, ("Tue", "North"): 8, ("Tue", "South"): 50,
        ("Wed", "North"): 99, ("Wed", "South"): 12,
    }  # fmt: skip
    assert [label for label, _ in table(reading)] == ["Mon", "Mon", "Tue", "Tue", "Wed", "Wed"]
    roles = {line.text: role for line, role in reading.texts}
    assert (roles["Mon"], roles["North"], roles["60"], roles["Harvest"]) == ("category", "legend", "axis_tick", "title")


def test_a_number_that_was_misread_moves_no_axis() -> None:
    board = standing({"Mon": (30,), "Tue": (60,)})
    board.lines[2] = board.lines[2].model_copy(update={"text": "940"})
    assert table(read(board)) == {("Mon", ""): 30, ("Tue", ""): 60}


def test_without_an_axis_bars_have_no_values_unless_they_are_printed() -> None:
    board = standing({"Mon": (30,), "Tue": (60,), "Wed": (50,)})
    board.lines = [line for line in board.lines if not line.text.isdigit()]
    assert table(read(board)) == {("Mon", ""): None, ("Tue", ""): None, ("Wed", ""): None}
    board.write("31", (85, 190))
    assert table(read(board)) == {("Mon", ""): 31, ("Tue", ""): None, ("Wed", ""): None}


def test_lying_bars() -> None:
    board = Board((420, 220))
    board.pen.line((80, 20, 80, 180), fill="black")
    for tick in range(0, 31, 10):
        board.write(str(tick), (80 + 10 * tick, 200))
    for row, (label, value) in enumerate({"Oak": 25, "Fir": 4, "Elm": 18}.items()):
        board.write(label, (55, 45 + 50 * row))
        board.pen.rectangle((80, 35 + 50 * row, 79 + 10 * value, 55 + 50 * row), fill=GREEN)
    found = table(read(board))
    assert found == {("Oak", ""): 25, ("Fir", ""): 4, ("Elm", ""): 18}
    assert [label for label, _ in found] == ["Oak", "Fir", "Elm"], "from top to bottom"


def test_a_grid_line_over_a_bar_and_stacked_bars() -> None:
    board = standing({"Mon": (40,), "Tue": (70,)})
    board.pen.line((51, 200, 340, 200), fill=(208, 208, 208))
    assert table(read(board)) == {("Mon", ""): 40, ("Tue", ""): 70}
    board.pen.rectangle((75, 260 - 2 * 90, 94, 260 - 2 * 40 - 1), fill=BLUE)
    marks = read(board).marks
    assert [(mark.color, round(mark.value or 0)) for mark in marks] == [(RED, 40), (BLUE, 50), (RED, 70)], "upwards"
    assert [mark.label and mark.label.text for mark in marks] == [None, None, "Tue"], "which of two is the one of Mon?"


def test_a_note_beside_the_tallest_bar_is_no_title() -> None:
    board = standing({"Mon": (99,), "Tue": (60,)})
    board.lines = [line for line in board.lines if line.text != "Harvest"]
    board.write("estimated", (300, 88))
    assert read(board).title == ""
    board.write("Yield", (200, 20))
    assert read(board).title == "Yield"


def test_years_in_a_row_may_be_a_legend() -> None:
    board = standing({"Mon": (30, 75, 50), "Tue": (8, 50, 20)}, (RED, BLUE, GREEN))
    board.lines = [line for line in board.lines if line.text not in ("North", "South")]
    board.pen.rectangle((360, 70, 450, 130), fill="white")
    for order, (year, colour) in enumerate((("2019", RED), ("2020", BLUE), ("2021", GREEN))):
        board.pen.rectangle((100 + 90 * order, 30, 112 + 90 * order, 42), fill=colour)
        board.write(year, (140 + 90 * order, 36))
    reading = read(board)
    assert [entry.text.text for entry in reading.legend] == ["2019", "2020", "2021"]
    assert table(reading)["Tue", "2020"] == 50


@pytest.mark.parametrize(
    ("blocks", "found"),
    [
        ([(94, 10, 98, 21)], True),
        ([(95, 10, 99, 21)], False),  # its last column touches the name: four are left
        ([(90, 10, 93, 21)], False),
        ([(45, 10, 98, 21)], True),
        ([(44, 10, 98, 21)], False),  # begins before the reach of 56 pixels
        ([(60, 10, 64, 21), (90, 10, 94, 21)], True),
        ([(60, 10, 64, 21), (90, 10, 93, 21)], False),
        ([(80, 10, 83, 21), (91, 10, 94, 21)], True),  # two dashes of one stroke
        ([(80, 10, 83, 21), (92, 10, 95, 21)], False),
        ([(44, 10, 46, 21), (50, 10, 53, 21)], False),
        ([(90, 26, 96, 28)], False),  # below the name
        ([(90, 20, 96, 22)], True),
        ([(80, 2, 98, 32)], False),  # higher than the name: a bar
        ([(60, 12, 72, 20)], False),  # too far away
        ([(60, 10, 98, 10)], True),
    ],
)
def test_the_patch_of_a_name_in_a_legend(blocks: list[tuple[int, int, int, int]], found: bool) -> None:
    board = Board((200, 40))
    for block in blocks:
        board.pen.rectangle(block, fill=RED)
    board.lines.append(text("North", 100, 10, 130, 22))
    legend = find_legend(np.asarray(board.picture), board.lines, [(255, 255, 255)])
    assert [entry.color for entry in legend] == ([RED] if found else [])


def test_lines_are_read_where_their_labels_stand() -> None:
    board = standing({"Mon": (10,)})
    board.pen.rectangle((51, 30, 340, 259), fill="white")
    places = [(95, 40), (175, 80), (255, 25)]
    for label, (x, _) in zip(("Tue", "Wed"), places[1:], strict=True):
        board.write(label, (x, 275))
    points = [(x, 260 - 2 * value) for x, value in places]
    board.pen.line(points, fill=RED, width=2)
    for x, y in points:
        board.pen.ellipse((x - 5, y - 5, x + 5, y + 5), fill=RED)
    reading = read(board)
    assert reading.kind == "line"
    assert table(reading) == {("Mon", ""): 40, ("Tue", ""): 80, ("Wed", ""): 25}


def test_slices_of_a_pie_with_a_legend() -> None:
    reading = read(pie())
    assert reading.kind == "pie"
    shares = {mark.label.text: mark.value for mark in reading.marks if mark.label}
    assert shares == pytest.approx({"Cat": 50, "Dog": 30, "Owl": 20}, abs=1)


def test_a_blank_page_and_noise_are_no_chart() -> None:
    assert read(Board((200, 100))).kind == "unknown"
    noise = np.random.default_rng(0).integers(0, 255, (90, 120, 3)).astype(np.uint8)
    assert read_chart(noise, ()).marks == ()


def test_kinds_of_shapes() -> None:
    board = Board((300, 200))
    board.pen.rectangle((20, 20, 79, 59), fill=RED)
    board.pen.ellipse((120, 20, 160, 60), fill=BLUE)
    corners = [(200 + 40 * cos(radians(turn)), 120 + 40 * sin(radians(turn))) for turn in (0, 120, 240)]
    board.pen.polygon(corners, fill=GREEN)
    board.pen.ellipse((20, 100, 79, 139), fill=(90, 40, 120))
    found = {shape.color: (shape.kind, shape.box) for shape in find_shapes(np.asarray(board.picture))}
    assert found[RED] == ("rectangle", (20, 20, 80, 60))
    assert found[BLUE][0] == "circle"
    assert found[GREEN][0] == "region"
    assert found[90, 40, 120] == ("region", (20, 100, 80, 140)), "half as wide again as it is high"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,200", 1200), ("45%", 45), ("$3.5k", 3500), ("-7", -7), ("−0.5", -0.5), ("1,5", 1.5), ("125 -", 125),
        ("2M", 2e6), ("3K", 3000), ("4B", 4e9), ("5%", 5),
        ("Mon", None), ("", None), ("1.2.3", None), ("12 apples", None),
    ],
)  # fmt: skip
def test_numbers_of_labels(text: str, value: float | None) -> None:
    assert number_of(text) == value


def test_labels_that_ocr_took_together_are_cut_apart() -> None:
    board = Board((300, 60))
    board.write("Oak", (40, 30))
    board.write("Sea wall", (150, 30))
    first, second = board.lines
    box = (first.box[0], first.box[1], second.box[2], second.box[3])
    line = TextLine(text="Oak Sea wall", confidence=1.0, box=box, corners=first.corners)
    parts = split_lines(np.asarray(board.picture), [line])
    assert [part.text for part in parts] == ["Oak", "Sea wall"]
    assert abs(parts[1].box[0] - second.box[0]) <= 3
