"""Checks: every way of showing a picture is captured, in order, each picture once, with its pixels."""

from __future__ import annotations

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox
from saccade.sandbox.conformance.check import CheckGroup, describe, expect, expect_equal, opened, run
from saccade.sandbox.conformance.images import noise
from saccade.sandbox.result import Picture, RunResult

GROUP = CheckGroup("captures")

IMPORTS = """
import numpy as np
import matplotlib.pyplot as plt
from PIL import Image
def flat(color, size=(12, 8)):
    return Image.new('RGB', size, color)
"""


def sources(result: RunResult) -> list[str]:
    """How each picture was shown."""
    return [picture.source for picture in result.pictures]


def first_pixel(picture: Picture) -> tuple[int, ...]:
    """The pixel at the top left."""
    return tuple(picture.data[: len(picture.mode)])


@GROUP.check
async def pyplot_show_forms(sandbox: Sandbox) -> None:
    """`plt.show()`, `plt.show(block=False)`, `fig.show()` and `plt.draw` with `plt.show` each give one figure."""
    for ending in (
        "plt.show()",
        "plt.show(block=False)",
        "plt.gcf().show()",
        "plt.draw(); plt.pause(0.01); plt.show()",
    ):
        async with opened(sandbox) as session:
            result = await run(session, IMPORTS + f"plt.figure(figsize=(2, 1), dpi=50)\nplt.plot([1, 2])\n{ending}")
            expect_equal(sources(result), ["figure"], f"pictures after {ending}")
            picture = result.pictures[0]
            expect_equal(len(picture.data), picture.width * picture.height * len(picture.mode), "bytes of the picture")
            expect_equal((picture.width, picture.height), (100, 50), "size of the figure")


@GROUP.check
async def figures_in_a_loop(sandbox: Sandbox) -> None:
    """A figure shown in each round of a loop gives one picture per round, in order."""
    async with opened(sandbox) as session:
        code = """
            for color in ('#ff0000', '#00ff00', '#0000ff'):
                plt.figure(figsize=(1, 1), dpi=20, facecolor=color)
                plt.show()
        """
        result = await run(session, IMPORTS + "\n".join(line[12:] for line in code.split("\n")))
        expect_equal([first_pixel(p)[:3] for p in result.pictures], [(255, 0, 0), (0, 255, 0), (0, 0, 255)], "colours")


@GROUP.check
async def several_figures_open(sandbox: Sandbox) -> None:
    """One `plt.show()` shows every open figure, and a second one does not show them again."""
    async with opened(sandbox) as session:
        code = "a = plt.figure(figsize=(1, 1), dpi=20)\nb = plt.figure(figsize=(2, 1), dpi=20)\nplt.show()\nplt.show()"
        result = await run(session, IMPORTS + code)
        expect_equal([p.width for p in result.pictures], [20, 40], "widths of the figures")
        again = await run(session, "plt.show()")
        expect_equal(len(again.pictures), 0, "pictures of a later plt.show() without figures")


@GROUP.check
async def pillow_show(sandbox: Sandbox) -> None:
    """`Image.show()` gives the picture with exact pixels, for the usual modes."""
    image = noise("RGB", 50, 40)
    async with opened(sandbox, {"im": image}) as session:
        result = await run(session, "im.show()")
        expect_equal(sources(result), ["show"], "pictures")
        expect_equal(result.pictures[0].data, image.tobytes(), "pixels")
        result = await run(
            session,
            (
                "from PIL import Image\n"
                "for m in ('L', 'RGBA', '1', 'P', 'CMYK', 'I;16', 'F'):\n"
                "    Image.new(m, (4, 3)).show(title=m)"
            ),
        )
        expect_equal(len({p.mode for p in result.pictures} - {"L", "RGB", "RGBA"}), 0, "number of other modes")
        expect(len(result.pictures) >= 1, f"no picture came back: {describe(result)}")


@GROUP.check
async def display_forms(sandbox: Sandbox) -> None:
    """`display(...)` takes pictures, figures and several things at once, and prints anything else."""
    async with opened(sandbox) as session:
        code = IMPORTS + (
            "display(flat('red'), flat('blue'))\n"
            "fig = plt.figure(figsize=(1, 1), dpi=20)\n"
            "display(fig)\n"
            "display({'a': 1})"
        )
        result = await run(session, code)
        expect_equal(len(result.pictures), 3, f"number of pictures ({describe(result)})")
        expect_equal(first_pixel(result.pictures[1])[:3], (0, 0, 255), "colour of the second picture")
        expect("{'a': 1}" in result.stdout, f"display of a value was not printed: {describe(result)}")


