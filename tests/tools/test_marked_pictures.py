"""What measuring tools draw into the pictures that they give back, and numbers to the last digit that they print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from saccade.tools.context import ToolContext
from saccade.tools.look import Look, fraction
from saccade.tools.registry import make_tool
from saccade.tools.shapes import MatchTemplateArguments, _peaks


def page(size: tuple[int, int]) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", size, "white")
    return image, ImageDraw.Draw(image)


def call(name: str, image: Image.Image, **arguments: Any) -> tuple[Any, list[tuple[int, int]], int]:
    """The result, and the first and last row and column of red in its picture with the number of such pixels."""
    result = make_tool(name).call(arguments, ToolContext({"a": image}))
    assert result.ok, result.text
    red = np.argwhere((np.asarray(result.pictures[0].image) == (255, 0, 0)).all(axis=2))
    ends = [(int(red[:, axis].min()), int(red[:, axis].max())) for axis in (0, 1)] if red.size else []
    return result.value, ends, len(red)


def test_segments_are_drawn_two_pixels_wide() -> None:
    image, pen = page((140, 60))
    pen.line((20, 30, 119, 30), fill="black")  # has an edge above and one below
    value, ends, count = call("hough_lines", image)
    assert [(line["start"], line["end"]) for line in value["lines"]] == [
        ([20.0, 31.0], [119.0, 31.0]), ([20.0, 29.0], [119.0, 29.0]),
    ]  # fmt: skip
    assert (ends, count) == ([(28, 32), (19, 120)], 504)
    pen.rectangle((20, 30, 119, 59), fill="black")
    value, ends, _ = call("hough_lines", image, box=[10, 10, 140, 60])  # the picture is that of the box
    assert [(line["start"], line["end"]) for line in value["lines"]] == [([21.0, 29.0], [118.0, 29.0])]
    assert ends == [(18, 20), (10, 109)]


def test_circles_are_drawn_two_pixels_wide() -> None:
    image, pen = page((80, 80))
    pen.ellipse((20, 20, 60, 60), fill="black")
    value, ends, count = call("hough_circles", image)
    assert value["circles"] == [{"center": [39.0, 39.0], "radius": 20.53}]
    assert (ends, count) == ([(17, 61), (17, 61)], 410)


def test_outlines_are_drawn_two_pixels_wide() -> None:
    image, pen = page((60, 60))
    pen.rectangle((20, 20, 40, 40), fill="black")
    value, ends, count = call("contours", image)
    assert (ends, count) == ([(19, 41), (19, 41)], 236)
    image, pen = page((60, 60))
    pen.polygon(((30, 20), (40, 30), (30, 40), (20, 30)), fill="black")
    value, _, _ = call("contours", image)
    assert [(one["area"], one["perimeter"], one["corners"]) for one in value["contours"]] == [(200.0, 56.6, 4)]


def test_colours_to_a_hundredth_and_bins_of_equal_width() -> None:
    grey = Image.fromarray(np.array([[0, 63, 64]], np.uint8)).convert("RGB")
    value = make_tool("color_stats").call({"bins": 4}, ToolContext({"a": grey})).value
    assert value is not None
    assert value["mean"] == [42.33] * 3
    assert value["deviation"] == [29.94] * 3
    assert value["histogram"] == [[2, 1, 0, 0]] * 3


@pytest.mark.parametrize("level", [0, 1])
def test_a_level_is_said_as_it_was_given(level: int) -> None:
    image = Image.fromarray(np.array([[0, 1, 2, 3]], np.uint8)).convert("RGB")
    value = make_tool("threshold").call({"method": "fixed", "level": level}, ToolContext({"a": image})).value
    assert value is not None
    assert (value["level"], value["white_fraction"]) == (level, (3 - level) / 4)


def test_places_whose_scores_are_equal_to_four_digits_come_in_reading_order() -> None:
    template = np.random.default_rng(0).integers(0, 256, (16, 16)).astype(np.uint8)
    nearly = template.copy()
    nearly[0, 0] ^= 2  # its score is 0.999998
    grey = np.full((60, 80), 128, np.uint8)
    for (row, column), part in (((2, 40), nearly), ((2, 3), nearly), ((30, 20), template)):
        grey[row : row + 16, column : column + 16] = part
    found = _peaks(grey, template, MatchTemplateArguments(template_box=(0, 0, 1, 1), min_score=0.9))
    assert found == [(3, 2, 1.0), (40, 2, 1.0), (20, 30, 1.0)]


def test_places_and_fractions_are_rounded() -> None:
    seen = Look("a", (3, 4, 9, 9), np.zeros((5, 6, 3), np.uint8))
    assert seen.point_of(1.23456, 2.34567) == (4.23, 6.35)
    assert (seen.area, seen.box_of(1, 2, 3, 4)) == (30, (4, 6, 7, 10))
    assert fraction(np.array([[0, 1, 2]], np.uint8)) == 0.666667
