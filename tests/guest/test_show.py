"""Every way of showing a picture, the caps, and that no picture comes twice."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.guest.cells import Guest, Start

from saccade.guest.show import to_rgb

IMPORTS = """
import numpy as np
import matplotlib, matplotlib.pyplot as plt
from PIL import Image
def figure(color="white", size=(1, 1)):
    return plt.figure(figsize=size, dpi=20, facecolor=color)
"""
needs_cv2 = pytest.mark.skipif(importlib.util.find_spec("cv2") is None, reason="OpenCV is not installed")


@pytest.mark.parametrize(
    "ending",
    [
        "plt.show()",
        "plt.show(block=False)",
        "plt.show(False)",
        "from matplotlib.pyplot import show; show()",
        "from pylab import show; show()",
        "plt.gcf().show()",
        "plt.gcf().show(warn=False)",
        "plt.gcf().canvas.manager.show()",
        "plt.get_current_fig_manager().show()",
        "plt.draw(); plt.pause(0.01); plt.show()",
        "matplotlib.use('Agg'); plt.show()",
        "plt.switch_backend('agg'); plt.plot([1]); plt.show()",
        "matplotlib.use('TkAgg'); plt.show()",
        "plt.ion(); plt.plot([1, 2]); plt.show()",
        "import importlib; importlib.reload(plt); plt.show()",
        "matplotlib.rcdefaults(); plt.show()",
    ],
)
@pytest.mark.few(4)
def test_forms_of_showing_a_figure(guest: Guest, ending: str) -> None:
    result = guest.run(IMPORTS + f"figure()\nplt.plot([1, 2])\n{ending}")
    assert (result.status, result.sources, result.stderr) == ("ok", ["figure"], ""), result.report
    again = guest.run("plt.show()")
    assert again.pictures == []


RED, WHITE = (255, 0, 0), (255, 255, 255)


@pytest.mark.parametrize(
    ("code", "size", "color"),
    [
        ("plt.plot([1, 2])\nplt.show()", (640, 480), WHITE),
        ("plt.plot([1, 2])\nplt.savefig('f.png')\nplt.show()", (640, 480), WHITE),  # once
        ("f = figure()\nf.patch.set_alpha(0)\nplt.show()", (20, 20), WHITE),
        (
            "plt.switch_backend('svg')\nf = figure('red')\nkind = type(f.canvas)\nf.show()\n"
            "assert type(f.canvas) is kind",
            (20, 20),
            RED,
        ),
        (
            "from matplotlib.figure import Figure\nf = Figure((2, 1), 50, facecolor='red')\nf.show()\nf",
            (100, 50),
            RED,
        ),
        ("im = Image.new('RGB', (2, 2), 'red')\nim.show()\nim.paste('blue', (0, 0, 2, 2))", (2, 2), RED),
    ],
    ids=["usual", "saved, too", "transparent", "another backend", "without pyplot", "changed later"],
)
def test_one_opaque_picture_of_the_moment(guest: Guest, code: str, size: tuple[int, int], color: object) -> None:
    result = guest.run(IMPORTS + code)
    assert (result.status, result.sizes, result.value) == ("ok", [size], None)
    assert (result.pictures[0].mode, result.pictures[0].getpixel((0, 0))) == ("RGB", color)


def test_loop_and_several_figures_in_number_order(guest: Guest) -> None:
    result = guest.run(IMPORTS + "for c in ('red', 'lime', 'blue'):\n    figure(c)\n    plt.show()")
    assert [p.getpixel((0, 0)) for p in result.pictures] == [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    result = guest.run("plt.figure(9, (3, 1), 20)\nplt.figure(2, (1, 1), 20)\nplt.figure(5, (2, 1), 20)\nplt.show()")
    assert [width for width, _ in result.sizes] == [20, 40, 60]


def test_an_open_figure_that_was_not_shown_stays_open(guest: Guest) -> None:
    assert guest.run(IMPORTS + "_ = figure()").pictures == []
    assert len(guest.run("plt.show()").pictures) == 1


def test_a_figure_shown_by_itself_and_changed_again_stays_open(guest: Guest) -> None:
    guest.run(IMPORTS + "f = figure()\nf.show()\nf.set_facecolor('red')")
    result = guest.run("plt.show()")
    assert [p.getpixel((0, 0)) for p in result.pictures] == [(255, 0, 0)]


def test_windowed_backend_is_taken_as_agg_with_a_note(guest: Guest) -> None:
    result = guest.run("import matplotlib\nmatplotlib.use('Qt5Agg')\nprint(matplotlib.get_backend().lower())")
    assert result.stdout == "agg\n"
    assert any("Qt5Agg" in note for note in result.notes)
    assert guest.run("import matplotlib\nmatplotlib.use('no such thing')").status == "error"


def test_figure_that_cannot_be_drawn_is_a_note(guest: Guest) -> None:
    result = guest.run(IMPORTS + "figure((1, 1, 1), (4, 4)); plt.title('$\\\\badcommand{$'); plt.show()\nprint('on')")
    assert (result.status, result.pictures, result.stdout) == ("ok", [], "on\n")
    assert any("could not be captured" in note for note in result.notes)


@pytest.mark.parametrize(
    ("code", "sources"),
    [
        ("Image.new('RGB', (5, 4), 'red').show()", ["show"]),
        ("Image.new('RGB', (5, 4), 'red').show(title='t')", ["show"]),
        ("from PIL import ImageShow\nImageShow.show(Image.new('RGB', (5, 4), 'red'))", ["show"]),
        ("display(Image.new('RGB', (5, 4), 'red'))", ["display"]),
        ("from IPython.display import display\ndisplay(Image.new('RGB', (5, 4), 'red'))", ["display"]),
        ("import IPython.display\nIPython.display.display(Image.new('RGB', (5, 4), 'red'))", ["display"]),
        ("display(np.full((4, 5, 3), (255, 0, 0), np.uint8))", ["display"]),
        ("display(np.full((4, 5, 3), (1.0, 0, 0)))", ["display"]),
        ("Image.new('RGB', (5, 4), 'red')", ["value"]),
        ("Image.new('RGB', (5, 4), 'red').save('a.png')", ["file"]),
        ("Image.new('RGB', (5, 4), 'red').save('no_suffix', 'BMP')", ["file"]),
        ("import cv2\ncv2.imshow('w', np.full((4, 5, 3), (0, 0, 255), np.uint8)); cv2.waitKey(0)", ["show"]),
    ],
)
@pytest.mark.few(4)
def test_forms_of_showing_an_image(guest: Guest, code: str, sources: list[str]) -> None:
    if "cv2" in code:
        pytest.importorskip("cv2")
    result = guest.run(IMPORTS + code)
    assert (result.status, result.sources, result.sizes) == ("ok", sources, [(5, 4)]), result.report
    assert result.pictures[0].convert("RGB").getpixel((2, 2)) == (255, 0, 0)


def test_display_of_other_things_prints_them(guest: Guest) -> None:
    result = guest.run(IMPORTS + "display({'a': 1}, [2], np.array([5]), figure(), None, np.zeros((2, 0), np.uint8))")
    assert len(result.pictures) == 1
    assert result.stdout == "{'a': 1}\n[2]\narray([5])\nNone\narray([], shape=(2, 0), dtype=uint8)\n"


def test_display_of_an_object_that_draws_itself(guest: Guest) -> None:
    code = """
