"""The programs on pictures drawn here, with exact gold: sizes, widths, colours, distances, and changed copies."""

from __future__ import annotations

import io
from collections.abc import Callable
from math import pi
from random import Random

import pytest
from PIL import Image, ImageFilter, ImageOps
from tests.plugins.worlds.solvers.drawing import grid, rings, scattered, squares, two_circles, two_lines
from tests.plugins.worlds.solvers.running import plain, printed


def jpeg(picture: Image.Image) -> Image.Image:
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=60)
    return Image.open(io.BytesIO(data.getvalue()))


def smaller(picture: Image.Image) -> Image.Image:
    return picture.resize((picture.width * 6 // 10, picture.height * 6 // 10), Image.Resampling.LANCZOS)


def larger(picture: Image.Image) -> Image.Image:
    return picture.resize((picture.width * 2, picture.height * 2), Image.Resampling.BICUBIC)


def transparent(picture: Image.Image) -> Image.Image:
    """White made transparent, over black: what a plain conversion to RGB would turn black."""
    alpha = picture.convert("L").point(lambda value: 0 if value > 250 else 255)
    clear = Image.new("RGBA", picture.size, (0, 0, 0, 0))
    clear.paste(picture, mask=alpha)
    return clear


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "smaller": smaller,
    "larger": larger,
    "mirrored": ImageOps.mirror,
    "turned": lambda picture: picture.transpose(Image.Transpose.ROTATE_90),
    "jpeg": jpeg,
    "blurred": lambda picture: picture.filter(ImageFilter.GaussianBlur(0.7)),
}
changed = pytest.mark.parametrize("change", CHANGES)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("shape", "sides"), [("circles", 0), ("pentagons", 5)])
@pytest.mark.few(2)
def test_overlapping_shapes(shape: str, sides: int, seed: int) -> None:
    rng = Random(seed)
    count = rng.randint(3, 10)
    picture = rings(rng, sides, rng.choice((384, 600, 1000)), count)
    assert printed(f"How many {shape} are in the image?", picture) == str(count)


@pytest.mark.parametrize(("shape", "count"), [("triangles", 3), ("pentagons", 2), ("circles", 1)])
@pytest.mark.parametrize("filled", [True, False])
def test_shapes_that_stand_alone(shape: str, count: int, filled: bool) -> None:
    assert printed(f"Count the {shape} in the image.", scattered({3: 3, 5: 2, 0: 1}, filled=filled)) == str(count)


@changed
@pytest.mark.few(2)
def test_changed_shapes(change: str) -> None:
    picture = CHANGES[change](rings(Random(3), 5, 500, 7))
    assert printed("Count the pentagons in the image.", picture) == "7"


@pytest.mark.parametrize(("shape", "drawn"), [("circles", 5), pytest.param("pentagons", 0, marks=pytest.mark.slow)])
def test_no_such_shape(shape: str, drawn: int) -> None:
    assert printed(f"How many {shape} are there?", rings(Random(1), drawn, 400, 5)) == "0"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.few(3)
def test_crossing_lines(seed: int) -> None:
    rng = Random(seed)
    inks = rng.choice((("blue", "red"), ("navy", "crimson"), ("#1f77b4", "#d62728")))
    picture, count = two_lines(rng, rng.choice((384, 768)), inks)
    assert printed("How many times do the blue and red lines intersect?", picture) == str(count)


@changed
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.few(3)
def test_changed_lines(change: str, seed: int) -> None:
    picture, count = two_lines(Random(seed), 400, ("blue", "red"))
    assert printed("Count the points where the red and blue lines meet.", CHANGES[change](picture)) == str(count)


@pytest.mark.parametrize("count", range(1, 7))
def test_nested_squares(count: int) -> None:
    rng = Random(count)
    assert printed("How many squares are there?", squares(rng, rng.choice((400, 800)), count)) == str(count)


@changed
def test_changed_squares(change: str) -> None:
    assert printed("How many squares are there?", CHANGES[change](squares(Random(2), 600, 4))) == "4"


def test_transparent_paper() -> None:
    assert printed("How many squares are there?", transparent(squares(Random(2), 500, 3))) == "3"


@pytest.mark.parametrize("seed", range(8))
def test_rows_and_columns(seed: int) -> None:
    rng = Random(seed)
    rows, columns = rng.randint(2, 14), rng.randint(2, 14)
    size = rng.choice((500, 900)), rng.choice((500, 900))
    picture = grid(rng, size, rows, columns, words=seed % 2 == 0)
    question = "How many rows and columns are in the table? Answer with a pair (row, column), e.g., (5,6)"
    assert printed(question, picture) == f"({rows},{columns})"


@changed
def test_changed_grids(change: str) -> None:
    picture = CHANGES[change](grid(Random(1), (700, 700), 6, 9, words=True))
    expected = "9,6" if change == "turned" else "6,9"
    assert plain(printed("Count the rows and columns, e.g. rows={5} columns={6}", picture)) == expected


@pytest.mark.parametrize("outlined", [False, True], ids=["discs", "rings"])
@pytest.mark.parametrize("gap", [-3, 0, 3, 20])
@pytest.mark.parametrize("angle", [0, pi / 4, 2.1])
@pytest.mark.few(6)
def test_two_circles(gap: int, angle: float, outlined: bool) -> None:
    picture = two_circles(384, (50, 50 if angle else 34), gap, angle, outlined=outlined)
    touch = printed("Are the two circles touching each other? Answer with Yes/No.", picture)
    overlap = printed("Are the two circles overlapping? Answer with Yes/No.", picture)
    assert (touch, overlap) == ("Yes" if gap <= 0 else "No", "Yes" if gap < 0 else "No")


@changed
@pytest.mark.parametrize(("gap", "answer"), [(-4, "Yes"), (4, "No")])
@pytest.mark.few(3)
def test_changed_circles(change: str, gap: int, answer: str) -> None:
    picture = CHANGES[change](two_circles(500, (60, 60), gap, 0.6))
    assert printed("Are the two circles overlapping?", picture) == answer
