"""Checks: text comes back whole up to its cap, whatever the program writes, and a cut is stated."""

from __future__ import annotations

import io
import random
import threading
from textwrap import dedent

from PIL import Image

from saccade.plugins.audit.conformance.check import (
    CheckGroup,
    describe,
    expect,
    expect_equal,
    expect_output,
    opened,
    run,
)
from saccade.plugins.audit.conformance.rollback import branched
from saccade.record.execution import Status
from saccade.sandbox.base import Sandbox, Session, SessionOptions, VideoFile
from saccade.sandbox.result import Picture, RunResult

# Pictures and values bound by name arrive exactly, and lazy ones are decoded once.
IMAGES = CheckGroup("images")

HASH = "import hashlib\nprint(im.mode, im.size, hashlib.sha256(im.tobytes()).hexdigest())"


def noise(mode: str, width: int, height: int, seed: int = 0) -> Image.Image:
    """Return a picture of random bytes: any lost or moved pixel shows."""
    data = random.Random(seed).randbytes(width * height * len(mode))
    return Image.frombytes(mode, (width, height), data)


def fingerprint(image: Image.Image) -> str:
    """Return what the guest prints for the same picture."""
    import hashlib

    return f"{image.mode} {image.size} {hashlib.sha256(image.tobytes()).hexdigest()}"


class CountingImage:
    """A lazy image that counts how often it was decoded (from any thread)."""

    def __init__(self, image: Image.Image, name: str) -> None:
        import hashlib

        self.sha256 = hashlib.sha256(name.encode() + image.tobytes()).hexdigest()
        self.mode = image.mode
        self.width, self.height = image.size
        self.mode = image.mode
        self.decoded = 0
        self._image = image
        self._lock = threading.Lock()

    def decode(self) -> Image.Image:
        """Return the pixels; counts."""
        with self._lock:
            self.decoded += 1
        return self._image


@IMAGES.check
async def pillow_images_are_exact(sandbox: Sandbox) -> None:
    """A bound Pillow image has the mode, size and pixels of the original."""
    for mode, size in (
        ("RGB", (257, 131)),
        ("L", (64, 99)),
        ("RGBA", (33, 47)),
        ("RGB", (1, 1)),
        ("RGB", (1600, 1200)),
    ):
        image = noise(mode, *size)
        async with opened(sandbox, {"im": image}) as session:
            await expect_output(session, HASH, fingerprint(image))


@IMAGES.check
async def bound_images_behave_like_pillow(sandbox: Sandbox) -> None:
    """A bound image can be cropped, resized, drawn on, saved, turned into an array, copied and tested for its class."""
    async with opened(sandbox, {"im": noise("RGB", 80, 60)}) as session:
        code = """
            import numpy as np
            from PIL import Image, ImageDraw
            small = im.crop((10, 10, 30, 20)).resize((40, 20))
            ImageDraw.Draw(im).rectangle((0, 0, 5, 5), fill=(255, 0, 0))
            im.copy().save('copy.png')
            same = np.asarray(Image.open('copy.png')) == np.asarray(im)
            print(isinstance(im, Image.Image), small.size, im.getpixel((2, 2)), bool(same.all()), im.width)
        """
        await expect_output(session, code, "True (40, 20) (255, 0, 0) True 80")


@IMAGES.check
async def numpy_pictures(sandbox: Sandbox) -> None:
    """A bound uint8 array arrives as an array of the same shape and contents, and can be written to."""
    import numpy as np

    for shape in ((20, 30, 3), (20, 30), (5, 6, 4)):
        array = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
        async with opened(sandbox, {"a": array}) as session:
            code = "print(type(a).__name__, a.shape, a.dtype, int((a.astype(int) * 3 % 251).sum()))\na[0, 0] = 7"
            expected = f"ndarray {shape} uint8 {int((array.astype(int) * 3 % 251).sum())}"
            await expect_output(session, code, expected)


@IMAGES.check
async def json_values(sandbox: Sandbox) -> None:
    """JSON values arrive equal and with their types."""
    value = {"a": [1, 2.5, None, True, "ä\u2603"], "b": {"c": []}, "big": 2**70, "neg": -1e-300}
    async with opened(sandbox, {"value": value, "text": "t", "number": 3, "nothing": None}) as session:
        await expect_output(session, "print(value, text, number, nothing)", f"{value} t 3 None")


