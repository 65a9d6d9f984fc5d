"""Every tool at its bounds: the last value that is accepted, the first that is not, and what is listed of too much."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from saccade.plugins.vista.ocr import Ocr
from saccade.record.execution import Status
from saccade.tools.context import ToolContext, ToolResult
from saccade.tools.crop import MAX_ASPECT, MAX_SIDE
from saccade.tools.look import Look
from saccade.tools.registry import aliases, make_tool, own_name, recorded_tool
from saccade.tools.shapes import MatchTemplateArguments, _peaks, _segment
from saccade.tools.toolbox import Toolbox

GRADIENT = np.zeros((6, 8, 3), np.uint8)
GRADIENT[..., 0], GRADIENT[..., 1], GRADIENT[..., 2] = np.arange(8) * 30, np.arange(6)[:, None] * 40, 200


def call(name: str, image: Image.Image | np.ndarray[Any, Any], **arguments: Any) -> ToolResult:
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    return make_tool(name).call(arguments, ToolContext({"a": picture}))


def value(name: str, image: Image.Image | np.ndarray[Any, Any], **arguments: Any) -> dict[str, Any]:
    result = call(name, image, **arguments)
    assert result.ok, result.text
    return json.loads(json.dumps(result.value))  # type: ignore[no-any-return]


def blank(width: int, height: int) -> Image.Image:
    return Image.new("RGB", (width, height), "white")


def test_the_largest_region_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tools.look.MAX_PIXELS", 50)
    for box in ([0, 0, 10, 5], [3, 2, 13, 7]):
        assert call("edges", blank(20, 20), box=box).ok
    refused = call("edges", blank(20, 20), box=[3, 2, 20, 5])
    assert refused.text.startswith("The region has more than 50 pixels. Choose a smaller box.")


def test_a_range_may_be_a_single_value() -> None:
    red = Image.new("RGB", (4, 4), (255, 0, 0))
    assert value("color_mask", red, saturation=[1, 1], value=[1, 1], hue=[0, 0], min_area=16)["parts"] == 1
    assert value("color_mask", red, min_area=17)["parts"] == 0
    assert call("edges", red, low=100, high=100).ok
    assert value("hough_circles", red, min_radius=7, max_radius=7)["count"] == 0


def test_every_channel_is_measured_by_itself() -> None:
    found = value("color_stats", GRADIENT, bins=4)
    assert found["mean"] == [105.0, 100.0, 200.0]
    assert found["deviation"] == [round(float(GRADIENT[..., channel].std()), 2) for channel in range(3)]
    counts = [np.histogram(GRADIENT[..., channel], bins=4, range=(0, 256))[0].tolist() for channel in range(3)]
    assert found["histogram"] == counts


@pytest.mark.parametrize("level", [0, 1, 99, 100, 101, 255])
def test_a_level_splits_above_itself(level: int) -> None:
    grey = np.array([[0, 99, 100, 101, 255]], np.uint8).repeat(3, axis=0)
    picture = Image.fromarray(grey).convert("RGB")
    white = sum(shade > level for shade in (0, 99, 100, 101, 255)) / 5
    assert value("threshold", picture, method="fixed", level=level)["white_fraction"] == pytest.approx(white)
    assert value("contours", picture, level=level, min_area=0)["level"] == level
    assert value("contours", picture, level=level, things="light", min_area=0)["level"] == level


def squares(count: int) -> Image.Image:
    """Black squares of sides 5, 6, 7, ... in a row: their outlines hold 16, 25, 36, ... pixels."""
    image = blank(30 * count + 10, 5 + count + 25)
    for number in range(count):
        ImageDraw.Draw(image).rectangle((10 + 30 * number, 10, 14 + 31 * number, 14 + number), fill="black")
    return image


def test_contours_are_listed_and_outlined_up_to_the_limit_largest_first() -> None:
    image = squares(4)
    assert value("contours", image, min_area=16)["count"] == 4
    assert value("contours", image, min_area=16.1)["count"] == 3
    found = value("contours", image, min_area=0, limit=2)
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
    found = value("hough_lines", lines, votes=20)
    assert found["count"] > len(found["lines"]) == 100
    lengths = [line["length"] for line in found["lines"]]
    assert lengths == sorted(lengths, reverse=True)
    found = value("hough_circles", circles, min_radius=8, max_radius=20)
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
    assert value("match_template", noise, template_box=[0, 0, 12, 12])["matches"] == [
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
    assert value("crop", wide, box=[0, 0, 5_000, 50])["size"] == [5_000, MAX_ASPECT // 2]
    refused = call("crop", wide, box=[0, 0, 5_000, 49])
    assert refused.text.startswith("The box leaves 5000 × 49 pixels, more than 100:1. Choose a wider one.")
    assert value("crop", wide, box=[0, 0, MAX_SIDE / 2, 50], scale=2)["size"] == [MAX_SIDE, 100]
    refused = call("crop", wide, box=[0, 0, MAX_SIDE / 2 + 1, 50], scale=2)
    assert refused.text.startswith("A scale of 2 makes 4098 × 100 pixels, beyond 4096.")
    assert call("crop", wide, box=[0, 0, 4, 4]).ok
    assert "at least 4 × 4 are needed" in call("crop", wide, box=[0, 0, 4, 3]).text


def reading(*lines: tuple[str, float]) -> Ocr:
    """A reader whose engine, which is not ours, finds these lines with these scores."""
    tool = Ocr()
    corners = [[(0, 0), (9, 0), (9, 4), (0, 4)]] * len(lines)
    texts, scores = [text for text, _ in lines], [score for _, score in lines]
    tool._engine = lambda image, text_score: SimpleNamespace(boxes=corners or None, txts=texts, scores=scores)
    return tool


def test_lines_of_the_least_confidence_are_kept() -> None:
    context = ToolContext({"page": blank(40, 40)})
    tool = reading(("at", 0.5), ("below", 0.4999), ("", 0.9), ("over", 1.25), ("under", -0.1))
    assert tool.call({}, context).value == {
        "image": "page",
        "text": "at\nover",
        "lines": [
            {"text": text, "confidence": sure, "box": [0, 0, 9, 4], "corners": [[0, 0], [9, 0], [9, 4], [0, 4]]}
            for text, sure in (("at", 0.5), ("over", 1.0))
        ],
    }
    everything = tool.call({"min_confidence": 0}, context).value
    assert everything is not None
    assert everything["text"] == "at\nbelow\nover\nunder"
    assert everything["lines"][3]["confidence"] == 0  # type: ignore[index, call-overload]
    assert reading().call({}, context).text == "No text was found in page."


def test_models_that_cannot_be_loaded_make_reading_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    rapidocr = pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")

    def broken(**_: object) -> None:
        raise RuntimeError("bad model")

    monkeypatch.setattr(rapidocr, "RapidOCR", broken)
    result = call("ocr", blank(40, 40))
    assert result.status is Status.REFUSED
    assert result.problem is not None
    assert "rapidocr cannot load its models: RuntimeError: bad model" in result.problem.detail


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Toolbox.of("crop", "ocr", "select_frames")
    monkeypatch.setattr("saccade.tools.definition.find_spec", lambda name: None)
    assert box.missing() == {"ocr": 'pip install "saccade[ocr]"', "select_frames": 'pip install "saccade[video]"'}
    monkeypatch.setattr("saccade.tools.definition.find_spec", lambda name: object())
    assert box.missing() == {}


@pytest.mark.parametrize("name", ["crop", "crop@1", *aliases()])
def test_a_recorded_name_means_what_it_meant(name: str) -> None:
    assert type(recorded_tool(name)) is type(make_tool(name))
    assert recorded_tool(name).name == own_name(name).partition("@")[0]
