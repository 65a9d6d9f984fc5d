"""What code does, by its syntax tree: the taxonomy on code as models write it, and on anything at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.evals.protocols.tool_use.calls import tool_operations
from saccade.evals.protocols.tool_use.code import CodeReader
from saccade.evals.protocols.tool_use.records import Operation
from saccade.record.action import ToolCall


def reader() -> CodeReader:
    return CodeReader(pictures={"image"}, videos={"video_clue_0"})


def names(*cells: str) -> set[str]:
    book = reader()
    return {operation.value for operation in [book.read(cell) for cell in cells][-1]}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("image.crop((0, 0, 9, 9)).show()", {"crop"}),
        ("image.crop((0, 0, 9, 9)).resize((90, 90)).show()", {"crop", "zoom"}),
        ("a = np.array(image)\nplt.imshow(a[10:50, 20:60])", {"crop"}),
        ("a = np.array(image)\nplt.imshow(a[:, :, 0])", set()),
        ("plt.imshow(image.rotate(90))", {"rotate"}),
        ("image.transpose(Image.FLIP_LEFT_RIGHT).show()", {"rotate"}),
        ("import cv2 as c\nc.rotate(c.imread('a.png'), c.ROTATE_180)", {"rotate"}),
        ("from PIL import ImageEnhance as E\nE.Contrast(image).enhance(2).show()", {"enhance"}),
        ("image.filter(ImageFilter.SHARPEN).show()", {"enhance"}),
        ("image.filter(ImageFilter.FIND_EDGES).show()", {"detect_edges"}),
        ("cv2.imwrite('m.png', cv2.inRange(cv2.imread('a.png'), (0, 0, 9), (9, 9, 255)))", {"segment"}),
        ("a = np.array(image)\nplt.imshow((a[..., 0] > 200) & (a[..., 1] < 50))", {"segment"}),
        ("edges = cv2.Canny(np.array(image), 50, 150)\nplt.imshow(edges)", {"detect_edges"}),
        ("plt.hist(np.array(image).ravel())\nplt.show()", {"histogram"}),
        ("import pytesseract\nprint(pytesseract.image_to_string(image))", {"ocr"}),
        ("import easyocr\nreader = easyocr.Reader(['en'])\nprint(reader.readtext('a.png'))", {"ocr"}),
        ("d = ImageDraw.Draw(image)\nd.rectangle((0, 0, 9, 9))\nimage.show()", {"draw"}),
        ("fig, ax = plt.subplots()\nax.imshow(image)\nax.axhline(5)\nplt.show()", {"draw"}),
        ("plt.imshow(image)\nplt.plot([1, 2], [3, 4])\nplt.show()", {"draw"}),
        ("plt.plot([1, 2], [3, 4])\nplt.show()", {"sketch"}),
        ("c = Image.new('RGB', (9, 9))\nImageDraw.Draw(c).line((0, 0, 9, 9))\nc.show()", {"sketch"}),
        ("frame = video_clue_0[17]\nplt.imshow(frame)", {"frame_fetch"}),
        ("f = VideoReader('a.mp4').get_batch([1, 2])", {"frame_fetch"}),
        ("v = VideoReader('a.mp4')\nfor i in (1, 2):\n    plt.imshow(v[i])\n    plt.show()", {"frame_fetch"}),
        ("cap = cv2.VideoCapture('a.mp4')\nok, frame = cap.read()", {"frame_fetch"}),
        ("print(len(video_clue_0))", {"numerical_analysis"}),
        ("fig, (a, b) = plt.subplots(1, 2)\nax = a\nax.imshow(image)\nax.imshow(other)", {"compare"}),
        ("plt.imshow(np.hstack([one, two]))", {"compare"}),
        ("print(np.array(image)[5, 5].mean())", {"numerical_analysis"}),
        ("total = 3 * 4\nprint(f'total {total}')", {"numerical_analysis"}),
        ("import sympy\nx = sympy.Symbol('x')\nprint(sympy.solve(x**2 - 4))", {"numerical_analysis"}),
        ("sum([1, 2])", {"numerical_analysis"}),
        ("w = 3 * 4\nimage.crop((0, 0, w, w)).show()", {"crop"}),
        ("plt.imshow(image)\nplt.axis('off')\nplt.show()", set()),
        ("print(image.size)", set()),
        ("print('-' * 20)", set()),
        ("def zoom():\n    return image.crop((0, 0, 9, 9))", set()),
        ("def zoom():\n    return image.crop((0, 0, 9, 9))\nzoom().show()", {"crop"}),
        ("frobnicate(image)", {"other"}),
        ("image.crop((", {"unreadable"}),
    ],
)
def test_operations(code: str, expected: set[str]) -> None:
    assert names(code) == expected


def test_names_live_on_from_cell_to_cell() -> None:
    assert names("from cv2 import Canny as edges", "plt.imshow(edges(np.array(image), 1, 2))") == {"detect_edges"}
    assert names("def look(box):\n    return image.crop(box)", "look((0, 0, 9, 9)).show()") == {"crop"}
    assert names("total = 3 * 4", "print(total)") == {"numerical_analysis"}
    assert names("total = 3 * 4", "total = 'none'\nprint(total)") == set()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ToolCall(name="crop", arguments={"box": [0, 0, 9, 9]}), {Operation.CROP}),
        (ToolCall(name="crop", arguments={"box": [0, 0, 9, 9], "scale": 2}), {Operation.CROP, Operation.ZOOM}),
        (ToolCall(name="image_zoom_in_tool", arguments={}), {Operation.CROP}),
        (ToolCall(name="select_frames", arguments={}), {Operation.FRAME_FETCH}),
        (ToolCall(name="sam2", arguments={}), {Operation.SEGMENT}),
        (ToolCall(name="made_up", arguments={}), {Operation.OTHER}),
    ],
)
def test_typed_tools(call: ToolCall, expected: set[Operation]) -> None:
    assert tool_operations(call) == expected


PIECES = st.sampled_from(
    [
        *("image", "a", "np", "plt", "cv2.", ".crop", ".resize", "(", ")", "[", "]", ":", ",", "=", "==", "&", "1"),
        *("\n", "\n    ", "for ", " in ", "def f", "if ", "lambda", "print", "import ", "from ", " as ", "'x'"),
        "video_clue_0",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_has_operations_and_nothing_raises(code: str) -> None:
    found = reader().read(code)
    assert found <= set(Operation)
    assert Operation.UNREADABLE not in found or len(found) == 1


def test_deeply_nested_code_is_unreadable() -> None:
    assert names("x = " + "(" * 5000 + ")" * 5000) == {"unreadable"}
    assert names("x = " + "-" * 20_000 + "1") == {"unreadable"}
