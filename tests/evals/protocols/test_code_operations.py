"""What code does, by its syntax tree: the taxonomy on code as models write it, and on anything at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.evals.protocols.searches import noise

from saccade.episode.regions import StoredPixels
from saccade.evals.protocols.base import Studied
from saccade.evals.protocols.tool_use import CodeReader, call_uses, label_of
from saccade.media.store import MediaStore
from saccade.record.content import Code, ToolCall, VideoPart
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Provenance, Trajectory, Turn
from saccade.tools.context import Operation
from saccade.tools.registry import tool_class


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
        ("a = np.array(image)\nplt.imshow(a[10:, 20:])", {"crop"}),
        ("a = np.array(image)\nplt.imshow(a[10:50, 20:60, ::-1])", {"crop"}),
        ("a = np.array(image)\nplt.imshow(a[10:50, 20:60, 0])", {"crop"}),
        ("a = np.array(image)\nplt.imshow(a[10:, :])", set()),
        ("a = np.array(image)\nplt.imshow(a[10:50, 7])", set()),
        ("a = np.array(image)\nplt.imshow(a[:, :, 0])", set()),
        ("plt.imshow(image.rotate(90))", {"rotate"}),
        ("image.transpose(Image.FLIP_LEFT_RIGHT).show()", {"rotate"}),
        ("image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).show()", {"rotate"}),
        ("import cv2 as c\nc.rotate(c.imread('a.png'), c.ROTATE_180)", {"rotate"}),
        ("from PIL import ImageEnhance as E\nE.Contrast(image).enhance(2).show()", {"enhance"}),
        ("image.filter(ImageFilter.SHARPEN).show()", {"enhance"}),
        ("image.filter(ImageFilter.FIND_EDGES).show()", {"detect_edges"}),
        ("cv2.imwrite('m.png', cv2.inRange(cv2.imread('a.png'), (0, 0, 9), (9, 9, 255)))", {"segment"}),
        ("a = np.array(image)\nplt.imshow((a[..., 0] > 200) & (a[..., 1] < 50))", {"segment"}),
        ("edges = cv2.Canny(np.array(image), 50, 150)\nplt.imshow(edges)", {"detect_edges"}),
        ("plt.hist(np.array(image).ravel())\nplt.show()", {"histogram"}),
        ("import pytesseract\nprint(pytesseract.image_to_string(image))", {"ocr"}),
        ("import pytesseract\nprint(pytesseract.image_to_data(image))", {"ocr"}),
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
        # Differences of pictures, however they are written.
        ("a, b = np.array(Image.open('a.png')), np.array(Image.open('b.png'))\nplt.imshow(np.abs(a - b))", {"compare"}),
        ("a = cv2.imread('a.png')\nb = cv2.imread('b.png')\nd = a.astype(int) - b.astype(int)", {"compare"}),
        ("a = np.array(image)\nb = np.array(Image.open('b.png'))\nplt.imshow(np.subtract(a, b))", {"compare"}),
        ("a = np.array(image)\nb = np.array(Image.open('b.png'))\nplt.imshow(np.subtract(a, b, a))", {"compare"}),
        ("plt.imshow(cv2.absdiff(cv2.imread('a.png'), cv2.imread('b.png')))", {"compare"}),
        ("ImageChops.difference(image, Image.open('b.png')).show()", {"compare"}),
        ("f = video_clue_0[3].asnumpy().astype(int) - video_clue_0[9].asnumpy()", {"frame_fetch", "compare"}),
        ("f = video_clue_0.get_batch([1, 2])\nplt.imshow(abs(f[1] - f[0]))", {"frame_fetch", "compare"}),
        ("plt.imshow(cv2.imread('a.png') - cv2.imread('b.png'))", {"compare"}),
        ("plt.imshow(cv2.imread('a.png') - cv2.imread('a.png'))", set()),
        ("d = len('ab') - len('a')", set()),
        ("plt.imshow(cv2.imread('a.png').T - cv2.imread('b.png').T)", {"compare"}),
        ("d = image.width - cv2.imread('b.png').shape", set()),
        ("np.mean([1, 2])", {"numerical_analysis"}),
        ("print(np.mean([1, 2]))", {"numerical_analysis"}),
        ("print(np.array([1, 2]))", set()),
        ("print(image.getpixel((1, 2)))", {"numerical_analysis"}),
        ("a = np.array(image)\nd = a[..., 0] - a[..., 1]", set()),
        ("w, h = image.size\nd = w - h", set()),
        ("a = np.array(image)\nplt.imshow(255 - a)", set()),
        # Sizes are no analysis.
        ("f = video_clue_0.get_batch(np.linspace(0, 9, 4))\nprint(f.shape)", {"frame_fetch"}),
        ("a = np.array(image) * 2\nprint(a.shape, a.dtype, image.size)", set()),
        ("a = np.array(image) * 2\nprint(a.mean())", {"numerical_analysis"}),
        # The limits of the axes zoom into a picture, and not into a chart.
        ("plt.imshow(image)\nplt.xlim(10, 50)\nplt.ylim(60, 20)\nplt.show()", {"zoom"}),
        ("fig, ax = plt.subplots()\nax.imshow(image)\nax.set_xlim(10, 50)\nplt.show()", {"zoom"}),
        ("plt.plot([1, 2], [3, 4])\nplt.xlim(0, 5)\nplt.show()", {"sketch"}),
        ("frobnicate(image)", {"other"}),
        ("image.crop((", {"unreadable"}),
    ],
)
def test_operations(code: str, expected: set[str]) -> None:
    assert names(code) == expected


@pytest.mark.parametrize(
    ("operations", "label"),
    [
        ({Operation.CROP, Operation.ZOOM}, Operation.CROP),
        ({Operation.CROP, Operation.NUMERICAL_ANALYSIS}, Operation.CROP),
        ({Operation.CROP, Operation.SEGMENT}, Operation.SEGMENT),
        ({Operation.FRAME_FETCH, Operation.CROP}, Operation.FRAME_FETCH),
        ({Operation.DRAW, Operation.NUMERICAL_ANALYSIS}, Operation.DRAW),
        ({Operation.OTHER}, Operation.OTHER),
        *(({one}, one) for one in Operation),
    ],
)
def test_a_call_has_one_label(operations: set[Operation], label: Operation) -> None:
    assert label_of(operations) is label


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
    kind = tool_class(call.name)
    assert (kind.operations(call.arguments) if kind else {Operation.OTHER}) == expected


PIECES = st.sampled_from(
    [
        *("image", "a", "np", "plt", "cv2.", ".crop", ".resize", "(", ")", "[", "]", ":", ",", "=", "==", "&", "1"),
        *("\n", "\n    ", "for ", " in ", "def f", "if ", "lambda", "print", "import ", "from ", " as ", "'x'"),
        "video_clue_0",
    ]
)


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_has_operations_and_nothing_raises(code: str) -> None:
    found = reader().read(code)
    assert found <= set(Operation)
    assert Operation.UNREADABLE not in found or len(found) == 1


def test_deeply_nested_code_is_unreadable() -> None:
    assert names("x = " + "(" * 5000 + ")" * 5000) == {"unreadable"}
    assert names("x = " + "-" * 20_000 + "1") == {"unreadable"}


def did(code: str, folder: Path, picture: Image.Image | None = None, **execution: object) -> set[str]:
    """What the only call of a sample did that was asked about `noise()` and got `picture` back."""
    store = MediaStore(folder)
    photo = store.put_image(noise())
    shown = () if picture is None else (ExecutionPicture(image=store.put_image(picture), source="show"),)
    run = Execution.model_validate({"status": "ok", "pictures": shown, **execution})
    sample = Trajectory(
        id="t#0",
        task=Task(id="t", question="?", answer="red", media=(NamedMedia(name="photo", part=photo),)),
        provenance=Provenance(dialect="codev@1"),
        turns=(Turn(text=code, action=Code(code=code), execution=run),),
    )
    [use] = call_uses(Studied(sample, StoredPixels(store)))
    return {operation.value for operation in use.operations}


def test_a_part_that_came_back_was_cut_out(tmp_path: Path) -> None:
    assert did("f(image)", tmp_path, noise().crop((100, 100, 160, 150))) == {"crop"}
    assert did("f(image)", tmp_path, noise().crop((0, 0, 400, 299))) == {"crop"}
    assert did("f(image)", tmp_path, noise().crop((0, 1, 400, 300))) == {"crop"}
    assert did("f(image)", tmp_path, noise().crop((1, 0, 400, 300))) == {"crop"}
    assert did("f(image)", tmp_path, noise(seed=1)) == {"other"}
    assert did("f(image)", tmp_path, noise().convert("RGBA")) == {"other"}  # all of it in another file
    assert did("pass", tmp_path) == {"no_operation"}


def test_a_picture_is_enlarged_only_if_it_is_larger(tmp_path: Path) -> None:
    for size, operations in (((401, 300), {"zoom"}), ((400, 300), set()), ((399, 301), {"zoom"}), ((9, 9), set())):
        picture = noise(seed=2).resize(size)
        assert did(f"image.resize({size}).show()", tmp_path, picture) - {"no_operation"} == operations
    small = noise().crop((10, 30, 50, 70)).resize((41, 40))
    assert did("image.crop((10, 30, 50, 70)).resize((41, 40)).show()", tmp_path, small) == {"crop", "zoom"}
    assert did("image.crop((10, 30, 50, 70)).resize((40, 40)).show()", tmp_path, small.resize((40, 40))) == {"crop"}


def test_numbers_are_analysed_only_if_they_came_out(tmp_path: Path) -> None:
    code = "sum([1, 2])"
    assert did(code, tmp_path, stdout="3\n") == {"numerical_analysis"}
    assert did(code, tmp_path, value="3") == {"numerical_analysis"}
    assert did(code, tmp_path, stdout=" \n") == {"no_operation"}


def test_pictures_of_a_video_that_the_code_does_not_explain_are_its_frames(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    clip = VideoPart(sha256="c" * 64, width=40, height=30, frames=8, fps=1.0, seconds=8.0)
    frame = ExecutionPicture(image=store.put_image(noise(seed=4).resize((40, 30))), source="show")
    cells = [("f(video_clue_0)", (frame,)), ("f(video_clue_0)", ()), ("frame = video_clue_0[3]\nshow(frame)", (frame,))]
    sample = Trajectory(
        id="t#0",
        task=Task(id="t", question="?", media=(NamedMedia(name="clip", part=clip),)),
        provenance=Provenance(dialect="pyvision-rl-video@1:paper"),
        turns=tuple(
            Turn(text=code, action=Code(code=code), execution=Execution(status=Status.OK, pictures=shown))
            for code, shown in cells
        ),
    )
    photo = NamedMedia(name="photo", part=store.put_image(noise()))
    beside = sample.task.model_copy(update={"media": (*sample.task.media, photo)})
    others = ({"provenance": Provenance(dialect="nobody's@1")}, {"task": beside})
    for one in (sample, *(sample.model_copy(update=changes) for changes in others)):
        found = [use.operations for use in call_uses(Studied(one, StoredPixels(store)))]
        assert found[:2] == [(Operation.FRAME_FETCH,), (Operation.OTHER,)]
        assert found[2] == (Operation.FRAME_FETCH,)
