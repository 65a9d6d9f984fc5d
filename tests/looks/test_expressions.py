"""What is reckoned without running anything is what Python gives, wherever anything is said at all."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
import pytest
from PIL import Image

from saccade.looks.expressions import Evaluator
from saccade.looks.reader import LONGEST, Reader
from saccade.looks.views import UNKNOWN, ImageFile, Value, View

PICTURE = Image.new("RGB", (400, 300))
FULL = View.full("photo", 400, 300)
ARRAY = View("photo", (0, 0, 400, 300), 400, 300, array=True)
KNOWN: dict[str, Value] = {"n": 7, "x": 2.5, "t": (1, 2, 3), "d": {"a": 1, "b": (2, 3)}, "s": "text"}
REAL: dict[str, Any] = {**KNOWN, "image": PICTURE, "a": np.zeros((300, 400, 3), np.uint8), "math": math, "Image": Image}


def said(code: str) -> Value:
    names: dict[str, Value] = {**KNOWN, "image": FULL, "a": ARRAY}
    return Evaluator(names, {}).value(ast.parse(code, mode="eval").body)


@pytest.mark.parametrize(
    "code",
    [
        "n + 3",
        "n - 3",
        "n * x",
        "n / 2",
        "n // 2",
        "-n // 2",
        "n % 4",
        "n ** 2",
        "-n",
        "-x",
        "(1, n, x)",
        "[1, n]",
        "t + (4, 5)",
        "t[0]",
        "t[-1]",
        "t[-3]",
        "t[1:]",
        "t[:-1]",
        "t[1:2]",
        "d['a']",
        "d['b'][1]",
        "{1: 2, 'k': n}",
        "int(x)",
        "float(n)",
        "round(2.567, 2)",
        "round(x)",
        "abs(-n)",
        "min(3, n)",
        "max(t)",
        "min((4, n))",
        "math.floor(x)",
        "math.ceil(x)",
        "min(999_999_999, n)",
        "999_999_998 + 1",
        "tuple([1, 2])",
        "len(t)",
        "tuple(range(3))",
        "tuple(range(2, 9, 3))",
        "tuple(range(9, 2, -3))",
        "len(range(64))",
        "tuple(enumerate(t))",
        "tuple(zip(t, (4, 5)))",
        "tuple(d.items())",
        "tuple(d.values())",
        "[i * 2 for i in t]",
        "[i + j for i, j in zip(t, t)]",
        "image.size",
        "image.width + image.height",
        "a.shape[:2]",
        "a.shape[0]",
        "a.shape[1] // 2",
        "image.crop((10, 20, 110, 90)).size",
        "image.resize((20, 30)).width",
        "image.convert('L').copy().size",
        "a[10:, :50].shape[:2]",
        "a[10:, :50, ::-1].shape[:2]",
        "a[:20].shape[:2]",
        "a[-30:-10, -5:].shape[:2]",
    ],
)
def test_what_python_gives(code: str) -> None:
    value, real = said(code), eval(code, dict(REAL))
    assert value == (tuple(real) if isinstance(real, list) else real)
    if isinstance(real, int | float):
        assert type(value) is type(real) or "**" in code


@pytest.mark.parametrize(
    "code",
    [
        "unheard",
        "True",
        "not n",
        "n if n else x",
        "n < 3",
        "t[3]",
        "t[-4]",
        "t[x]",
        "t['a']",
        "t[::2]",
        "t[x:]",
        "d['c']",
        "d[t]",
        "n + s",
        "s + s",
        "t - t",
        "n @ n",
        "1 / 0",
        "n % 0",
        "1e300 * 1e300",
        "n * 1e9",
        "min(1e9, n)",
        "-10**9 * 1",
        "(-8) ** 0.5",
        "-s",
        "(*t, 4)",
        "{**d}",
        "{t: 1}",
        "int(s)",
        "int(t, 2, 3)",
        "round(n, t)",
        "min()",
        "max(t, n)",
        "len(n)",
        "len(t, t)",
        "tuple()",
        "tuple(t, t)",
        "enumerate(t, t)",
        "zip()",
        "zip(t, n)",
        "range()",
        "range(x)",
        "range(1, 9, 0)",
        "range(1, 2, 3, 4)",
        "sum(t)",
        "s.items()",
        "d.keys()",
        "n.items()",
        "[i for i in t if i]",
        "[i for i in t for j in t]",
        "[i for i in range(65)]",
        "image[0]",
        "image[1:2, 1:2]",
        "image.mode",
        "image.shape",
        "a.size",
        "a.dtype",
        "a.crop((1, 1, 9, 9))",
        "a.resize((9, 9))",
        "a[::2]",
        "a[x:]",
        "a[5]",
        "a[5:5]",
        "a[:, 3]",
        "image.rotate(90)",
        "image.resize((9, 9), 1, (0, 0, 5, 5))",
        "image.resize((9, 9), box=(0, 0, 5, 5))",
        "image.resize((0.4, 9))",
        "image.resize((1_000_001, 9))",
        "image.crop((1, 2, 3))",
        "image.crop()",
        "cv2.resize()",
        "cv2.resize(n, (3, 4))",
        "cv2.resize(a, None, fx=2)",
        "Image.open('unheard.png')",
        "Image.fromarray(n)",
        "f()(n)",
    ],
)
def test_what_cannot_be_told_is_not_said(code: str) -> None:
    assert said(code) is UNKNOWN


def test_names_of_a_comprehension_stay_inside() -> None:
    evaluator = Evaluator({"i": 1, "t": (5, 6)}, {})
    assert evaluator.value(ast.parse("[i for i in t]", mode="eval").body) == (5, 6)
    assert evaluator.names == {"i": 1, "t": (5, 6)}


@pytest.mark.parametrize(
    ("code", "size"),
    [
        ("cv2.resize(a, (40, 30))", (40, 30)),
        ("cv2.resize(a, dsize=(40, 30))", (40, 30)),
        ("cv2.resize(a, None, fx=0.5, fy=2)", (200, 600)),
        ("cv2.cvtColor(a, cv2.COLOR_BGR2RGB)", (400, 300)),
        ("np.asarray(image)", (400, 300)),
        ("Image.fromarray(a)", (400, 300)),
        ("image.resize(size=(40, 30))", (40, 30)),
        ("image.resize((40, 30), Image.LANCZOS)", (40, 30)),
        ("image.resize((1, 1_000_000))", (1, 1_000_000)),
        ("image.resize((0.6, 1))", (1, 1)),
        ("a.astype(float)", (400, 300)),
    ],
)
def test_another_size_shows_the_same_part(code: str, size: tuple[int, int]) -> None:
    view = said(code)
    assert isinstance(view, View)
    assert (view.box, (view.width, view.height)) == (FULL.box, size)
    assert view.array is not code.startswith(("image", "Image"))


def boxes(code: str) -> list[tuple[float, ...]]:
    book = Reader({"image": FULL, "path": ImageFile(FULL)}, {"photo.jpg": FULL})
    return [view.box for view in book.read(code)]


CROP = "image.crop((1, 2, 30, 40))"
BOX = (1, 2, 30, 40)


@pytest.mark.parametrize(
    "before",
    [
        "image.copy()",
        "image.convert('L')",
        "image.copy().thumbnail((9, 9))",
        "image.resize((9, 9))",
        "def f():\n    other = 1",
        "if n:\n    other = 1",
        "for q in (1, 2):\n    other = q",
        "x: int = 5",
        "x: int",
        "x, *y = 1, 2, 3",
        "(x, y), z = (1, 2), 3",
        "other.attribute = image",
        "other[0] = image",
    ],
)
def test_what_leaves_a_picture_alone(before: str) -> None:
    assert boxes(f"{before}\n{CROP}") == [BOX]


@pytest.mark.parametrize(
    "before",
    [
        "image.thumbnail((9, 9))",
        "image = other",
        "image: object = other",
        "image += 1",
        "image, x = other",
        "image, x = 1, 2, 3",
        "(image, x), y = 1, 2",
        "[x, *image] = 1, 2",
        "for image in other:\n    pass",
        "for image in (1, 2):\n    pass",
        "for x in other:\n    image = 1",
        "for x in (1, 2):\n    pass\nelse:\n    image = 1",
        "while n:\n    image = 1",
        "if n:\n    image = 1",
        "try:\n    image = 1\nfinally:\n    pass",
        "with open('f') as image:\n    pass",
        "def image():\n    pass",
        "class image:\n    pass",
        "import numpy as image",
        "from a import image",
        "del image",
    ],
)
def test_what_makes_a_name_another_thing(before: str) -> None:
    assert boxes(f"{before}\n{CROP}") == []


@pytest.mark.parametrize("opened", ["Image.open(path)", "PIL.Image.open('photo.jpg')", "Image.open(fp=path)"])
def test_files_are_opened_as_pictures(opened: str) -> None:
    assert boxes(f"{opened}.crop((1, 2, 30, 40))") == ([] if "fp" in opened else [BOX])
    assert boxes("plt.imread(path)[2:40, 1:30]") == boxes("imageio.imread('photo.jpg')[2:40, 1:30]") == [BOX]


def test_a_crop_needs_a_pixel_each_way() -> None:
    assert boxes("image.crop((5, 5, 6, 6))") == [(5, 5, 6, 6)]
    assert boxes("image.crop((5, 5, 5.9, 9))") == boxes("image.crop((5, 5, 9, 5.9))") == []
    assert boxes("image.crop((399, 299, 999, 999))") == [(399, 299, 400, 300)]


def test_the_same_cut_counts_once() -> None:
    assert boxes(f"{CROP}\n{CROP}\nimage.crop((0, 0, 9, 9))") == [BOX, (0, 0, 9, 9)]


def test_how_much_code_is_followed() -> None:
    """A loop counts at every turn, whatever is in it."""
    loops = "r = range(64)\n" + "for x in r:\n    pass\n" * 700
    assert boxes(loops + CROP) == [BOX]
    assert boxes(loops + "for x in r:\n    pass\n" * 100 + CROP) == []
    assert boxes(f"{CROP}\n#".ljust(LONGEST, "x")) == [BOX]
    assert boxes(f"{CROP}\n#".ljust(LONGEST + 1, "x")) == []
    assert boxes("for x in range(64):\n    image.crop((x, 0, 90, 90))") == [(x, 0, 90, 90) for x in range(64)]
    assert boxes("for x in range(65):\n    image.crop((x, 0, 90, 90))") == []
    joined = "t = tuple(range(32))\nfor x in t + t:\n    image.crop((x, 0, 90, 90))"
    assert len(boxes(joined)) == 32
    assert boxes(joined.replace("t + t", "t + t + (1,)")) == []