import io
class Drawn:
    def _repr_png_(self):
        file = io.BytesIO()
        Image.new("RGB", (7, 3), "red").save(file, "PNG")
        return file.getvalue()
display(Drawn())
"""
    assert guest.run(IMPORTS + code).sizes == [(7, 3)]


WITHOUT_IPYTHON = """
import importlib.machinery, sys
real = importlib.machinery.PathFinder
class Hiding:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] == "IPython" else real.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(real)] = Hiding
"""


@pytest.mark.parametrize("hidden", [WITHOUT_IPYTHON, "import sys\n"])
def test_the_stand_in_for_ipython_is_the_same_whatever_is_installed(tmp_path: Path, hidden: str) -> None:
    """Before and after a program imports it: matplotlib looks at it whenever a backend is chosen."""
    code = """
from saccade.guest.preload import warm_up
warm_up()
assert not [name for name in sys.modules if name.startswith("IPython")]
import IPython, importlib.util
assert IPython.__spec__ is importlib.util.find_spec("IPython")
assert IPython.display.display is IPython.display.display is display
from IPython.core.display import HTML, display
from IPython.display import Image, Markdown, clear_output, SVG
print(repr(Markdown('**b**')), HTML('<p>').data, bool(IPython.get_ipython()), clear_output(wait=True))
import matplotlib, matplotlib.pyplot as plt
matplotlib.use("svg")
plt.switch_backend("agg")
plt.ion()
plt.plot([1, 2])
try:
    import IPython.terminal.embed
