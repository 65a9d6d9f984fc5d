"""The OpenCV primitives on a drawn scene whose numbers are known, and on any box at all."""

from __future__ import annotations

import json
from math import pi
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.toolbox import Toolbox

NAMES = ["color_mask", "color_stats", "contours", "edges", "hough_circles", "hough_lines", "threshold"]
BOX = Toolbox.of(*NAMES, "match_template")
BLINDTEST = Path(__file__).parents[3] / "shared/data/blindtest"


def draw() -> Image.Image:
    """240 × 160, white: a black square of 41, a red disc of radius 30, two equal blue crosses."""
    image = Image.new("RGB", (240, 160), "white")
    pen = ImageDraw.Draw(image)
    pen.rectangle((20, 20, 60, 60), fill="black")
    pen.ellipse((120, 30, 180, 90), fill=(255, 0, 0))
    for x, y in ((30, 120), (200, 130)):
        pen.line((x - 8, y, x + 8, y), fill=(0, 0, 255), width=3)
        pen.line((x, y - 8, x, y + 8), fill=(0, 0, 255), width=3)
    return image


SCENE = ToolContext({"scene": draw()})


def value(name: str, **arguments: Any) -> dict[str, Any]:
    result = BOX.call(name, arguments, SCENE)
    assert result.status is Status.OK, result.text
    return json.loads(json.dumps(result.value))  # type: ignore[no-any-return]


def refused(name: str, context: ToolContext = SCENE, **arguments: Any) -> str:
    result = BOX.call(name, arguments, context)
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT
    return result.text


def test_contours_are_measured_in_the_whole_image() -> None:
    found = value("contours")
    assert found["count"] == 4
    disc, square = found["contours"][:2]
    assert disc["area"] == pytest.approx(pi * 30**2, rel=0.03)
    assert square["area"] == 1600
    assert square["box"] == [20, 20, 61, 61]
    assert square["corners"] == 4
    part = value("contours", box=[10, 10, 100, 100])
    assert part["contours"] == [square]
    assert value("contours", limit=1)["count"] == 4


def test_light_things_on_dark() -> None:
    found = value("contours", things="light", box=[22, 22, 58, 58], level=128)
    assert found["count"] == 0


def test_color_mask_through_zero() -> None:
    red = value("color_mask", hue=[350, 10], saturation=[0.5, 1])
    assert red["pixels"] == pytest.approx(pi * 30**2, rel=0.03)
    assert red["box"] == [120, 30, 181, 91]
    assert red["parts"] == 1
    assert value("color_mask", hue=[230, 250], saturation=[0.5, 1])["parts"] == 2
    assert value("color_mask", hue=[240, 240], saturation=[0.5, 1])["parts"] == 2, "one hue, not all of them"
    none = value("color_mask", hue=[100, 140], saturation=[0.5, 1])
    assert (none["box"], none["fraction"], none["parts"]) == (None, 0.0, 0)
    assert "Put the smaller number first" in refused("color_mask", saturation=[0.5, 0.1])


@pytest.mark.parametrize("channel", ["hue", "saturation", "value"])
@pytest.mark.parametrize("end", [0, 1])
def test_a_colour_on_the_edge_of_a_range_is_in_it_to_a_ten_thousandth(channel: str, end: int) -> None:
    picture = Image.new("RGB", (4, 4), (51, 102, 51))
    hsv = cv2.cvtColor(np.asarray(picture, np.float32) / 255, cv2.COLOR_RGB2HSV)[0, 0]
    exact = float(hsv[("hue", "saturation", "value").index(channel)])
    assert exact == pytest.approx({"hue": 120, "saturation": 0.5, "value": 0.4}[channel], abs=1e-6)
    inward = 1 if end == 0 else -1
    for off, pixels in ((1e-4, 16), (1.5e-4, 0)):
        limits = [0.0, 1.0]
        limits[end] = exact + inward * off
        if channel == "hue" and end == 0:
            limits[1] = 360.0
        found = BOX.call("color_mask", {channel: limits}, ToolContext({"a": picture}))
        assert found.value is not None, found.text
        assert found.value["pixels"] == pixels


def test_color_stats_of_a_box() -> None:
    disc = value("color_stats", box=[140, 50, 160, 70], bins=4)
    assert disc["mean"] == [255.0, 0.0, 0.0]
    assert disc["deviation"] == [0.0, 0.0, 0.0]
    assert disc["histogram"] == [[0, 0, 0, 400], [400, 0, 0, 0], [400, 0, 0, 0]]
    all_stats = value("color_stats", bins=7)
    pixels = np.asarray(draw(), dtype=float)
    assert all_stats["mean"] == pytest.approx(pixels.mean(axis=(0, 1)), abs=0.01)
    assert all_stats["deviation"] == pytest.approx(pixels.std(axis=(0, 1)), abs=0.01)
    assert [sum(channel) for channel in all_stats["histogram"]] == [240 * 160] * 3


