"""What is reckoned without running anything is what Python gives, wherever anything is said at all."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.episode.looks import LONGEST, UNKNOWN, Evaluator, ImageFile, Reader, Value, View

PICTURE = Image.new("RGB", (400, 300))
FULL = View.full("photo", 400, 300)
ARRAY = View("photo", (0, 0, 400, 300), 400, 300, array=True)
KNOWN: dict[str, Value] = {"n": 7, "x": 2.5, "t": (1, 2, 3), "d": {"a": 1, "b": (2, 3)}, "s": "text"}
REAL: dict[str, Any] = {**KNOWN, "image": PICTURE, "a": np.zeros((300, 400, 3), np.uint8), "math": math, "Image": Image}


def said(code: str) -> Value:
    names: dict[str, Value] = {**KNOWN, "image": FULL, "a": ARRAY}
    return Evaluator(names, {}).value(ast.parse(code, mode="eval").body)


TOLD = (
    "n + 3; n - 3; n * x; n / 2; n // 2; -n // 2; n % 4; n ** 2; -n; -x; (1, n, x); [1, n]; t + (4, 5); "
    "t[0]; t[-1]; t[-3]; t[1:]; t[:-1]; t[1:2]; d['a']; d['b'][1]; {1: 2, 'k': n}; int(x); float(n); "
    "round(2.567, 2); round(x); abs(-n); min(3, n); max(t); min((4, n)); math.floor(x); math.ceil(x); "
    "min(999_999_999, n); 999_999_998 + 1; tuple([1, 2]); len(t); tuple(range(3)); tuple(range(2, 9, 3)); "
    "tuple(range(9, 2, -3)); len(range(64)); tuple(enumerate(t)); tuple(zip(t, (4, 5))); tuple(d.items()); "
    "tuple(d.values()); [i * 2 for i in t]; [i + j for i, j in zip(t, t)]; image.size; "
    "image.width + image.height; a.shape[:2]; a.shape[0]; a.shape[1] // 2; "
    "image.crop((10, 20, 110, 90)).size; image.resize((20, 30)).width; image.convert('L').copy().size; "
    "a[10:, :50].shape[:2]; a[10:, :50, ::-1].shape[:2]; a[:20].shape[:2]; a[-30:-10, -5:].shape[:2]"
)


@pytest.mark.parametrize("code", TOLD.split("; "))
def test_what_python_gives(code: str) -> None:
    value, real = said(code), eval(code, dict(REAL))
    assert value == (tuple(real) if isinstance(real, list) else real)
    if isinstance(real, int | float):
        assert type(value) is type(real) or "**" in code


UNTOLD = (
    "unheard; True; not n; n if n else x; n < 3; t[3]; t[-4]; t[x]; t['a']; t[::2]; t[x:]; d['c']; d[t]; "
    "n + s; s + s; t - t; n @ n; 1 / 0; n % 0; 1e300 * 1e300; n * 1e9; min(1e9, n); -10**9 * 1; (-8) ** 0.5; "
    "-s; (*t, 4); {**d}; {t: 1}; int(s); int(t, 2, 3); round(n, t); min(); max(t, n); len(n); len(t, t); "
    "tuple(); tuple(t, t); enumerate(t, t); zip(); zip(t, n); range(); range(x); range(1, 9, 0); "
    "range(1, 2, 3, 4); sum(t); s.items(); d.keys(); n.items(); [i for i in t if i]; "
    "[i for i in t for j in t]; [i for i in range(65)]; image[0]; image[1:2, 1:2]; image.mode; image.shape; "
    "a.size; a.dtype; a.crop((1, 1, 9, 9)); a.resize((9, 9)); a[::2]; a[x:]; a[5]; a[5:5]; a[:, 3]; "
    "image.rotate(90); image.resize((9, 9), 1, (0, 0, 5, 5)); image.resize((9, 9), box=(0, 0, 5, 5)); "
    "image.resize((0.4, 9)); image.resize((1_000_001, 9)); image.crop((1, 2, 3)); image.crop(); "
    "cv2.resize(); cv2.resize(n, (3, 4)); cv2.resize(a, None, fx=2); Image.open('unheard.png'); "
    "Image.fromarray(n); f()(n)"
)


@pytest.mark.parametrize("code", UNTOLD.split("; "))
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


def reader() -> Reader:
    names: dict[str, Value] = {"image": FULL, "path": ImageFile(FULL)}
    return Reader(names, {"photo.jpg": FULL})


def boxes_reader(*cells: str) -> list[tuple[float, ...]]:
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
    assert boxes_reader(code) == [box]


def test_crops_of_crops_and_later_cells() -> None:
    first = "part = image.crop((100, 100, 300, 200))"
    second = (
        "zoom = part.resize((part.width * 4, part.height * 4), Image.LANCZOS)\nzoom.crop((400, 0, 800, 400)).show()"
    )
    assert boxes_reader(first, second) == [(100, 100, 300, 200), (200, 100, 300, 200)]


def test_loops_over_known_items() -> None:
    named = (
        "for i, (name, box) in enumerate({'a': (0, 0, 9, 9), 'b': [5, 5, 30, 30]}.items()):\n    image.crop(box).show()"
    )
    assert boxes_reader(named) == [(0, 0, 9, 9), (5, 5, 30, 30)]
    assert boxes_reader("[image.crop((x, 0, x + 50, 50)) for x in range(0, 100, 50)]") == [
        (0, 0, 50, 50),
        (50, 0, 100, 50),
    ]


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
    assert boxes_reader(code) == []


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
    assert boxes_reader(code, "x = 1") == []


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


def test_of_the_views() -> None:
    assert FULL.crop((399, 299, 500, 500)) == View("photo", (399, 299, 400, 300), 1, 1)
    assert FULL.crop((399.1, 0, 400, 300)) is None  # less than a pixel is left
    assert FULL.crop((0, 299.5, 400, 300)) is None
    assert FULL.crop((-9, -9, 0, 300)) is None
    half = View("photo", (100, 100, 300, 200), 100, 200)  # half as wide, twice as high
    assert half.crop((10, 20, 60, 40)) == View("photo", (120, 110, 220, 120), 50, 20)
    assert half.resized(0.4, 10) is None
    assert half.resized(0.6, 10) == View("photo", half.box, 1, 10)
    assert half.resized(10**6, 1) is not None
    assert half.resized(10**6 + 1, 1) is None


def test_what_a_broken_cell_may_have_done_is_unknown() -> None:
    for broken in ("x = = 1", "x = (1,)\n" + "x = x + x\n" * 500 + "[" * 6 + "1" + " for x in range(60)]" * 6):
        book = reader()
        book.read(broken)
        assert book.read("image.crop((0, 0, 9, 9))") == ()
    book = reader()
    book.distrust("x = = 1")
    assert book.read("image.crop((0, 0, 9, 9))") == ()
    book = reader()
    book.distrust("other = 1\nfor y in z: w = 1")
    assert len(book.read("image.crop((0, 0, 9, 9))")) == 1


@pytest.mark.parametrize(
    "expression", ["a[0]", "(1, 2)[2]", "image.crop('x')", "f(1)", "1 + 'x'", "lambda: 0", "nobody"]
)
def test_what_is_unknown_is_no_open_end_of_a_slice(expression: str) -> None:
    """`a[None:40]` is `a[:40]`: an unknown value that passed for None would be drawn as a place."""
    code = f"a = np.array(image)\nx = {expression}\n"
    assert (20, 20, 40, 40) not in boxes_reader(code)
    assert (0, 0, 40, 30) not in boxes_reader(code + "a[x:30, x:40]")
    assert boxes_reader("a = np.array(image)\nx = None\na[x:30, x:40]") == [(0, 0, 40, 30)]
