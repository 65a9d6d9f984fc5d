"""The picture in which text is looked for, and that text is found where it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from saccade.plugins.vista.ocr import CompactDetector, Ocr, UprightRecognizer, kept_rows
from saccade.tools.context import ToolContext
from saccade.tools.look import PixelArray

needs_engine = pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([7], [0]),
        ([1, 2, 3], [0, 1, 2]),
        ([5, 5, 5, 5], [0, 1, 2, 3]),
        ([5, 5, 5, 5, 5], [0, 1, 3, 4]),
        ([1, 5, 5, 5, 5, 5, 5, 2], [0, 1, 2, 5, 6, 7]),
        ([5, 5, 5, 5, 5, 1, 1, 1, 1, 1, 1], [0, 1, 3, 4, 5, 6, 9, 10]),
    ],
)
def test_of_a_run_of_equal_rows_both_ends_are_kept(rows: list[int], kept: list[int]) -> None:
    pixels = np.repeat(np.array(rows, np.uint8)[:, None, None], 3, axis=1)
    assert kept_rows(pixels, 4).tolist() == kept


def test_a_row_that_differs_in_one_pixel_is_no_part_of_a_run() -> None:
    pixels = np.zeros((9, 5, 3), np.uint8)
    pixels[4, 2, 1] = 1
    assert kept_rows(pixels, 2).tolist() == [0, 3, 4, 5, 8]


class _Squares:
    """Stands for the detector: a box around all that is black."""

    limit_side_len = 0

    def __call__(self, pixels: PixelArray) -> Any:
        self.shape = pixels.shape
        ys, xs = np.nonzero(pixels[..., 0] == 0)
        if not len(ys):
            return SimpleNamespace(boxes=None)
        corners = [(x, y) for x, y in ((xs.min(), ys.min()), (xs.max(), ys.min()), (xs.max(), ys.max()))]
        return SimpleNamespace(boxes=np.array([corners], np.float32))


@pytest.mark.parametrize(
    ("size", "most", "enlarged"),
    [((400, 600), 24, 736 / 400), ((200, 300), 24, 2), ((960, 900), 56, 736 / 900)],
)
def test_boxes_are_in_coordinates_of_the_picture(size: tuple[int, int], most: int, enlarged: float) -> None:
    pixels = np.full((*size, 3), 255, np.uint8)
    noise = np.random.default_rng(0).integers(0, 2, (20, 30, 3), np.uint8) * 255
    noise[0, 0] = noise[-1, -1] = 0
    pixels[150:170, 120:150] = noise
    detector = _Squares()
    found = CompactDetector(detector)(pixels)
    assert found.boxes.tolist() == [[[120, 150], [149, 150], [149, 169]]]
    assert detector.shape == (20 + 2 * most, size[1], 3)
    assert detector.limit_side_len == round(enlarged * (20 + 2 * most))


def test_a_picture_without_runs_is_looked_at_as_it_is() -> None:
    pixels = np.random.default_rng(1).integers(1, 255, (60, 90, 3), np.uint8)
    detector = _Squares()
    assert CompactDetector(detector)(pixels).boxes is None
    assert detector.shape == pixels.shape


@needs_engine
def test_text_far_apart_is_read_in_fewer_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Image.new("RGB", (640, 480), "white")
    pen = ImageDraw.Draw(picture)
    pen.rectangle((300, 60, 360, 420), fill="navy")
    places = {"Harvest": (20, 20), "1984": (540, 24), "Berlin": (290, 440), "750": (40, 250)}
    for text, at in places.items():
        pen.text(at, text, fill="black", font=ImageFont.load_default(18))
    tool = Ocr()
    tool.load()
    detector = tool._engine.text_det._detector
    pixels = []
    monkeypatch.setattr(detector, "session", lambda x, ask=detector.session: pixels.append(x[0, 0].size) or ask(x))
    result = tool.call({}, ToolContext({"chart": picture}))
    assert result.value is not None, result.problem
    read = {line["text"]: line["box"] for line in result.value["lines"]}
    assert read.keys() == places.keys()
    for text, (x, y) in places.items():
        assert abs(read[text][0] - x) <= 10, text
        assert abs(read[text][1] - y) <= 12, text
    assert pixels[0] < 0.5 * 736 * 981


UPRIGHT, TURNED = "↑", "↓"


class _Asked:
    def __init__(self, img: list[Any], return_word_box: bool = False) -> None:
        self.img, self.return_word_box = img, return_word_box


class _Lines:
    """Stands for both models. A line is two pixels: how it stands (1 upright, 2 turned), how surely it is read."""

    cls_thresh = 0.9

    def __init__(self) -> None:
        self.classified: list[int] = []

    def recognize(self, asked: _Asked) -> Any:
        upright = [line[0, 0] < line[0, -1] for line in asked.img]
        texts = tuple(f"{UPRIGHT if up else TURNED}{line.max()}" for up, line in zip(upright, asked.img, strict=True))
        scores = tuple(1.0 if up or line.max() > 5 else 0.4 for up, line in zip(upright, asked.img, strict=True))
        return SimpleNamespace(txts=texts, scores=scores)

    def __call__(self, lines: list[Any]) -> Any:
        self.classified += [int(line.max()) for line in lines]
        return SimpleNamespace(cls_res=[("0" if line[0, 0] < line[0, -1] else "180", 0.95) for line in lines])


@pytest.mark.parametrize(
    ("lines", "classified"),
    [
        ([(1, 3), (1, 4)], []),
        ([(1, 3), (4, 1), (1, 5)], [4, 3, 5]),
        ([(9, 1), (4, 1), (1, 5)], [4, 9, 5]),  # 9 is surely read, but on its head
    ],
)
def test_all_lines_are_asked_for_once_one_is_turned(lines: list[tuple[int, int]], classified: list[int]) -> None:
    models = _Lines()
    asked = _Asked([np.array([line], np.uint8) for line in lines])
    read = UprightRecognizer(models.recognize, models)(asked)
    assert read.txts == tuple(f"{UPRIGHT}{max(line)}" for line in lines)
    assert read.scores == (1.0,) * len(lines)
    assert models.classified == classified


@pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")
def test_a_page_on_its_head_is_read() -> None:
    page = Image.new("RGB", (500, 260), "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(44)
    pen.text((40, 40), "SOS 689", fill="black", font=font)
    pen.text((220, 170), "Banana split", fill="black", font=font)
    result = Ocr().call({}, ToolContext({"page": page.rotate(180)}))
    assert result.value is not None, result.problem
    assert {line["text"] for line in result.value["lines"]} == {"SOS 689", "Banana split"}