@GROUP.check
async def ipython_display(sandbox: Sandbox) -> None:
    """`from IPython.display import display`, which models write, gives the picture too."""
    async with opened(sandbox) as session:
        result = await run(session, IMPORTS + "from IPython.display import display\ndisplay(flat('red'))")
        expect_equal(len(result.pictures), 1, "number of pictures")


@GROUP.check
async def opencv_imshow(sandbox: Sandbox) -> None:
    """`cv2.imshow` gives the picture, with blue-green-red turned into red-green-blue."""
    async with opened(sandbox) as session:
        code = (
            "import cv2\n"
            "a = np.zeros((6, 9, 3), np.uint8)\n"
            "a[:] = (255, 0, 0)\n"
            "cv2.imshow('w', a)\n"
            "cv2.waitKey(0)\n"
            "cv2.destroyAllWindows()"
        )
        result = await run(session, IMPORTS + code)
        expect_equal(len(result.pictures), 1, f"number of pictures ({describe(result)})")
        expect_equal(first_pixel(result.pictures[0])[:3], (0, 0, 255), "colour")


@GROUP.check
async def last_expression(sandbox: Sandbox) -> None:
    """A last expression gives its `repr`; if it is a picture, the picture; a statement gives nothing."""
    async with opened(sandbox) as session:
        expect_equal((await run(session, "x = [1, 2]\nx")).value, "[1, 2]", "value")
        expect_equal((await run(session, "x = 3")).value, None, "value of a statement")
        expect_equal((await run(session, "None")).value, None, "value of None")
        result = await run(session, IMPORTS + "flat('green')")
        expect_equal(sources(result), ["value"], "pictures")


@GROUP.check
async def image_files(sandbox: Sandbox) -> None:
    """An image file written to the workspace is a picture with its path; every new file is listed with its size."""
    async with opened(sandbox, files={"old.png": b"not new"}) as session:
        code = "import os\nos.makedirs('out')\nflat('red').save('out/a.png')\nopen('notes.txt', 'w').write('12345')"
        result = await run(session, IMPORTS + code)
        expect_equal([(p.source, p.path) for p in result.pictures], [("file", "out/a.png")], "pictures")
        expect_equal(first_pixel(result.pictures[0])[:3], (255, 0, 0), "colour")
        files = {file.path: file.size for file in result.files}
        expect_equal(files.get("notes.txt"), 5, f"size of the new text file in {files}")
        expect("out/a.png" in files and "old.png" not in files, f"files listed: {files}")
        expect_equal((await run(session, "1")).files, (), "files of a call that wrote none")


@GROUP.check
async def broken_image_file(sandbox: Sandbox) -> None:
    """A file that only claims to be an image (or is a bomb) is no picture and no failure of the call."""
    async with opened(sandbox) as session:
        code = """
            import struct, zlib
            def chunk(kind, data):
                return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
            header = struct.pack('>IIBBBBB', 100000, 100000, 8, 2, 0, 0, 0)
            magic = bytes([137]) + b"PNG" + bytes([13, 10, 26, 10])
            _ = open("bomb.png", "wb").write(magic + chunk(b'IHDR', header))
            _ = open('junk.jpg', 'wb').write(b'not a jpeg')
            """
        result = await run(session, code)
        expect_equal(len(result.pictures), 0, "number of pictures")


@GROUP.check
async def order_and_no_doubles(sandbox: Sandbox) -> None:
    """Pictures come in the order in which they were shown, and a picture shown twice comes once."""
    async with opened(sandbox) as session:
        code = (
            "flat('red').show()\n"
            "plt.figure(figsize=(1, 1), dpi=20, facecolor='lime')\n"
            "plt.show()\n"
            "im = flat('blue')\n"
            "display(im)\n"
            "im"
        )
        result = await run(session, IMPORTS + code)
        colours = [first_pixel(p)[:3] for p in result.pictures]
        expect_equal(colours, [(255, 0, 0), (0, 255, 0), (0, 0, 255)], "colours in order")


@GROUP.check
async def shown_before_a_failure(sandbox: Sandbox) -> None:
    """What was printed and shown before an exception comes back with it."""
    async with opened(sandbox) as session:
        result = await run(session, IMPORTS + "print('seen')\nflat('red').show()\n1 / 0", Status.ERROR)
        expect("seen" in result.stdout, f"the text before the exception is gone: {describe(result)}")
        expect_equal(len(result.pictures), 1, "number of pictures before the exception")


@GROUP.check
async def picture_shown_then_changed(sandbox: Sandbox) -> None:
    """A picture has the pixels of the moment in which it was shown."""
    async with opened(sandbox) as session:
        result = await run(session, IMPORTS + "im = flat('red')\nim.show()\nim.paste('blue', (0, 0, 12, 8))")
        expect_equal(first_pixel(result.pictures[0])[:3], (255, 0, 0), "colour")
