"""Decoded pictures in shared memory: once each, within a budget, and exactly as they were stated."""

import asyncio
import hashlib
import os
import threading

import pytest
from PIL import Image

from saccade.errors import MediaError, SandboxError
from saccade.sandbox.shared_images import SharedImages, image_memfd


class Counting:
    def __init__(self, name: str, mode: str = "RGB", size: tuple[int, int] = (10, 10)) -> None:
        self.sha256 = hashlib.sha256(name.encode()).hexdigest()
        self.mode = mode
        self.width, self.height = size
        self.decoded = 0
        self.gate = threading.Event()
        self.gate.set()

    def decode(self) -> Image.Image:
        self.gate.wait(10)
        self.decoded += 1
        return Image.new("RGB", (10, 10), (1, 2, 3))


async def test_many_askers_one_decode() -> None:
    shared, image = SharedImages(), Counting("a")
    image.gate.clear()
    asking = [asyncio.create_task(shared.get(image)) for _ in range(8)]
    await asyncio.sleep(0.01)
    asking[0].cancel()
    image.gate.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert (len(set(results[1:])), image.decoded) == (1, 1)
    assert os.pread(await shared.get(image), 4, 0)[:3] == bytes((1, 2, 3))
    shared.close()


async def test_the_least_recently_used_goes_first() -> None:
    shared = SharedImages(max_bytes=900)  # two pictures of 400 bytes each
    first, second, third = Counting("1"), Counting("2"), Counting("3")
    await shared.get(first)
    await shared.get(second)
    await shared.get(first)
    await shared.get(third)
    assert shared.have(second.sha256) is None
    assert shared.have(first.sha256) is not None
    await shared.get(second)
    assert (first.decoded, second.decoded) == (1, 2)
    shared.close()


@pytest.mark.parametrize("image", [Counting("a", mode="L"), Counting("b", size=(10, 11))])
async def test_a_picture_that_is_not_as_stated_is_an_error(image: Counting) -> None:
    shared = SharedImages()
    with pytest.raises(MediaError, match="but bound as"):
        await shared.get(image)
    assert shared.have(image.sha256) is None


def test_a_mode_that_cannot_be_mapped() -> None:
    with pytest.raises(SandboxError, match="cannot be bound: modes are L, RGB, RGBA"):
        image_memfd(Image.new("CMYK", (1, 1)))


@pytest.mark.parametrize("band", [1, 7, 10, 14, 1 << 22])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_bands_are_the_whole_picture(mode: str, band: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.sandbox.shared_images._BAND", band)
    noise = Image.frombytes("RGBA", (5, 9), bytes(range(180))).convert(mode)
    fd = image_memfd(noise)
    raw = {"L": "L", "RGB": "RGBX", "RGBA": "RGBA"}[mode]
    assert os.pread(fd, 1000, 0) == noise.tobytes("raw", raw)
    os.close(fd)