@IMAGES.check
async def lazy_image_decodes_once_for_branches(sandbox: Sandbox) -> None:
    """A lazy image is decoded once, though eight branches of the session and a second session use it."""
    image = noise("RGB", 320, 240)
    lazy = CountingImage(image, "once")
    async with opened(sandbox, {"im": lazy}) as session:
        async with branched(session, 8) as branches:
            for branch in branches:
                await expect_output(branch, HASH, fingerprint(image))
        async with opened(sandbox, {"im": lazy}) as other:
            await expect_output(other, HASH, fingerprint(image))
    expect_equal(lazy.decoded, 1, "number of decodings")


@IMAGES.check
async def lazy_image_unused_is_not_decoded(sandbox: Sandbox) -> None:
    """A lazy image that no code mentions is never decoded."""
    lazy = CountingImage(noise("RGB", 32, 32), "never")
    async with opened(sandbox, {"im": lazy}) as session:
        await run(session, "x = 1\nprint(x)")
        async with branched(session, 2) as (one, _two):
            await run(one, "y = 2")
    expect_equal(lazy.decoded, 0, "number of decodings")


@IMAGES.check
async def lazy_image_found_at_run_time(sandbox: Sandbox) -> None:
    """A lazy image is there although the code spells its name only at run time."""
    image = noise("L", 20, 10)
    async with opened(sandbox, {"picture_0": CountingImage(image, "late")}) as session:
        await expect_output(session, "im = globals()['picture_' + str(0)]\n" + HASH, fingerprint(image))


@IMAGES.check
async def lazy_image_that_fails(sandbox: Sandbox) -> None:
    """A lazy image that cannot be decoded does not hang the session, which can be used afterwards."""
    from saccade.errors import DecodeError, SaccadeError

    class Broken(CountingImage):
        def decode(self) -> Image.Image:
            raise DecodeError("the file is truncated; use another one")

    try:
        async with opened(sandbox, {"im": Broken(noise("L", 4, 4), "broken")}) as session:
            result = await session.run("print(im.size, im.getpixel((0, 0)))")
            expect(not result.ok, "a picture that cannot be decoded was used without a word")
    except SaccadeError:
        pass
    async with opened(sandbox) as session:
        await expect_output(session, "print(1)", "1")


@IMAGES.check
async def shown_picture_bound_again(sandbox: Sandbox) -> None:
    """A picture of an earlier result is bound by `bind` and arrives with the same pixels."""
    async with opened(sandbox, {"im": noise("RGB", 60, 50)}) as session:
        shown = await run(session, "part = im.crop((5, 5, 25, 15))\npart.show()")
        expect_equal(len(shown.pictures), 1, "number of pictures")
        session.bind({"observed": shown.pictures[0]})
        await expect_output(session, "print(observed.size, observed.tobytes() == part.tobytes())", "(20, 10) True")


@IMAGES.session()
async def bind_survives_a_failed_call(session: Session) -> None:
    """Names bound between calls are there in the next call and stay there when that call fails."""
    session.bind({"a": 1, "im": noise("L", 8, 8)})
    await run(session, "print(a)\na = 5\nim = None\n1 / 0", Status.ERROR)
    await expect_output(session, "print(a, im.size)", "1 (8, 8)")
    session.bind({"a": 2})
    await expect_output(session, "print(a)", "2")
    async with branched(session, 1) as (branch,):
        await expect_output(branch, "print(a, im.size)", "2 (8, 8)")


@IMAGES.check
async def bind_is_private(sandbox: Sandbox) -> None:
    """A change to a bound picture is seen neither by another session nor by the host's original."""
    image = noise("RGB", 40, 40)
    before = image.tobytes()
    lazy = CountingImage(image, "private")
    async with opened(sandbox, {"im": lazy, "own": image}) as one, opened(sandbox, {"im": lazy, "own": image}) as two:
        await run(one, "im.paste((0, 0, 0), (0, 0, 40, 40))\nown.paste((0, 0, 0), (0, 0, 40, 40))")
        await expect_output(two, HASH, fingerprint(image))
    expect_equal(image.tobytes(), before, "pixels of the host's picture")


