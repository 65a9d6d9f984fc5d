"""Checks: pictures and values bound by name arrive exactly, and lazy ones are decoded once."""

from __future__ import annotations

import random
import threading

from PIL import Image

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox
from saccade.sandbox.conformance.branches import branched
from saccade.sandbox.conformance.check import CheckGroup, expect, expect_equal, expect_output, opened, run

GROUP = CheckGroup("images")

HASH = "import hashlib\nprint(im.mode, im.size, hashlib.sha256(im.tobytes()).hexdigest())"


def noise(mode: str, width: int, height: int, seed: int = 0) -> Image.Image:
    """A picture of random bytes: any lost or moved pixel shows."""
    data = random.Random(seed).randbytes(width * height * len(mode))
    return Image.frombytes(mode, (width, height), data)


def fingerprint(image: Image.Image) -> str:
    """What the guest prints for the same picture."""
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
        """The pixels; counts."""
        with self._lock:
            self.decoded += 1
        return self._image


@GROUP.check
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


@GROUP.check
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


@GROUP.check
async def numpy_pictures(sandbox: Sandbox) -> None:
    """A bound uint8 array arrives as an array of the same shape and contents, and can be written to."""
    import numpy as np

    for shape in ((20, 30, 3), (20, 30), (5, 6, 4)):
        array = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
        async with opened(sandbox, {"a": array}) as session:
            code = "print(type(a).__name__, a.shape, a.dtype, int((a.astype(int) * 3 % 251).sum()))\na[0, 0] = 7"
            expected = f"ndarray {shape} uint8 {int((array.astype(int) * 3 % 251).sum())}"
            await expect_output(session, code, expected)


@GROUP.check
async def json_values(sandbox: Sandbox) -> None:
    """JSON values arrive equal and with their types."""
    value = {"a": [1, 2.5, None, True, "ä\u2603"], "b": {"c": []}, "big": 2**70, "neg": -1e-300}
    async with opened(sandbox, {"value": value, "text": "t", "number": 3, "nothing": None}) as session:
        await expect_output(session, "print(value, text, number, nothing)", f"{value} t 3 None")


@GROUP.check
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


@GROUP.check
async def lazy_image_unused_is_not_decoded(sandbox: Sandbox) -> None:
    """A lazy image that no code mentions is never decoded."""
    lazy = CountingImage(noise("RGB", 32, 32), "never")
    async with opened(sandbox, {"im": lazy}) as session:
        await run(session, "x = 1\nprint(x)")
        async with branched(session, 2) as (one, _two):
            await run(one, "y = 2")
    expect_equal(lazy.decoded, 0, "number of decodings")


@GROUP.check
async def lazy_image_found_at_run_time(sandbox: Sandbox) -> None:
    """A lazy image is there although the code spells its name only at run time."""
    image = noise("L", 20, 10)
    async with opened(sandbox, {"picture_0": CountingImage(image, "late")}) as session:
        await expect_output(session, "im = globals()['picture_' + str(0)]\n" + HASH, fingerprint(image))


@GROUP.check
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


@GROUP.check
async def shown_picture_bound_again(sandbox: Sandbox) -> None:
    """A picture of an earlier result is bound by `bind` and arrives with the same pixels."""
    async with opened(sandbox, {"im": noise("RGB", 60, 50)}) as session:
        shown = await run(session, "part = im.crop((5, 5, 25, 15))\npart.show()")
        expect_equal(len(shown.pictures), 1, "number of pictures")
        session.bind({"observed": shown.pictures[0]})
        await expect_output(session, "print(observed.size, observed.tobytes() == part.tobytes())", "(20, 10) True")


@GROUP.check
async def bind_survives_a_failed_call(sandbox: Sandbox) -> None:
    """Names bound between calls are there in the next call and stay there when that call fails."""
    async with opened(sandbox) as session:
        session.bind({"a": 1, "im": noise("L", 8, 8)})
        await run(session, "print(a)\na = 5\nim = None\n1 / 0", Status.ERROR)
        await expect_output(session, "print(a, im.size)", "1 (8, 8)")
        session.bind({"a": 2})
        await expect_output(session, "print(a)", "2")
        async with branched(session, 1) as (branch,):
            await expect_output(branch, "print(a, im.size)", "2 (8, 8)")


@GROUP.check
async def bind_is_private(sandbox: Sandbox) -> None:
    """What a session does to a bound picture is seen neither by another session nor by the host's original."""
    image = noise("RGB", 40, 40)
    before = image.tobytes()
    lazy = CountingImage(image, "private")
    async with opened(sandbox, {"im": lazy, "own": image}) as one, opened(sandbox, {"im": lazy, "own": image}) as two:
        await run(one, "im.paste((0, 0, 0), (0, 0, 40, 40))\nown.paste((0, 0, 0), (0, 0, 40, 40))")
        await expect_output(two, HASH, fingerprint(image))
    expect_equal(image.tobytes(), before, "pixels of the host's picture")


@GROUP.check
async def many_images(sandbox: Sandbox) -> None:
    """Sixty pictures are bound at once, each with its own pixels."""
    images = {f"im_{i}": noise("RGB", 30 + i, 20, seed=i) for i in range(60)}
    async with opened(sandbox, images) as session:
        code = "print(all(globals()[f'im_{i}'].size == (30 + i, 20) for i in range(60)), sum(im_59.tobytes()))"
        await expect_output(session, code, f"True {sum(images['im_59'].tobytes())}")
