"""What CodeV's sandbox forgave and forbade: slices beyond the picture, other paths of its file, changes to it."""

from __future__ import annotations

import ast
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.guest.cells import Guest, Start
from tests.shared_sandbox import LentSandbox

from saccade.dialects.base import load_dialect
from saccade.guest.lenient import clamp_slices, slice_of_picture
from saccade.record.execution import Status

NAMES = ("clamp_slice", "near_path", "read_only")
PICTURE = np.arange(60 * 80 * 3, dtype=np.uint8).reshape(60, 80, 3)


def sliced(code: str, **names: Any) -> Any:
    """The value of an expression after the repair."""
    tree = ast.parse(code)
    namespace: dict[str, Any] = {"a": PICTURE, "slice": None, **names}
    clamp_slices(tree, namespace, lambda _: None)
    assert isinstance(tree.body[0], ast.Expr)
    return eval(compile(ast.Expression(tree.body[0].value), "x", "eval"), namespace)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("a[-10:50, 0:50]", PICTURE[0:50, 0:50]),
        ("a[-10:50, -3:500]", PICTURE[0:50, 0:80]),
        ("a[50:10, 40:20]", PICTURE[10:50, 20:40]),
        ("a[10:5000, 10:5000, ::-1]", PICTURE[10:, 10:, ::-1]),
        ("a[-1:30, 5:9, 0]", PICTURE[0:30, 5:9, 0]),
        ("a[-1:30, 5:9][0:2, 0:2]", PICTURE[0:2, 5:7]),
        # As they are: counted from the end, open, with steps, or no slices.
        ("a[10:-10, 20:-20]", PICTURE[10:-10, 20:-20]),
        ("a[-20:-10, -20:-10]", PICTURE[-20:-10, -20:-10]),
        ("a[-20:, :30]", PICTURE[-20:, :30]),
        ("a[50:10:-1, 0:5]", PICTURE[50:10:-1, 0:5]),
        ("a[-10:50]", PICTURE[-10:50]),
        ("a[3, 0:5]", PICTURE[3, 0:5]),
        ("a[..., 0:2]", PICTURE[..., 0:2]),
        ("b[-2:1, 0:1]", np.eye(3)[0:1, 0:1]),
    ],
)
def test_slices_of_pictures_stay_inside(code: str, wanted: Any) -> None:
    assert np.array_equal(sliced(code, b=np.eye(3)), wanted)


def test_what_is_no_picture_is_sliced_as_ever() -> None:
    class Odd:
        def __getitem__(self, index: object) -> object:
            return index

    assert sliced("o[-1:2, 3:1]", o=Odd()) == (slice(-1, 2), slice(3, 1))
    cube = np.zeros((9, 9, 9, 9))
    assert sliced("c[-1:2, 3:1]", c=cube).shape == cube[-1:2, 3:1].shape
    with pytest.raises(TypeError):
        sliced("a[1.5:3, 0:2]")
    for code in ("a[70:90, 0:5]", "a[0:5, 100:200]"):
        with pytest.raises(ValueError, match="leaves nothing of the image, which is 80 pixels wide and 60 pixels high"):
            sliced(code)
    assert slice_of_picture(PICTURE, (slice(0, 5), slice(0, 5))).shape == (5, 5, 3)


def test_assignments_are_not_changed() -> None:
    code = "a[-5:10, 0:5] = 0\na[1:2, 3:4] += 1\ndel d[1:2, 3:4]"
    tree = ast.parse(code)
    clamp_slices(tree, {}, lambda _: None)
    assert ast.unparse(tree) == ast.unparse(ast.parse(code))


@pytest.fixture
def codev(start: Start) -> Guest:
    """A guest with a picture `1.jpg` of 80x60 pixels, and CodeV's repairs."""
    guest = start(repairs=NAMES, preload=("Image", "np", "cv2", "os"))
    Image.new("RGB", (80, 60), "red").save(guest.workspace / "1.jpg")
    return guest


def test_a_slice_is_logged_and_its_function_too(codev: Guest) -> None:
    first = codev.run("def cut(x):\n    return x[-5:20, 0:10]\nimg = cv2.imread('1.jpg')\nprint(cut(img).shape)")
    assert (first.status, first.stdout) == ("ok", "(20, 10, 3)\n")
    assert first.repaired == ["clamp_slice"]
    assert "was clipped to [[0, 20], [0, 10]] in an image of 80x60" in first.report["repairs"][0]["note"]
    again = codev.run("print(cut(img).shape)\ncv2.imwrite('c.png', img[10:40, -9:40])")
    assert again.status == "ok"
    assert len(again.repaired) == 2
    with Image.open(codev.workspace / "c.png") as cut:
        assert cut.size == (40, 30)


CHANGES = {
    "open": "open('1.jpg', 'wb').write(b'x')",
    "append": "open('1.jpg', 'ab')",
    "read and write": "open('1.jpg', 'r+b')",
    "another way to it": "open('./x/../1.jpg', 'wb')",
    "os.open": "os.open('1.jpg', os.O_WRONLY)",
    "path": "import pathlib\npathlib.Path('1.jpg').write_bytes(b'')",
    "save": "Image.new('RGB', (2, 2)).save('1.jpg')",
    "opencv": "cv2.imwrite('1.jpg', np.zeros((2, 2, 3), np.uint8))",
    "remove": "os.remove('1.jpg')",
    "unlink": "import pathlib\npathlib.Path('1.jpg').unlink()",
    "rename": "os.rename('1.jpg', '2.jpg')",
    "replace": "open('n.txt', 'w').close()\nos.replace('n.txt', '1.jpg')",
    "move": "import shutil\nshutil.move('1.jpg', 'x.jpg')",
    "truncate": "os.truncate('1.jpg', 0)",
    "link": "os.symlink('1.jpg', 'l.jpg')\nopen('l.jpg', 'wb')",
    "hard link": "os.link('1.jpg', 'h.jpg')\nopen('h.jpg', 'wb')",
    "copy over": "import shutil\nopen('n.txt', 'w').close()\nshutil.copy('n.txt', '1.jpg')",
}


