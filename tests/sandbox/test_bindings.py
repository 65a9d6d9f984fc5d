"""What can be bound, under which names, and how it travels."""

import os

import numpy as np
import pytest
from PIL import Image

from saccade.errors import SandboxError
from saccade.guest.wire import MAX_FDS
from saccade.sandbox.base import Limits, VideoFile
from saccade.sandbox.bindings import bound, bound_all, bound_file, messages
from saccade.sandbox.result import Picture
from saccade.sandbox.shared_images import SharedImages


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