@IMAGES.check
async def many_images(sandbox: Sandbox) -> None:
    """Sixty pictures are bound at once, each with its own pixels."""
    images = {f"im_{i}": noise("RGB", 30 + i, 20, seed=i) for i in range(60)}
    async with opened(sandbox, images) as session:
        code = "print(all(globals()[f'im_{i}'].size == (30 + i, 20) for i in range(60)), sum(im_59.tobytes()))"
        await expect_output(session, code, f"True {sum(images['im_59'].tobytes())}")


# Every way of showing a picture is captured, in order, each picture once, with its pixels.
CAPTURES = CheckGroup("captures")

IMPORTS = """
import numpy as np
import matplotlib.pyplot as plt
from PIL import Image
def flat(color, size=(12, 8)):
    return Image.new('RGB', size, color)
"""


def sources(result: RunResult) -> list[str]:
    """Return how each picture was shown."""
    return [picture.source for picture in result.pictures]


def first_pixel(picture: Picture) -> tuple[int, ...]:
    """Return the pixel at the top left."""
    return tuple(picture.data[: len(picture.mode)])


@CAPTURES.check
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


@CAPTURES.session()
async def figures_in_a_loop(session: Session) -> None:
    """A figure shown in each round of a loop gives one picture per round, in order."""
    code = """
        for color in ('#ff0000', '#00ff00', '#0000ff'):
            plt.figure(figsize=(1, 1), dpi=20, facecolor=color)
            plt.show()
    """
    result = await run(session, IMPORTS + dedent(code))
    expect_equal([first_pixel(p)[:3] for p in result.pictures], [(255, 0, 0), (0, 255, 0), (0, 0, 255)], "colours")


@CAPTURES.session()
async def several_figures_open(session: Session) -> None:
    """One `plt.show()` shows every open figure, and a second one does not show them again."""
    code = "a = plt.figure(figsize=(1, 1), dpi=20)\nb = plt.figure(figsize=(2, 1), dpi=20)\nplt.show()\nplt.show()"
    result = await run(session, IMPORTS + code)
    expect_equal([p.width for p in result.pictures], [20, 40], "widths of the figures")
    again = await run(session, "plt.show()")
    expect_equal(len(again.pictures), 0, "pictures of a later plt.show() without figures")


@CAPTURES.check
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


@CAPTURES.session()
async def display_forms(session: Session) -> None:
    """`display(...)` takes pictures, figures and several things at once, and prints anything else."""
    code = IMPORTS + (
        "display(flat('red'), flat('blue'))\nfig = plt.figure(figsize=(1, 1), dpi=20)\ndisplay(fig)\ndisplay({'a': 1})"
    )
    result = await run(session, code)
    expect_equal(len(result.pictures), 3, f"number of pictures ({describe(result)})")
    expect_equal(first_pixel(result.pictures[1])[:3], (0, 0, 255), "colour of the second picture")
    expect("{'a': 1}" in result.stdout, f"display of a value was not printed: {describe(result)}")


@CAPTURES.session()
async def ipython_display(session: Session) -> None:
    """`from IPython.display import display`, which models write, gives the picture too."""
    result = await run(session, IMPORTS + "from IPython.display import display\ndisplay(flat('red'))")
    expect_equal(len(result.pictures), 1, "number of pictures")


@CAPTURES.session()
async def opencv_imshow(session: Session) -> None:
    """`cv2.imshow` gives the picture, with blue-green-red turned into red-green-blue."""
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


@CAPTURES.session()
async def last_expression(session: Session) -> None:
    """A last expression gives its `repr`; if it is a picture, the picture; a statement gives nothing."""
    expect_equal((await run(session, "x = [1, 2]\nx")).value, "[1, 2]", "value")
    expect_equal((await run(session, "x = 3")).value, None, "value of a statement")
    expect_equal((await run(session, "None")).value, None, "value of None")
    result = await run(session, IMPORTS + "flat('green')")
    expect_equal(sources(result), ["value"], "pictures")


@CAPTURES.session(files={"old.png": b"not new"})
async def image_files(session: Session) -> None:
    """An image file written to the workspace is a picture with its path; every new file is listed with its size."""
    code = "import os\nos.makedirs('out')\nflat('red').save('out/a.png')\nopen('notes.txt', 'w').write('12345')"
    result = await run(session, IMPORTS + code)
    expect_equal([(p.source, p.path) for p in result.pictures], [("file", "out/a.png")], "pictures")
    expect_equal(first_pixel(result.pictures[0])[:3], (255, 0, 0), "colour")
    files = {file.path: file.size for file in result.files}
    expect_equal(files.get("notes.txt"), 5, f"size of the new text file in {files}")
    expect("out/a.png" in files and "old.png" not in files, f"files listed: {files}")
    expect_equal((await run(session, "1")).files, (), "files of a call that wrote none")


