"""Pictures and arrays in shared memory, and pictures whose pixels come when they are first touched."""

import copy
import os
import pickle
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from saccade.guest import images, wire
from saccade.guest.images import SharedImage, bind, map_array, map_image
from saccade.guest.wire import RAW_MODES, sealed_memfd


def picture(mode: str) -> Image.Image:
    data = np.random.default_rng(1).integers(0, 256, 30 * 20 * len(mode), np.uint8).tobytes()
    return Image.frombytes(mode, (30, 20), data)


def memfd(image: Image.Image) -> int:
    return sealed_memfd("test", image.tobytes("raw", RAW_MODES[image.mode]))


@pytest.fixture(params=["L", "RGB", "RGBA"])
def mapped(request: pytest.FixtureRequest) -> tuple[Image.Image, Image.Image]:
    original = picture(request.param)
    fd = memfd(original)
    image = map_image(original.mode, original.size, fd)
    os.close(fd)
    return original, image


def test_a_mapped_picture_is_the_picture(mapped: tuple[Image.Image, Image.Image]) -> None:
    original, image = mapped
    assert (image.mode, image.size, image.tobytes()) == (original.mode, original.size, original.tobytes())
    assert (np.asarray(image) == np.asarray(original)).all()
    box = (3, 4, 20, 15)
    assert image.crop(box).resize((50, 50)).tobytes() == original.crop(box).resize((50, 50)).tobytes()
    assert image.convert("L").tobytes() == original.convert("L").tobytes()


def test_a_change_makes_a_copy(mapped: tuple[Image.Image, Image.Image]) -> None:
    original, image = mapped
    other = image.copy()
    for changed in (image, other):
        changed.paste(0, (0, 0, 5, 5))
        changed.putpixel((9, 9), original.getpixel((0, 0)))  # type: ignore[arg-type]
        ImageDraw.Draw(changed).line((0, 0, 29, 19))
        assert changed.tobytes() != original.tobytes()
        assert changed.crop((0, 0, 1, 1)).tobytes() == image.crop((0, 0, 1, 1)).tobytes()


def test_the_memory_behind_cannot_be_changed_by_anyone() -> None:
    fd = memfd(picture("L"))
    with pytest.raises(PermissionError):
        os.pwrite(fd, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.close(fd)


def test_an_array_may_be_changed_for_this_process_alone() -> None:
    fd = sealed_memfd("test", bytes(range(12)))
    one, two = map_array((3, 4), fd), map_array((3, 4), fd)
    one[0, 0] = 99
    assert (one[0, 0], two[0, 0], two.sum()) == (99, 0, sum(range(12)))
    os.close(fd)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, list[dict[str, Any]]]]:
    """A host that hands out one picture for every request, and remembers the requests."""
    monkeypatch.setattr(images, "_loaded", {})
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked: list[dict[str, Any]] = []

    def serve() -> None:
        while (request := wire.receive(ours)) is not None:
            asked.append(request[0])
            if request[0]["key"] == "broken":
                wire.send(ours, {"op": "image", "error": "the file is truncated"})
                continue
            fd = memfd(picture("RGB"))
            wire.send(ours, {"op": "image"}, [fd])
            os.close(fd)

    thread = threading.Thread(target=serve)
    thread.start()
    yield theirs, asked
    theirs.close()
    thread.join(10)
    ours.close()


Host = tuple[socket.socket, list[dict[str, Any]]]


@pytest.mark.parametrize(
    "use",
    [
        lambda im: im.crop((0, 0, 5, 5)),
        lambda im: im.getpixel((1, 1)),
        lambda im: im.paste((0, 0, 0), (0, 0, 5, 5)),
        lambda im: im.putpixel((0, 0), (1, 2, 3)),
        lambda im: im.convert("L"),
        lambda im: np.asarray(im),
        lambda im: im.copy(),
        lambda im: im.resize((5, 5)),
        lambda im: im.rotate(90, expand=True),
        lambda im: im.tobytes(),
        lambda im: im.split(),
        lambda im: im.histogram(),
        lambda im: im.thumbnail((5, 5)),
        lambda im: ImageDraw.Draw(im).point((1, 1)),
        lambda im: im.putalpha(5),
        lambda im: Image.blend(im, im.copy(), 0.5),
        lambda im: im == picture("RGB") or pytest.fail("not equal"),
        lambda im: picture("RGB") == im or pytest.fail("not equal"),
        lambda im: copy.deepcopy(im).tobytes() == picture("RGB").tobytes() or pytest.fail("not equal"),
        lambda im: copy.copy(im).getpixel((1, 1)),
        lambda im: pickle.loads(pickle.dumps(im)).getpixel((1, 1)),
    ],
)
def test_every_use_brings_the_pixels_once(host: Host, use: Any) -> None:
    sock, asked = host
    image = SharedImage.of("k", "RGB", (30, 20), sock)
    assert (image.mode, image.size, image.width, asked) == ("RGB", (30, 20), 30, [])
    assert isinstance(image, Image.Image)
    use(image)
    use(image)
    assert asked == [{"op": "need", "key": "k"}]
    assert type(image) is Image.Image


def test_equal_pictures_are_asked_for_once_and_changed_apart(host: Host) -> None:
    sock, asked = host
    one, two, three = (SharedImage.of("k", "RGB", (30, 20), sock) for _ in range(3))
    one.putpixel((0, 0), (1, 2, 3))
    del one
    assert two.getpixel((0, 0)) == three.getpixel((0, 0)) == picture("RGB").getpixel((0, 0))
    ImageDraw.Draw(two).rectangle((0, 0, 9, 9), fill="red")
    assert three.tobytes() == picture("RGB").tobytes()
    assert asked == [{"op": "need", "key": "k"}]


def test_threads_that_load_at_the_same_time_get_each_its_own(host: Host) -> None:
    sock, asked = host
    pictures = [SharedImage.of(f"k{number % 8}", "RGB", (30, 20), sock) for number in range(64)]
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda image: image.tobytes(), [*pictures, *pictures])) == {picture("RGB").tobytes()}
    assert sorted(request["key"] for request in asked) == [f"k{number}" for number in range(8)]


def test_a_picture_that_cannot_be_loaded_says_why(host: Host) -> None:
    image = SharedImage.of("broken", "RGB", (30, 20), host[0])
    with pytest.raises(OSError, match="the file is truncated"):
        image.load()
    with pytest.raises(OSError, match="the file is truncated"):
        image.getpixel((0, 0))


def test_bind_puts_each_kind_in_its_place(host: Host) -> None:
    fds = [memfd(picture("L")), sealed_memfd("test", bytes(6))]
    specs = [
        {"kind": "value", "name": "x", "value": [1]},
        {"kind": "image", "name": "now", "key": "", "mode": "L", "size": [30, 20], "fd": 0},
        {"kind": "image", "name": "later", "key": "k", "mode": "RGB", "size": [30, 20], "fd": None},
        {"kind": "array", "name": "a", "shape": [2, 3], "fd": 1},
    ]
    namespace: dict[str, Any] = {}
    assert not bind(namespace, specs, fds, host[0], "/workspace")
    assert (namespace["x"], namespace["now"].tobytes()) == ([1], picture("L").tobytes())
    assert (type(namespace["later"]), namespace["a"].shape) == (SharedImage, (2, 3))
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