except ModuleNotFoundError as error:
    print(error.name)
"""
    run = subprocess.run(
        [sys.executable, "-c", hidden + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr) == ("**b** <p> False None\nIPython.terminal\n", "")


PICTURES = """
import base64, io, pathlib
from IPython.display import Image as Shown, display
PIL = Image.new("RGB", (3, 2), "red")
PIL.save("a.png"); PIL.save("b.jpg")
file = io.BytesIO(); PIL.save(file, "PNG"); data = file.getvalue()
url = "data:image/png;base64," + base64.b64encode(data).decode()
class Text:
    def _repr_png_(self): return base64.b64encode(data).decode()
class Pair:
    def _repr_jpeg_(self): return open("b.jpg", "rb").read(), {"width": 3}
"""
OBJECTS = (
    *("Shown(data)", "Shown(data=data, width=200)", "Shown('a.png')", "Shown(filename='b.jpg')", "Text()", "Pair()"),
    *("Shown(pathlib.Path('a.png'))", "Shown(url)", "Shown(bytearray(data), format='png', embed=True)", "PIL"),
)


@pytest.mark.parametrize("thing", OBJECTS)
def test_an_object_that_draws_itself_is_a_picture_shown_or_as_the_value(start: Start, thing: str) -> None:
    for code, source in ((f"display({thing})", "display"), (thing, "value")):
        guest = start()
        guest.run(IMPORTS + PICTURES)
        guest.ask("commit")
        result = guest.run(code)
        assert (result.status, result.sources, result.sizes) == ("ok", [source], [(3, 2)]), result.report
        assert (result.value, result.stdout) == (None, "")


def test_a_picture_of_the_network_and_one_that_is_broken_say_so(guest: Guest) -> None:
    guest.run(PICTURES.replace("PIL", "_"))
    assert "the sandbox has no network" in guest.run("Shown(url='https://x.org/a.png')").traceback
    broken = guest.run("Shown(data=b'not a picture')")
    assert (broken.status, broken.pictures) == ("ok", [])
    assert "Image object" in broken.value


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("plt.imshow(np.zeros((4, 4)))", True),
        ("fig, ax = plt.subplots(); ax.plot([1, 2])\nax", True),
        ("plt.figure(); plt.plot([1]); plt.figure(); plt.plot([2])", True),
        ("plt.plot([1]); plt.show()", False),
        ("fig = figure(); display(fig)", False),
        ("figure()", False),  # the value
        ("plt.plot([1]); plt.savefig('a.png')", False),
        ("plt.plot([1]); plt.savefig(__import__('io').BytesIO())", False),
        ("plt.plot([1]); plt.close()", False),
        ("plt.figure(figsize=(2, 2))\n1", False),  # nothing is in it
        ("fig = plt.figure(); plt.plot([1]); fig.canvas.draw(); a = np.asarray(fig.canvas.buffer_rgba())", False),
    ],
)
def test_a_figure_that_stays_open_is_told_of_once(guest: Guest, code: str, told: bool) -> None:
    result = guest.run(IMPORTS + code)
    assert result.status == "ok", result.report
    assert any("open and w" in note for note in result.notes) is told, result.notes
    assert guest.run("print(1)").notes == []


@needs_cv2
def test_opencv_windows_do_nothing(guest: Guest) -> None:
    code = """
