"""The reader of printed text: exact within what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from saccade.plugins.worlds.canvas import Face, font
from saccade.plugins.worlds.reading.kit import find_text, number, read_text, show, text_boxes
from saccade.tasks.worlds.rng import Rng

INKS = (((0, 0, 0), (255, 255, 255)), ((40, 40, 60), (250, 230, 235)), ((230, 230, 230), (30, 34, 44)))


def printed(text: str, size: int, face: Face, ink: int = 0) -> np.ndarray:
    colour, paper = INKS[ink]
    picture = Image.new("RGB", (240, 60), paper)
    ImageDraw.Draw(picture).text((11, 13), text, font=font(size, face), fill=colour)
    return np.asarray(picture.convert("L"))


def texts(rng: Rng) -> list[str]:
    return [
        f"${rng.integer(0, 99)}.{rng.integer(10, 99)}",
        f"{rng.integer(0, 99999):,}",
        f"{rng.integer(0, 180)}°",
        f"-{rng.integer(1, 999)}",
        f"{rng.integer(1, 99) / 10:g}",
        "x°",
        "x",
    ]


@pytest.mark.parametrize("size", range(14, 27))
@pytest.mark.few(3)
def test_reads_numbers_exactly(size: int) -> None:
    rng = Rng(size)
    for ink in range(len(INKS)):
        for face in ("sans", "sans-bold"):
            for text in texts(rng):
                assert read_text(printed(text, size, face, ink), (0, 0, 240, 60)) == text


@pytest.mark.parametrize("face", ["sans", "sans-bold"])
def test_finds_a_word_and_not_a_longer_one(face: Face) -> None:
    picture = Image.new("L", (400, 200), 255)
    pen = ImageDraw.Draw(picture)
    pen.text((20, 20), "Mondays", font=font(18, face), fill=0)
    pen.text((200, 120), "Monday", font=font(18, face), fill=0)
    x0, y0, x1, y1 = find_text(np.asarray(picture), "Monday")
    left, top, right, bottom = pen.textbbox((200, 120), "Monday", font=font(18, face))
    assert max(abs(x0 - left), abs(y0 - top), abs(x1 - right), abs(y1 - bottom)) <= 2


def test_a_word_that_is_not_there_is_not_found() -> None:
    with pytest.raises(ValueError, match="not printed"):
        find_text(np.full((60, 200), 255, np.uint8), "Monday")


def test_boxes_of_lines_of_text_leave_large_things_out() -> None:
    picture = Image.new("L", (300, 160), 255)
    pen = ImageDraw.Draw(picture)
    pen.text((20, 20), "two words", font=font(18), fill=0)
    pen.text((200, 100), "47", font=font(18), fill=0)
    pen.rectangle((20, 60, 120, 140), outline=0)
    boxes = text_boxes(np.asarray(picture) < 128, 12)
    assert len(boxes) == 2
    assert boxes[0][1] < 30 < boxes[0][3]
    assert boxes[1][0] < 210 < boxes[1][2]


def test_numbers_and_how_they_are_written() -> None:
    assert [number(text) for text in ("$1,250.50", "45%", "-3", "47°")] == [1250.5, 45, -3, 47]
    assert [show(value) for value in (3.0, 2.5, -0.0, 0.1 + 0.2, 1200)] == ["3", "2.5", "0", "0.3", "1200"]