def test_threshold_methods() -> None:
    fixed = value("threshold", method="fixed", level=10)
    assert fixed["level"] == 10
    assert fixed["white_fraction"] == pytest.approx(1 - 41 * 41 / (240 * 160), abs=1e-6)
    inverted = value("threshold", method="fixed", level=10, invert=True)
    assert inverted["white_fraction"] == pytest.approx(1 - fixed["white_fraction"], abs=2e-6)
    assert value("threshold", method="adaptive")["level"] is None
    assert 0 <= value("threshold")["level"] < 255
    assert "level belongs" in refused("threshold", method="fixed")
    assert "level belongs" in refused("threshold", level=3)
    assert "Use 9" in refused("threshold", method="adaptive", window=8)


def test_edges_lie_on_the_outlines() -> None:
    assert value("edges")["edge_fraction"] > 0.005
    assert value("edges", box=[130, 50, 170, 70])["edge_fraction"] == 0
    assert "Swap" in refused("edges", low=200, high=100)


def test_template_finds_the_twin() -> None:
    found = value("match_template", template_box=[20, 110, 41, 131])
    assert found["template"] == [20, 110, 41, 131]
    assert [match["box"] for match in found["matches"]] == [[20, 110, 41, 131], [190, 120, 211, 141]]
    assert found["matches"][0]["score"] == 1.0
    only = value("match_template", template_box=[20, 110, 41, 131], box=[150, 100, 240, 160])
    assert [match["box"] for match in only["matches"]] == [[190, 120, 211, 141]]
    assert "one colour" in refused("match_template", template_box=[80, 80, 90, 90])
    assert "larger than the region" in refused("match_template", template_box=[0, 0, 99, 99], box=[0, 0, 50, 50])


def test_lines_have_length_and_angle() -> None:
    image = Image.new("L", (200, 200), 255)
    ImageDraw.Draw(image).line((20, 180, 180, 20), fill=0, width=3)
    result = BOX.call("hough_lines", {}, ToolContext({"a": image}))
    assert result.value is not None
    first = json.loads(json.dumps(result.value["lines"]))[0]
    assert first["angle"] == pytest.approx(45, abs=2)
    assert first["length"] == pytest.approx(226, rel=0.05)


def test_circles() -> None:
    found = value("hough_circles", min_radius=20, max_radius=50)
    assert found["count"] == 1
    assert found["circles"][0]["center"] == pytest.approx([150, 60], abs=2)
    assert found["circles"][0]["radius"] == pytest.approx(30, abs=2)
    assert "Swap" in refused("hough_circles", min_radius=20, max_radius=10)


def boxes_in(found: Any) -> list[list[int]]:
    if isinstance(found, dict):
        own = [found["box"]] if found.get("box") is not None else []
        return own + [box for each in found.values() for box in boxes_in(each)]
    return [box for each in found for box in boxes_in(each)] if isinstance(found, list | tuple) else []


@given(
    st.sampled_from([*NAMES, "match_template"]),
    st.lists(st.floats(-40, 300), min_size=4, max_size=4),
    st.sampled_from(["pixels", "normalized"]),
)
def test_any_box_gives_boxes_inside_the_image_or_a_problem(name: str, box: list[float], units: str) -> None:
    arguments: dict[str, Any] = {"box": box, "units": units}
    if name == "match_template":
        arguments["template_box"] = [20, 110, 41, 131]
    result = BOX.call(name, arguments, SCENE)
    if result.problem is not None:
        assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT, result.problem
        return
    for left, top, right, bottom in boxes_in(result.value):
        assert 0 <= left < right <= 240
        assert 0 <= top < bottom <= 160


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(1, 1), (1, 90), (90, 1), (3, 2)])
def test_images_of_a_pixel_or_a_line(name: str, size: tuple[int, int]) -> None:
    result = BOX.call(name, {}, ToolContext({"a": Image.new("RGB", size, "red")}))
    assert result.ok, result.problem


@pytest.mark.slow
def test_a_region_beyond_the_limit_is_refused_before_the_work() -> None:
    huge = ToolContext({"a": Image.new("L", (10_000, 5_000)).convert("RGB")})
    assert "Choose a smaller box" in refused("edges", huge)


@pytest.mark.skipif(not BLINDTEST.exists(), reason="the shared pictures are not here")
@pytest.mark.parametrize("name", NAMES)
def test_real_pictures(name: str) -> None:
    picture = sorted((BLINDTEST / "images").glob("*.png"))[0]
    result = BOX.call(name, {}, ToolContext({"a": lambda: Image.open(picture)}))
    assert result.ok, result.problem


def test_a_mask_of_many_rows_has_every_row_once() -> None:
    """Rows are read 512 at a time."""
    for height in (511, 512, 513, 600, 1025):
        image = Image.new("RGB", (30, height), "white")
        image.paste((0, 0, 0), (0, height - 1, 30, height))
        white = Toolbox.of("color_mask").call("color_mask", {"value": [1, 1]}, ToolContext({"x": image}))
        assert isinstance(white.value, dict)
        assert (white.value["pixels"], white.value["box"]) == (30 * (height - 1), [0, 0, 30, height - 1])