@CAPTURES.session()
async def broken_image_file(session: Session) -> None:
    """A file that only claims to be an image (or is a bomb) is no picture and no failure of the call."""
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


@CAPTURES.session()
async def order_and_no_doubles(session: Session) -> None:
    """Pictures come in the order in which they were shown, and a picture shown twice comes once."""
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


@CAPTURES.session()
async def shown_before_a_failure(session: Session) -> None:
    """Text and pictures from before an exception come back with it."""
    result = await run(session, IMPORTS + "print('seen')\nflat('red').show()\n1 / 0", Status.ERROR)
    expect("seen" in result.stdout, f"the text before the exception is gone: {describe(result)}")
    expect_equal(len(result.pictures), 1, "number of pictures before the exception")


@CAPTURES.session()
async def picture_shown_then_changed(session: Session) -> None:
    """A picture has the pixels of the moment in which it was shown."""
    result = await run(session, IMPORTS + "im = flat('red')\nim.show()\nim.paste('blue', (0, 0, 12, 8))")
    expect_equal(first_pixel(result.pictures[0])[:3], (255, 0, 0), "colour")


OUTPUT = CheckGroup("output")

SLACK = 512
"""Bytes by which a text may exceed its cap, for the sentence that states the cut."""


@OUTPUT.session()
async def stdout_and_stderr(session: Session) -> None:
    """stdout and stderr come back apart, from print, from `sys.stdout.write` and from the file descriptors."""
    code = (
        "import os, sys\n"
        "print('a')\n"
        "sys.stdout.write('b\\n"
        "')\n"
        "sys.stdout.flush()\n"
        "os.write(1, b'c\\n"
        "')\n"
        "print('d', file=sys.stderr)\n"
        "os.write(2, b'e\\n"
        "')"
    )
    result = await run(session, code)
    expect_equal(result.stdout.split(), ["a", "b", "c"], "stdout")
    expect_equal(result.stderr.split(), ["d", "e"], "stderr")


@OUTPUT.session()
async def every_call_has_its_own_output(session: Session) -> None:
    """Output of one call (unflushed text included) is not seen in the next one, nor after a rollback."""
    expect_equal((await run(session, "import sys\n_ = sys.stdout.write('one')")).stdout, "one", "stdout")
    await run(session, "_ = sys.stdout.write('lost')\n1 / 0", Status.ERROR)
    expect_equal((await run(session, "print('two')")).stdout.strip(), "two", "stdout of the next call")


@OUTPUT.session()
async def partial_output_of_a_timeout(session: Session) -> None:
    """Text that a call printed before it ran out of time comes back, flushed or not."""
    result = await run(session, "print('so far')\nwhile True: pass", Status.TIMEOUT, wall_seconds=0.5)
    expect("so far" in result.stdout, f"the text before the time-out is gone: {describe(result)}")


@OUTPUT.session()
async def unicode_text(session: Session) -> None:
    """Text of any language comes back; lone surrogates and bytes that are no text cannot break the call."""
    text = "ä € \u2603 \U0001f600 \u202e"
    expect_equal((await run(session, f"print({text!r})")).stdout.rstrip("\n"), text, "stdout")
    result = await run(session, r"print('a\ud800b')" + "\nimport os\nos.write(1, b'\\xff\\xfe\\x00z')\n'\\udfff'")
    expect("a" in result.stdout and "z" in result.stdout, f"odd text broke the output: {describe(result)}")
    (result.stdout + (result.value or "")).encode("utf-8")
    result = await run(session, "class Odd:\n    def __repr__(self): return 'odd \\ud800'\nOdd()")
    expect("odd" in (result.value or ""), f"half a letter lost a value: {describe(result)}")
    result = await run(session, r"raise ValueError('odd \ud800')", Status.ERROR)
    expect("odd" in (result.traceback or ""), f"half a letter lost an error: {describe(result)}")