@pytest.mark.parametrize("code", CHANGES.values(), ids=CHANGES)
def test_a_given_picture_is_read_only(codev: Guest, code: str) -> None:
    before = (codev.workspace / "1.jpg").read_bytes()
    (codev.workspace / "x").mkdir()
    refused = codev.run(code)
    assert refused.status == "error"
    assert "PermissionError: 1.jpg is a picture of the task and is read-only" in refused.traceback
    assert (codev.workspace / "1.jpg").read_bytes() == before
    # What the program makes itself, it may change.
    own = codev.run("Image.new('RGB', (2, 2)).save('own.jpg')\nos.rename('own.jpg', 'o.jpg')\nos.remove('o.jpg')")
    assert own.status == "ok"
    read = codev.run("print(Image.open('1.jpg').size, len(open('1.jpg', 'rb').read()) > 0)")
    assert read.stdout == "(80, 60) True\n"


def test_without_the_repair_nothing_is_refused(start: Start) -> None:
    guest = start(repairs=("clamp_crop",))
    (guest.workspace / "1.jpg").write_bytes(b"x")
    assert guest.run("import os\nos.remove('1.jpg')").status == "ok"


@pytest.mark.few(4, of=lambda params: params["read"])
@pytest.mark.parametrize(
    "path",
    [
        *("images/1.jpg", "/mnt/user-data/1.jpg", "1.png", "1.JPG", "image.jpg", "input_image.png", "user_image_1.jpg"),
        *("/data/images/img.jpeg", "Image1.jpg", "original image.png", "photo.jpg"),
    ],
)
@pytest.mark.parametrize("read", ["Image.open({!r}).size", "cv2.imread({!r}).shape[1::-1]"])
def test_another_path_of_the_picture_is_read_as_its_own(codev: Guest, read: str, path: str) -> None:
    found = codev.run(f"print({read.format(path)})")
    assert (found.status, found.stdout) == ("ok", "(80, 60)\n")
    (repair,) = found.report["repairs"]
    assert repair == {"name": "near_path", "note": f"the path {path} was read as 1.jpg"}


@pytest.mark.parametrize("path", ["crop.png", "2.jpg", "image_2.jpg", "cat.jpg", "image.txt", "notes/1.txt"])
def test_a_file_that_was_never_there_is_not_found(codev: Guest, path: str) -> None:
    missing = codev.run(f"open({path!r}, 'rb')")
    assert missing.status == "error"
    assert "FileNotFoundError" in missing.traceback
    assert missing.repaired == []


def test_with_several_pictures_only_numbers_tell_them_apart(start: Start) -> None:
    guest = start(repairs=NAMES, preload=("Image",))
    for number in (1, 2, 10):
        Image.new("RGB", (number, 1)).save(guest.workspace / f"{number}.png")
    assert guest.run("print(Image.open('image_3.jpg').size, Image.open('x/10.png').size)").stdout == "(10, 1) (10, 1)\n"
    assert guest.run("Image.open('image.jpg')").status == "error"
    assert guest.run("Image.open('image_4.jpg')").status == "error"


def test_a_new_file_gets_its_folder(codev: Guest) -> None:
    saved = codev.run(
        "Image.open('1.jpg').save('out/deep/a.png')\ncv2.imwrite('out2/b.png', np.zeros((4, 4, 3), np.uint8))\n"
        "Image.open('1.jpg').save('/home/nobody/here/c.png')\nprint(Image.open('out/deep/a.png').size)"
    )
    assert (saved.status, saved.stdout) == ("ok", "(80, 60)\n")
    assert saved.repaired == ["near_path"] * 3
    assert all((codev.workspace / path).is_file() for path in ("out/deep/a.png", "out2/b.png", "c.png"))


def test_a_later_file_of_the_program_is_not_read_only(codev: Guest) -> None:
    assert codev.run("os.mkdir('sub')\nos.chdir('sub')\nImage.new('RGB', (3, 3)).save('n.png')").status == "ok"
    assert codev.run("os.remove('n.png')").status == "ok"
    assert codev.run("os.remove('../1.jpg')").status == "error"


async def test_codev_does_all_of_it_in_its_sandbox(tmp_path: Path) -> None:
    dialect = load_dialect("codev")
    box = LentSandbox(dialect.sandbox)
    picture = io.BytesIO()
    Image.new("RGB", (80, 60), "red").save(picture, "JPEG")
    session = await box.open({"image_path": "1.jpg"}, files={"1.jpg": picture.getvalue()}, options=dialect.session)
    async with box:
        cut = await session.run("cv2.imwrite('/mnt/data/out/c.png', cv2.imread('images/1.jpg')[-10:50, 30:20])")
        assert (cut.status, cut.traceback) == (Status.OK, None)
        assert {repair.name for repair in cut.repairs} == {"path_alias", "near_path", "clamp_slice"}
        assert [(file.path, picture.image().size) for file, picture in zip(cut.files, cut.pictures, strict=True)] == [
            ("out/c.png", (10, 50))
        ]
        refused = await session.run("os.rename(image_path, 'x.jpg')")
        assert "is read-only" in (refused.traceback or "")
        left = await session.run("print(sorted(os.listdir('.')))")
        assert left.stdout == "['1.jpg', 'out']\n"
