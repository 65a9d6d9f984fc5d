"""Lines that stand on their heads: found where a line is not surely read, and then all of the picture."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from saccade.tools.context import ToolContext
from saccade.tools.ocr import Ocr
from saccade.tools.ocr_upright import UprightRecognizer

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