@OUTPUT.check
async def text_is_capped(sandbox: Sandbox) -> None:
    """Text over the cap is cut, its beginning is kept, and a note says that it was cut."""
    cap = sandbox.limits.output_bytes
    async with opened(sandbox) as session:
        for stream in ("stdout", "stderr"):
            result = await run(session, f"import sys\nprint('start' + 'x' * {3 * cap}, file=sys.{stream})")
            text = getattr(result, stream)
            expect(text.startswith("start"), f"the beginning of {stream} is gone")
            expect(len(text.encode()) <= cap + SLACK, f"{len(text)} characters of {stream} came back, the cap is {cap}")
            expect(bool(result.notes), f"no note says that {stream} was cut")


@OUTPUT.check
async def value_is_capped(sandbox: Sandbox) -> None:
    """A huge last expression and a huge error message are cut as well."""
    cap = sandbox.limits.output_bytes
    async with opened(sandbox) as session:
        result = await run(session, f"'x' * {4 * cap}")
        expect(
            len((result.value or "").encode()) <= cap + SLACK,
            f"a value of {len(result.value or '')} characters came back",
        )
        result = await run(session, f"raise ValueError('y' * {4 * cap})", Status.ERROR)
        length = len((result.traceback or "").encode())
        expect(0 < length <= cap + SLACK, f"a traceback of {length} bytes came back, the cap is {cap}")


@OUTPUT.check
async def flood(sandbox: Sandbox) -> None:
    """A flood of a gigabyte is cut, harms nobody, and the session continues."""
    cap = sandbox.limits.output_bytes
    async with opened(sandbox) as session:
        code = "import os\nblock = b'x' * (1 << 20)\nfor _ in range(1024):\n    os.write(1, block)"
        result = await session.run(code)
        expect(result.status in (Status.OK, Status.ERROR, Status.KILLED, Status.TIMEOUT), describe(result)[:500])
        expect(len(result.stdout) <= cap + SLACK, f"{len(result.stdout)} characters came back, the cap is {cap}")
        await expect_output(session, "print(1)", "1")


@OUTPUT.check
async def picture_count_is_capped(sandbox: Sandbox) -> None:
    """Pictures over the cap are dropped, the first ones are kept, and a note says so."""
    cap = sandbox.limits.pictures
    async with opened(sandbox) as session:
        result = await run(session, IMPORTS + f"for i in range({cap + 5}):\n    flat((i, i, i)).show()")
        expect_equal([p.data[0] for p in result.pictures], list(range(cap)), "the pictures that were kept")
        expect(bool(result.notes), "no note says that pictures were dropped")


@OUTPUT.check
async def picture_size_is_capped(sandbox: Sandbox) -> None:
    """A picture with too many pixels is scaled down to the cap, its shape kept, and a note says so."""
    cap = sandbox.limits.picture_pixels
    async with opened(sandbox) as session:
        width = 2 * int(cap**0.5)
        result = await run(session, IMPORTS + f"Image.new('L', ({width}, {width})).show()")
        expect_equal(len(result.pictures), 1, f"number of pictures ({describe(result)})")
        picture = result.pictures[0]
        expect(
            picture.width * picture.height <= cap,
            f"{picture.width}x{picture.height} came back, the cap is {cap} pixels",
        )
        expect(abs(picture.width - picture.height) <= 2, "the shape was not kept")
        expect(bool(result.notes), "no note says that the picture was scaled")


@OUTPUT.check
async def total_pixels_are_capped(sandbox: Sandbox) -> None:
    """The pixels of all pictures of a call together stay within the cap."""
    limits = sandbox.limits
    async with opened(sandbox) as session:
        side = int(limits.picture_pixels**0.5)
        result = await run(
            session, IMPORTS + f"for i in range({limits.pictures}):\n    Image.new('L', ({side}, {side}), i).show()"
        )
        total = sum(p.width * p.height for p in result.pictures)
        expect(total <= limits.total_pixels, f"{total} pixels came back, the cap is {limits.total_pixels}")
        expect(len(result.pictures) >= 1, "no picture came back")


@OUTPUT.session()
async def replaced_stdout(session: Session) -> None:
    """A program that closes or replaces stdout does not break the next call."""
    await session.run("import sys, os\nsys.stdout.close()")
    await expect_output(session, "print(1)", "1")
    await session.run("import sys, io\nsys.stdout = io.StringIO()\nsys.stderr = None\nsys.displayhook = None")
    await expect_output(session, "print(2)", "2")
    await session.run("import os\nos.close(1)\nos.close(2)")
    await expect_output(session, "print(3)", "3")


