"""The OpenCV primitives on a drawn scene whose numbers are known, and on any box at all."""

from __future__ import annotations

import json
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.measure import Look, MatchTemplateArguments, _peaks, _segment
from saccade.tools.pictures import MAX_ASPECT, MAX_SIDE
from saccade.tools.registry import aliases, make_tool, own_name, recorded_tool
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


def call(name: str, image: Image.Image | np.ndarray[Any, Any], **arguments: Any) -> ToolResult:
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    return make_tool(name).call(arguments, ToolContext({"a": picture}))


def value_in(name: str, image: Image.Image | np.ndarray[Any, Any], **arguments: Any) -> dict[str, Any]:
    result = call(name, image, **arguments)
    assert result.ok, result.text
    return json.loads(json.dumps(result.value))  # type: ignore[no-any-return]


def blank(width: int, height: int) -> Image.Image:
    return Image.new("RGB", (width, height), "white")


def test_the_largest_region_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tools.measure.MAX_PIXELS", 50)
    for box in ([0, 0, 10, 5], [3, 2, 13, 7]):
        assert call("edges", blank(20, 20), box=box).ok
    refused = call("edges", blank(20, 20), box=[3, 2, 20, 5])
    assert refused.text.startswith("The region has more than 50 pixels. Choose a smaller box.")


def test_a_range_may_be_a_single_value() -> None:
    red = Image.new("RGB", (4, 4), (255, 0, 0))
    assert value_in("color_mask", red, saturation=[1, 1], value=[1, 1], hue=[0, 0], min_area=16)["parts"] == 1
    assert value_in("color_mask", red, min_area=17)["parts"] == 0
    assert call("edges", red, low=100, high=100).ok
    assert value_in("hough_circles", red, min_radius=7, max_radius=7)["count"] == 0


def squares(count: int) -> Image.Image:
    """Black squares of sides 5, 6, 7, ... in a row: their outlines hold 16, 25, 36, ... pixels."""
    image = blank(30 * count + 10, 5 + count + 25)
    for number in range(count):
        ImageDraw.Draw(image).rectangle((10 + 30 * number, 10, 14 + 31 * number, 14 + number), fill="black")
    return image


def test_contours_are_listed_and_outlined_up_to_the_limit_largest_first() -> None:
    image = squares(4)
    assert value_in("contours", image, min_area=16)["count"] == 4
    assert value_in("contours", image, min_area=16.1)["count"] == 3
    found = value_in("contours", image, min_area=0, limit=2)
    assert [found["count"], [item["area"] for item in found["contours"]]] == [4, [49.0, 36.0]]
    assert found["contours"][0] == {
        "area": 49.0,
        "perimeter": 28.0,
        "box": [100, 10, 108, 18],
        "center": [104.0, 14.0],
        "corners": 4,
    }
    result = call("contours", image, min_area=0, limit=2)
    red = np.argwhere((np.asarray(result.pictures[0].image) == (255, 0, 0)).all(axis=2))
    assert 65 <= red[:, 1].min() <= 70
    assert red[:, 1].max() <= 110


