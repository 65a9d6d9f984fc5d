"""What is read from code is checked against what the code really does, wherever that is cheap."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.looks.reader import Reader
from saccade.looks.views import Source, Value, View

WHOLE = View.whole("photo", 400, 300)


def reader() -> Reader:
    names: dict[str, Value] = {"image": WHOLE, "path": Source(WHOLE)}
    return Reader(names, {"photo.jpg": WHOLE})


def boxes(*cells: str) -> list[tuple[float, ...]]:
    book = reader()
    return [view.box for cell in cells for view in book.read(cell)]


@pytest.mark.parametrize(
    ("code", "box"),
    [
        ("image.crop((10, 20, 110, 90)).show()", (10, 20, 110, 90)),
        ("image.crop(box=[10, 20, 110, 90])", (10, 20, 110, 90)),
        ("box = (10, 20, 10 + 100, 3 * 30)\nplt.imshow(image.crop(box))", (10, 20, 110, 90)),
        ("w, h = image.size\nimage.crop((w // 2, 0, w, h // 2))", (200, 0, 400, 150)),
        ("image.crop((0, 0, int(image.width * .25), round(image.height / 3)))", (0, 0, 100, 100)),
        ("a = np.array(image)\nplt.imshow(a[20:90, 10:110])", (10, 20, 110, 90)),
        (
            "a = cv2.imread('photo.jpg')\nh, w = a.shape[:2]\ncv2.imwrite('x.png', a[h // 2:, :w // 4, ::-1])",
            (0, 150, 100, 300),
        ),
        ("img = Image.open(path).convert('RGB')\nimg.crop((1, 2, 30, 40))", (1, 2, 30, 40)),
        ("with Image.open('photo.jpg') as img:\n    img.crop((1, 2, 30, 40)).save('c.png')", (1, 2, 30, 40)),
        ("image.crop((-50, -50, 5000, 20))", (0, 0, 400, 20)),
        ("small = image.resize((200, 150))\nsmall.crop((10, 10, 60, 60))", (20, 20, 120, 120)),
        ("x = 5\nx += 5\nimage.crop((x, x, 50, 50))", (10, 10, 50, 50)),
        (
            "x, y = red_sign = 0.50, 0.50\nview = image\nside = int((view.width * view.height) ** 0.5 / 5)\n"
            "left, top = int(x * view.width) - side // 2, int(y * view.height) - side // 2\n"
            "view = view.crop((left, top, left + side, top + side))\nview.resize((140, 140)).show()",
            (166, 116, 235, 185),
        ),
        ("a, b = 9 ** 9 ** 9 ** 9, (-8) ** 0.5\nimage.crop((a, b, 9, 9))\nimage.crop((0, 0, 2**3, 8))", (0, 0, 8, 8)),
    ],
)
def test_crops_are_found(code: str, box: tuple[float, ...]) -> None:
    assert boxes(code) == [box]


def test_crops_of_crops_and_later_cells() -> None:
    first = "part = image.crop((100, 100, 300, 200))"
    second = (
        "zoom = part.resize((part.width * 4, part.height * 4), Image.LANCZOS)\nzoom.crop((400, 0, 800, 400)).show()"
    )
    assert boxes(first, second) == [(100, 100, 300, 200), (200, 100, 300, 200)]


def test_loops_over_known_items() -> None:
    named = (
        "for i, (name, box) in enumerate({'a': (0, 0, 9, 9), 'b': [5, 5, 30, 30]}.items()):\n    image.crop(box).show()"
    )
    assert boxes(named) == [(0, 0, 9, 9), (5, 5, 30, 30)]
    assert boxes("[image.crop((x, 0, x + 50, 50)) for x in range(0, 100, 50)]") == [(0, 0, 50, 50), (50, 0, 100, 50)]


@pytest.mark.parametrize(
    "code",
    [
        "image.crop(find_box(image))",
        "if bright:\n    image.crop((0, 0, 9, 9))",
        "def f():\n    image.crop((0, 0, 9, 9))",
        "try:\n    image.crop((0, 0, 9, 9))\nexcept ValueError:\n    pass",
        "image = image.rotate(90)\nimage.crop((0, 0, 9, 9))",
        "image.thumbnail((100, 100))\nimage.crop((0, 0, 9, 9))",
        "import image\nimage.crop((0, 0, 9, 9))",
        "for x in (1, 2):\n    if x:\n        break\n    image.crop((0, 0, 9, 9))",
        "other.crop((0, 0, 9, 9))",
        "Image.open('made_by_me.png').crop((0, 0, 9, 9))",
        "image.crop((50, 50, 10, 10))",
        "np.array(image)[::2, ::2]",
        "np.array(image)[0, 0]",
        "image.crop((0, 0, 9, 9)",
        "image.crop((0, 0, 1e400, 9))",
        "image.crop((0, 0, 9**9**9, 9))",
        "x = " + "-" * 5000 + "1",
        "(" * 500,
        "x = 'a' * 10**9",
        "\x00",
        r"s = '\d'",
    ],
)
def test_what_cannot_be_told_is_not_drawn(code: str) -> None:
    assert boxes(code) == []


@pytest.mark.parametrize(
    "code",
    [
        "".join(f"{' ' * depth}for x{depth} in range(60):\n" for depth in range(6)) + " " * 6 + "pass",
        "[" * 6 + "1" + " for x in range(60)]" * 6,
        "x = (1,)\n" + "x = (x, x)\n" * 500,
        "x = (1,)\n" + "x = x + x\n" * 500,
    ],
)
def test_code_that_would_run_forever_is_given_up(code: str) -> None:
    """No end but the time limit of the suite would be the fault."""
    assert boxes(code, "x = 1") == []


def test_names_of_a_cell_that_stopped_half_way_are_not_trusted() -> None:
    book = reader()
    book.distrust("image = image.rotate(90)\n1 / 0")
    assert book.read("image.crop((0, 0, 9, 9))") == ()


edges = st.tuples(st.integers(-20, 420), st.integers(-20, 320), st.integers(-20, 420), st.integers(-20, 320))


@given(edges, edges, st.integers(1, 4))
def test_slices_agree_with_numpy(one: tuple[int, ...], two: tuple[int, ...], zoom: int) -> None:
    """Marks each pixel with its place, runs the code for real, and compares."""
    ys, xs = np.mgrid[0:300, 0:400]
    marked: dict[str, Any] = {"a": np.stack([xs, ys], axis=-1)}
    code = f"b = a[{one[1]}:{one[3]}, {one[0]}:{one[2]}]\nc = b[{two[1]}:{two[3]}, {two[0]}:{two[2]}]"
    exec(code, {}, marked)
    book = Reader({"a": View("photo", (0, 0, 400, 300), 400, 300, array=True)})
    views = book.read(code)
    result = book.names["c"]
    if isinstance(result, View):
        c = marked["c"]
        assert result.box == (c[0, 0, 0], c[0, 0, 1], c[-1, -1, 0] + 1, c[-1, -1, 1] + 1)
        assert (result.width, result.height) == (c.shape[1], c.shape[0])
        assert result in views or result.box in ((0, 0, 400, 300), book.names["b"].box)  # type: ignore[union-attr]
    else:
        assert marked["c"].size == 0


@given(edges)
def test_crops_agree_with_pillow(box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    views = reader().read(f"image.crop({box})")
    if left >= right or top >= bottom:
        assert views == ()
        return
    inside = Image.new("L", (400, 300), 1).crop(box).getbbox()
    if inside is None:
        assert views == ()
    else:
        assert [view.box for view in views] == [(left + inside[0], top + inside[1], left + inside[2], top + inside[3])]


@given(st.text(alphabet="image.crop(0,9)[:]= \n", max_size=40))
def test_any_text_is_read_without_an_exception(code: str) -> None:
    reader().read(code)
    reader().distrust(code)
