"""What can be bound, under which names, and how it travels."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from typing import Any

import numpy as np
import pytest
from PIL import Image

from saccade.errors import MediaError, SandboxError
from saccade.guest.wire import MAX_FDS
from saccade.sandbox.base import Limits, VideoFile
from saccade.sandbox.bindings import SharedImages, bound, bound_all, bound_file, image_memfd, messages
from saccade.sandbox.result import Picture


class Lazy:
    sha256 = "ab" * 32
    mode = "L"
    width = 3
    height = 2

    def decode(self) -> Image.Image:
        return Image.new("L", (3, 2), 7)


def test_each_kind_of_value() -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    values = {"a": {"x": [1, None]}, "b": Lazy(), "c": array, "d": Picture("show", "L", 2, 1, b"\x05\x06")}
    items = [bound(name, value) for name, value in values.items()]
    [(message, fds)] = messages(items, SharedImages())
    assert message["specs"] == [
        {"kind": "value", "name": "a", "value": {"x": [1, None]}},
        {"kind": "image", "name": "b", "key": Lazy.sha256, "mode": "L", "size": (3, 2), "fd": None},
        {"kind": "array", "name": "c", "shape": (2, 3), "fd": 0},
        {"kind": "image", "name": "d", "key": "", "mode": "L", "size": (2, 1), "fd": 1},
    ]
    assert [os.pread(fd, 9, 0) for fd in fds] == [bytes(range(6)), b"\x05\x06"]


def test_a_video_is_bound_by_its_path() -> None:
    items = bound_all({"v": VideoFile("./in/v.mp4")}, {"in/v.mp4": b"bytes"}, Limits())
    [(message, fds)] = messages(items, SharedImages())
    assert message["specs"][0] == {"kind": "video", "name": "v", "path": "in/v.mp4"}
    assert len(fds) == 1
    with pytest.raises(SandboxError, match="not among `files`"):
        bound_all({"v": VideoFile("v.mp4")}, {"in/v.mp4": b"bytes"}, Limits())
    with pytest.raises(SandboxError, match="below the workspace"):
        bound("v", VideoFile("../v.mp4"))


@pytest.mark.parametrize(
    ("mode", "becomes"),
    [
        *(("1", "RGB"), ("P", "RGB"), ("CMYK", "RGB"), ("I;16", "RGB"), ("LA", "RGBA"), ("PA", "RGBA")),
        *(("L", "L"), ("RGB", "RGB"), ("RGBA", "RGBA")),
    ],
)
def test_pillow_modes(mode: str, becomes: str) -> None:
    """A mode that cannot be mapped is converted; what is transparent stays so."""
    assert bound("a", Image.new(mode, (2, 2))).spec["mode"] == becomes


def test_a_colour_that_is_transparent_stays_so() -> None:
    image = Image.new("P", (2, 2))
    image.info["transparency"] = 0
    assert bound("a", image).spec["mode"] == "RGBA"


@pytest.mark.parametrize("name", ["", "1a", "a b", "class", "a.b", "__builtins__", "__name__", "a\n"])
def test_a_name_must_be_an_identifier(name: str) -> None:
    with pytest.raises(SandboxError, match="not a name"):
        bound(name, 1)


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), b"bytes", np.zeros(3), np.zeros((0, 3), np.uint8)])
def test_a_value_of_no_kind_is_refused_with_the_way_out(value: object) -> None:
    with pytest.raises(SandboxError, match="cannot be bound"):
        bound("a", value)


def test_a_session_is_opened_with_names() -> None:
    with pytest.raises(SandboxError, match=r"names and their values.* not with a str"):
        bound_all("photo.jpg", {}, Limits())  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["", ".", "/etc/passwd", "../x", "a/../../x", "a\0b"])
def test_a_file_stays_in_the_workspace(path: str) -> None:
    with pytest.raises(SandboxError, match="below the workspace"):
        bound_file(path, b"", Limits())


def test_a_file_larger_than_the_limits_is_refused() -> None:
    with pytest.raises(SandboxError, match=r"more than the limits .* \(file_bytes 4, .* \(session\.file_bytes\)"):
        bound_file("x", b"12345", Limits(file_bytes=4))


def test_files_that_do_not_fit_together_are_refused() -> None:
    limits = Limits(workspace_bytes=1 << 20)
    files = {name: bytes(400_000) for name in ("a", "b", "c")}
    with pytest.raises(SandboxError, match=r"1,200,000 bytes together: more than the workspace holds"):
        bound_all({}, files, limits)


def test_many_pictures_go_in_several_packets() -> None:
    images = {f"im_{i}": Image.new("L", (1, 1)) for i in range(MAX_FDS + 5)}
    items = bound_all(images, {"x.txt": b"x"}, Limits())
    shared = SharedImages()
    sent = list(messages(items, shared))
    assert len(sent) == 2
    assert all(len(fds) < MAX_FDS for _message, fds in sent)
    assert [spec["fd"] for message, fds in sent for spec in message["specs"]] == [
        index for _message, fds in sent for index in range(len(fds))
    ]


async def test_a_lazy_picture_goes_without_pixels_until_it_was_decoded() -> None:
    shared = SharedImages()
    lazy = Lazy()
    [(before, no_fds)] = messages([bound("a", lazy)], shared)
    assert (before["specs"][0]["fd"], no_fds) == (None, [])
    fd = await shared.get(lazy)
    [(after, fds)] = messages([bound("a", lazy)], shared)
    assert (after["specs"][0]["fd"], fds) == (0, [fd])
    shared.close()


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
    monkeypatch.setattr("saccade.sandbox.bindings._BAND", band)
    noise = Image.frombytes("RGBA", (5, 9), bytes(range(180))).convert(mode)
    fd = image_memfd(noise)
    raw = {"L": "L", "RGB": "RGBX", "RGBA": "RGBA"}[mode]
    assert os.pread(fd, 1000, 0) == noise.tobytes("raw", raw)
    os.close(fd)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a" * 256: b""}, "at most|may have 255 bytes"),
        ({"é" * 128: b""}, "may have 255 bytes"),
        ({"/".join(["d" * 200] * 20): b""}, "a path 3,800"),
        ({"a\ud800": b""}, "half a character"),
        ({"a": b"", "a/b": b""}, "'a' is given twice, or as a file and as a folder"),
        ({"a": b"", "./a": b""}, "'a' is given twice"),
        ({"a": "text"}, "are bytes, not str"),
        ({5: b""}, "a path is text"),
        ({f"{number}/x": b"" for number in range(9)}, "9 files in 9 folders are more than the workspace holds"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_a_session_starts(files: Any, words: str) -> None:
    with pytest.raises(SandboxError, match=words):
        bound_all({}, files, Limits(workspace_files=16))


def test_files_that_are_just_within_the_limits_are_taken() -> None:
    files = {"a" * 255: b"", "\u00e9" * 127: b"", "d/e": b"", "d/f\n": b"", " ": b"", **{str(n): b"" for n in range(9)}}
    assert len(bound_all({}, files, Limits(workspace_files=16))) == 14


def test_a_name_that_python_reads_otherwise_is_refused() -> None:
    with pytest.raises(SandboxError, match="is read by Python as 'x'"):
        bound("\uff58", 1)