def test_a_hundred_lines_and_a_hundred_circles_are_listed_and_drawn() -> None:
    lines, circles = blank(780, 420), blank(620, 620)
    for number in range(104):
        x, y = 10 + 97 * (number % 8), 10 + 31 * (number // 8)
        ImageDraw.Draw(lines).line((x, y, x + 40 + number // 4, y), fill="black")
    for number in range(110):
        x, y = 30 + 55 * (number % 11), 30 + 60 * (number // 11)
        ImageDraw.Draw(circles).ellipse((x - 14, y - 14, x + 14, y + 14), fill="black")
    found = value_in("hough_lines", lines, votes=20)
    assert found["count"] > len(found["lines"]) == 100
    lengths = [line["length"] for line in found["lines"]]
    assert lengths == sorted(lengths, reverse=True)
    found = value_in("hough_circles", circles, min_radius=8, max_radius=20)
    assert found["count"] > len(found["circles"]) == 100
    drawn = np.asarray(call("hough_circles", circles, min_radius=8, max_radius=20).pictures[0].image)
    marked = (drawn == (255, 0, 0)).all(axis=2)
    rows = [marked[round(c["center"][1]), round(c["center"][0]) + round(c["radius"])] for c in found["circles"]]
    assert all(rows)
    everywhere = [
        marked[30 + 60 * (n // 11), 30 + 55 * (n % 11) + 12 : 30 + 55 * (n % 11) + 18].any() for n in range(110)
    ]
    assert sum(everywhere) == 100


@pytest.mark.parametrize(
    ("line", "angle"),
    [
        ((0, 0, 10, 0), 0),
        ((10, 0, 0, 0), 0),
        ((0, 10, 10, 0), 45),
        ((10, 0, 0, 10), 45),
        ((0, 0, 10, 10), 135),
        ((5, 0, 5, 9), 90),
        ((0, 0, 100_000, 1), 0),  # 179.9994 is not said as 180
        ((0, 0, 10_000, 1), 179.99),
    ],
)
def test_a_segment_has_an_angle_from_0_to_below_180(line: tuple[int, ...], angle: float) -> None:
    found = _segment(line, Look("a", (3, 4, 9, 9), np.zeros((5, 6, 3), np.uint8)))
    assert found.angle == angle
    assert found.length == round(float(np.hypot(line[2] - line[0], line[3] - line[1])), 2)
    assert (found.start, found.end) == ((line[0] + 3, line[1] + 4), (line[2] + 3, line[3] + 4))


def correlation(grey: np.ndarray[Any, Any], template: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By its definition: the cosine of both, each without its mean."""
    windows = np.lib.stride_tricks.sliding_window_view(grey.astype(float), template.shape)
    windows = windows - windows.mean(axis=(2, 3), keepdims=True)
    centred = template - template.mean()
    dots = (windows * centred).sum(axis=(2, 3))
    return np.asarray(dots / np.sqrt((windows**2).sum(axis=(2, 3)) * (centred**2).sum()))


@given(
    st.integers(0, 10_000), st.integers(4, 7), st.integers(4, 7), st.integers(1, 9), st.sampled_from([0.1, 0.3, 1.0])
)
def test_matches_are_those_of_the_definition_and_none_lies_half_over_a_better_one(
    seed: int, height: int, width: int, limit: int, least: float
) -> None:
    grey = np.random.default_rng(seed).integers(0, 256, (18, 22)).astype(np.uint8)
    template = grey[5 : 5 + height, 8 : 8 + width]
    scores = correlation(grey, template)
    arguments = MatchTemplateArguments(template_box=(0, 0, 1, 1), limit=limit, min_score=least)
    if least == 1.0:
        arguments = arguments.model_copy(update={"min_score": 1.0 - 1e-5})
    found = _peaks(grey, template, arguments)
    free = scores.copy()  # what no match lies half over; scores closer than OpenCV's single precision are ties
    for x, y, score in found:
        assert score == pytest.approx(scores[y, x], abs=2e-4)
        assert free[y, x] >= free.max() - 2e-4
        free[max(0, y - height // 2) : y + height // 2 + 1, max(0, x - width // 2) : x + width // 2 + 1] = -np.inf
    assert len(found) == limit or (len(found) < limit and free.max() <= least + 2e-4)
    assert all(score >= least - 2e-4 for *_, score in found)


def test_a_template_may_be_as_large_as_the_region_and_as_small_as_four() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (12, 12, 3)).astype(np.uint8)
    assert value_in("match_template", noise, template_box=[0, 0, 12, 12])["matches"] == [
        {"box": [0, 0, 12, 12], "score": 1.0}
    ]
    assert call("match_template", noise, template_box=[0, 0, 4, 4]).ok
    assert "4 × 4 are needed" in call("match_template", noise, template_box=[0, 0, 3, 4]).text
    for box in ([0, 0, 12, 11], [0, 0, 11, 12]):
        refused = call("match_template", noise, template_box=[0, 0, 12, 12], box=box)
        assert refused.text.startswith("The template (12 × 12) is larger than the region searched. Choose a smaller")


@pytest.mark.parametrize(("deviation", "ok"), [(2, True), (1, False)])
def test_a_template_needs_an_edge(deviation: int, ok: bool) -> None:
    grey = np.full((8, 8, 3), 100, np.uint8)
    grey[:4] -= deviation
    grey[4:] += deviation
    assert call("match_template", grey, template_box=[0, 0, 8, 8]).ok is ok


def test_a_crop_at_its_bounds() -> None:
    wide = blank(5_000, 101)
    assert value_in("crop", wide, box=[0, 0, 5_000, 50])["size"] == [5_000, MAX_ASPECT // 2]
    refused = call("crop", wide, box=[0, 0, 5_000, 49])
    assert refused.text.startswith("The box leaves 5000 × 49 pixels, more than 100:1. Choose a wider one.")
    assert value_in("crop", wide, box=[0, 0, MAX_SIDE / 2, 50], scale=2)["size"] == [MAX_SIDE, 100]
    refused = call("crop", wide, box=[0, 0, MAX_SIDE / 2 + 1, 50], scale=2)
    assert refused.text.startswith("A scale of 2 makes 4098 × 100 pixels, beyond 4096.")
    assert call("crop", wide, box=[0, 0, 4, 4]).ok
    assert "at least 4 × 4 are needed" in call("crop", wide, box=[0, 0, 4, 3]).text


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Toolbox.of("crop", "ocr", "select_frames")
    monkeypatch.setattr("saccade.tools.definition.find_spec", lambda name: None)
    assert box.missing() == {
        "ocr": "pip install 'saccade-vlm[ocr]'",
        "select_frames": "pip install 'saccade-vlm[video]'",
    }
    monkeypatch.setattr("saccade.tools.definition.find_spec", lambda name: object())
    assert box.missing() == {}


@pytest.mark.parametrize("name", ["crop", "crop@1", *aliases()])
def test_a_recorded_name_means_what_it_meant(name: str) -> None:
    assert type(recorded_tool(name)) is type(make_tool(name))
    assert recorded_tool(name).name == own_name(name).partition("@")[0]