import cv2
cv2.namedWindow("w", cv2.WINDOW_NORMAL)
cv2.resizeWindow("w", 100, 100)
print(cv2.waitKey(0), cv2.waitKeyEx(1))
cv2.destroyWindow("w")
cv2.destroyAllWindows()
cv2.imshow("w", None)
"""
    result = guest.run(code)
    assert (result.status, result.stdout, result.pictures) == ("ok", "-1 -1\n", [])
    assert any("not a picture" in note for note in result.notes)


def test_opencv_arrays_of_other_types() -> None:
    assert to_rgb(np.array([[[255, 0, 1]]], np.uint8)).tolist() == [[[1, 0, 255]]]
    assert to_rgb(np.array([[[1, 2, 3, 4]]], np.uint8)).tolist() == [[[3, 2, 1, 4]]]
    assert to_rgb(np.array([[0, 0xFFFF]], np.uint16)).tolist() == [[0, 255]]
    assert to_rgb(np.array([[-1.0, 0.5, 2.0, np.nan]])).tolist() == [[0, 128, 255, 0]]
    strange = np.zeros((2, 2, 7), np.uint8)
    assert to_rgb(strange) is strange, "to be told of as it was given"


def test_order_is_shown_value_files_by_time_then_name(guest: Guest) -> None:
    code = """
import os
for name in ("b.png", "a.png", "c.png"):
    Image.new("RGB", (ord(name[0]), 2)).save(name)
    os.utime(name, ns=(5, 7 if name == "c.png" else 9))
Image.new("RGB", (1, 2)).show()
figure(size=(2, 1)); plt.show()
Image.new("RGB", (3, 2))
"""
    result = guest.run(IMPORTS + code)
    assert [width for width, _ in result.sizes] == [1, 40, 3, ord("c"), ord("a"), ord("b")]
    assert [p["path"] for p in result.report["pictures"]][3:] == ["c.png", "a.png", "b.png"]
    assert [file["path"] for file in result.files] == ["a.png", "b.png", "c.png"]


def test_changed_image_file_is_shown_again(guest: Guest) -> None:
    save = "Image.new('RGB', (4, 4), '{}').save('d.png')"
    guest.run(IMPORTS + save.format("red"))
    guest.ask("commit")
    assert guest.run("1").pictures == []
    assert guest.run(save.format("blue")).pictures[0].getpixel((0, 0)) == (0, 0, 255)


def test_files_that_are_no_images_or_broken_or_bombs(guest: Guest) -> None:
    code = """
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
magic = b"\\x89PNG\\r\\n\\x1a\\n"
def write(name, data):
    with open(name, "wb") as f: f.write(data)
write("bomb.png", magic + chunk(b"IHDR", struct.pack(">IIBBBBB", 100000, 100000, 8, 2, 0, 0, 0)))
write("large.png", magic + chunk(b"IHDR", struct.pack(">IIBBBBB", 20000, 20000, 8, 2, 0, 0, 0)))
write("junk.jpg", b"not a jpeg")
write("cut.png", magic)
write("notes.txt", b"12345")
write("RIFF.wav", b"RIFF1234WAVEfmt ")
"""
    result = guest.run(code)
    assert (result.status, result.pictures) == ("ok", [])
    assert {file["path"]: file["size"] for file in result.files}["notes.txt"] == 5
    assert len(result.files) == 6


def test_same_picture_comes_once(guest: Guest) -> None:
    code = """
im = Image.new("RGB", (9, 9), "red")
for _ in range(3): im.show()
display(im)
im.convert("RGBA").save("rgba.png")
im
"""
    result = guest.run(IMPORTS + code)
    assert result.sources == ["show"]
    assert "5 pictures were identical to an earlier one and left out" in result.notes
    assert [file["path"] for file in result.files] == ["rgba.png"]


def test_two_equal_figures_are_two_pictures(guest: Guest) -> None:
    draw = "plt.figure(figsize=(1, 1))\nplt.plot([1, 2])\nplt.show()\n"
    result = guest.run(IMPORTS + draw * 2)
    assert (result.sources, result.notes) == (["figure", "figure"], [])
    assert result.pictures[0].tobytes() == result.pictures[1].tobytes()


def test_pictures_that_differ_in_one_pixel_or_in_transparency_both_come(guest: Guest) -> None:
    code = """