@OUTPUT.session()
async def standard_input_is_empty(session: Session) -> None:
    """`input()` does not wait for ever: it ends the call with an error."""
    await run(session, "x = input('name? ')", Status.ERROR, wall_seconds=3)


@OUTPUT.session(options=SessionOptions(last_expression=False))
async def last_expression_off(session: Session) -> None:
    """With `last_expression=False` no value is reported."""
    result = await run(session, "5")
    expect_equal(result.value, None, "value")


# A video bound by name is a reader of its frames, exact, lazy, and at home in calls that fail and branches.
#
# The videos are animated GIFs, which a provider can decode without PyAV.
VIDEOS = CheckGroup("videos")

LEVELS = tuple(range(0, 240, 20))
"""Grey level of each frame."""
_ALL = str(list(LEVELS))
_READ = "print([int(v[i][3, 5, 1]) for i in range(len(v))])"


def animation() -> bytes:
    """Return a GIF of one grey level after the other, 10 a second."""
    target = io.BytesIO()
    first, *rest = (Image.new("L", (24, 16), level) for level in LEVELS)
    first.save(target, "GIF", save_all=True, append_images=rest, duration=100)
    return target.getvalue()


@VIDEOS.check
async def frames_by_number(sandbox: Sandbox) -> None:
    """A bound video has a length, a rate and exact frames, which are numpy arrays with `asnumpy`."""
    async with opened(sandbox, {"v": VideoFile("in/v.gif")}, files={"in/v.gif": animation()}) as session:
        await expect_output(session, _READ, _ALL)
        code = (
            "print(len(v), v.get_avg_fps(), v[-1].asnumpy().shape, v.get_batch([3, 0]).asnumpy()[:, 0, 0, 0].tolist())"
        )
        await expect_output(session, code, f"{len(LEVELS)} 10.0 (16, 24, 3) [60, 0]")


@VIDEOS.check
async def the_library_that_programs_know(sandbox: Sandbox) -> None:
    """`decord` can be imported, and its reader opens the file by its path."""
    files = {"v.gif": animation()}
    async with opened(sandbox, files=files, options=SessionOptions(preload=("VideoReader", "cpu"))) as session:
        await expect_output(session, "v = VideoReader('v.gif', ctx=cpu(0))\n" + _READ, _ALL)
        code = "import decord\nfrom decord import VideoReader, cpu, gpu\nv = decord.VideoReader('v.gif')\n"
        await expect_output(session, code + _READ, _ALL)


@VIDEOS.check
async def survives_a_failed_call(sandbox: Sandbox) -> None:
    """A reader that was used, and whose file was overwritten, in a call that failed works on."""
    async with opened(sandbox, {"v": VideoFile("v.gif")}, files={"v.gif": animation()}) as session:
        await run(session, "first = v[0]\nopen('v.gif', 'w').write('x')\n1 / 0", Status.ERROR)
        await expect_output(session, _READ, _ALL)
        await run(session, "x = v[4]\nopen('v.gif', 'w').write('x')\n1 / 0", Status.ERROR)
        await expect_output(session, "print(v[11][0, 0].tolist(), v[1][0, 0].tolist())", "[220, 220, 220] [20, 20, 20]")


@VIDEOS.check
async def works_in_branches(sandbox: Sandbox) -> None:
    """Branches of a session that has used the reader read on by themselves, each its own file."""
    async with opened(sandbox, {"v": VideoFile("v.gif")}, files={"v.gif": animation()}) as session:
        await run(session, "x = v[4]")
        async with branched(session, 2) as (one, two):
            await run(one, "import os\nos.remove('v.gif')")
            await expect_output(two, _READ, _ALL)
        await expect_output(session, _READ, _ALL)


@VIDEOS.check
async def broken_video(sandbox: Sandbox) -> None:
    """A file that is no video is an error that says so, when it is used and not before."""
    async with opened(sandbox, {"v": VideoFile("v.gif")}, files={"v.gif": b"GIF89a and no more"}) as session:
        await expect_output(session, "print('v' in globals())", "True")
        result = await run(session, "v[0]", Status.ERROR)
        expect("broken" in (result.traceback or ""), f"the error does not say what is wrong: {result.traceback!r}")