im = Image.new("RGB", (9, 9), "red"); im.show()
im.putpixel((8, 8), (254, 0, 0)); im.show()
rgba = im.convert("RGBA"); rgba.putalpha(254); rgba.show()
"""
    assert len(guest.run(IMPORTS + code).pictures) == 3


def test_number_of_pictures_is_capped(start: Start) -> None:
    guest = start(pictures=3)
    result = guest.run(
        IMPORTS + "for i in range(5): Image.new('L', (2, 2), i).show()\nImage.new('L', (3, 3)).save('f.png')"
    )
    assert [p.getpixel((0, 0)) for p in result.pictures] == [0, 1, 2]
    assert "3 further pictures were dropped: at most 3 per call" in result.notes
    guest.ask("commit")
    assert guest.run("Image.new('L', (2, 2)).show()").sources == ["show"]
    assert start(pictures=0).run(IMPORTS + "Image.new('L', (2, 2)).show()").pictures == []


def test_one_large_picture_is_scaled_down(start: Start) -> None:
    guest = start(picture_pixels=10_000)
    result = guest.run(IMPORTS + "Image.new('RGB', (400, 100), 'red').show()\nfigure(size=(20, 20)); plt.show()")
    assert result.sizes[0] == (200, 50)
    assert result.sizes[1] == (100, 100)
    assert all(width * height <= 10_000 for width, height in result.sizes)
    assert "a picture of 400x100 pixels was scaled down to 200x50" in result.notes
    assert guest.run("plt.figure(figsize=(500, 500), dpi=1000); plt.show()").sizes == [(100, 100)]


def test_total_of_pixels_is_capped(start: Start) -> None:
    guest = start(total_pixels=5000)
    result = guest.run(IMPORTS + "for i in range(4): Image.new('RGBA', (50, 40), (i, i, i, i)).show()")
    assert len(result.pictures) == 2
    assert any("2 further pictures were dropped" in note and "5000 pixels" in note for note in result.notes)
    assert result.pictures[1].getpixel((49, 39)) == (1, 1, 1, 1)


def test_pictures_without_pixels_or_of_absurd_shape_are_notes(guest: Guest) -> None:
    code = "Image.new('L', (0, 5)).show()\nImage.new('L', (2000, 1)).show()\nplt.figure(figsize=(100, 0.1)).show()"
    result = guest.run(IMPORTS + code)
    assert result.pictures == []
    assert [note[:30] for note in result.notes] == [
        "a picture of 0x5 has no pixels",
        "a picture of 2000x1 was not re",
        "a picture of 10000x10 was not ",
    ]


def test_ten_thousand_shown_figures(guest: Guest) -> None:
    code = "import matplotlib.pyplot as plt\nf = plt.figure(figsize=(1, 1))\nfor i in range(10_000):\n    f.show()"
    result = guest.run(code)
    assert result.notes == ["9999 pictures were identical to an earlier one and left out"]
    code = "from matplotlib.figure import Figure\nimport numpy as np\nf = Figure((1, 1), 20)\nfor i in range(10_000):\n"
    result = guest.run(code + "    f.set_facecolor((i % 251 / 251, 0, 0)); f.show()")
    assert len(result.pictures) == 16
    assert "9984 further pictures were dropped: at most 16 per call" in result.notes


def test_pictures_of_child_processes_do_not_disturb(guest: Guest) -> None:
    code = """
import os
if os.fork() == 0:
    Image.new("L", (5, 5), 1).show()
    os._exit(0)
os.wait()
Image.new("L", (3, 3), 2).show()
"""
    result = guest.run(IMPORTS + code)
    assert result.sizes == [(3, 3)]
    assert result.pictures[0].getpixel((0, 0)) == 2


def test_many_open_figures_make_no_noise(guest: Guest) -> None:
    code = "for i in range(25): plt.figure(figsize=(1, 1), dpi=20)\nplt.show()\nlen(plt.get_fignums())"
    result = guest.run(IMPORTS + code)
    assert (result.stderr, result.value) == ("", "0")
    assert "9 further pictures were dropped: at most 16 per call" in result.notes
    assert len(result.pictures) == 16
