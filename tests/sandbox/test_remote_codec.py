"""Results and pictures survive the wire exactly; bindings are checked; lazy images are decoded once."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.errors import ProtocolError, SandboxError, TooLargeError
from saccade.record.execution import Status
from saccade.sandbox import remote_codec
from saccade.sandbox import remote_codec as codec
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.base import VideoFile
from saccade.sandbox.remote_codec import RawPixels, pixels_of, read_png
from saccade.sandbox.result import Picture, Repair, RunResult, Timings, WrittenFile

TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=20)
SECONDS = st.floats(0, 1e6)


@st.composite
def pixels(draw: st.DrawFn) -> RawPixels:
    mode = draw(st.sampled_from(["L", "RGB", "RGBA"]))
    width, height = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    size = width * height * len(mode)
    return RawPixels(mode, width, height, draw(st.binary(min_size=size, max_size=size)))


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    raw = draw(pixels())
    source = draw(st.sampled_from(["figure", "show", "display", "value", "file"]))
    return Picture(source, raw.mode, raw.width, raw.height, raw.data, draw(st.none() | TEXT))


RESULTS = st.builds(
    RunResult,
    status=st.sampled_from(list(Status)),
    stdout=TEXT,
    stderr=TEXT,
    value=st.none() | TEXT,
    traceback=st.none() | TEXT,
    pictures=st.lists(pictures(), max_size=3).map(tuple),
    files=st.lists(st.builds(WrittenFile, TEXT, st.integers(0, 1 << 40)), max_size=3).map(tuple),
    repairs=st.lists(st.builds(Repair, TEXT, TEXT), max_size=3).map(tuple),
    notes=st.lists(TEXT, max_size=3).map(tuple),
    committed=st.booleans(),
    timings=st.builds(Timings, SECONDS, SECONDS, SECONDS, SECONDS),
    layers=st.lists(TEXT, max_size=3).map(tuple),
)


@given(RESULTS)
def test_a_result_comes_back_exactly(result: RunResult) -> None:
    assert codec.unpack_result(codec.pack_result(result)) == result


@given(pixels())
def test_pixels_come_back_exactly(raw: RawPixels) -> None:
    assert read_png(raw.png()) == raw


@given(pixels(), st.data())
def test_a_damaged_png_gives_a_protocol_error_or_pixels(raw: RawPixels, data: st.DataObject) -> None:
    png = bytearray(raw.png())
    at = data.draw(st.integers(0, len(png) - 1))
    png[at] ^= data.draw(st.integers(1, 255))
    try:
        read = read_png(bytes(png))
    except ProtocolError:
        return
    assert len(read.data) == read.width * read.height * len(read.mode)


@given(pixels())
def test_a_png_of_another_version_is_read(raw: RawPixels) -> None:
    out = BytesIO()
    raw.image().save(out, "PNG", compress_level=1)
    assert read_png(out.getvalue()) == raw


def test_a_png_that_unpacks_to_more_than_its_header_says_takes_no_memory() -> None:
    small = RawPixels("L", 4, 4, bytes(16)).png()
    bomb = RawPixels("L", 2000, 5000, bytes(10_000_000)).png()
    forged = small[:33] + bomb[33:]
    tracemalloc.start()
    try:
        with suppress(ProtocolError):
            assert len(read_png(forged).data) == 16
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_huge_png_is_refused_before_it_is_decoded() -> None:
    png = bytearray(RawPixels("L", 1, 1, b"x").png())
    png[16:24] = (60_000).to_bytes(4, "big") * 2
    with pytest.raises(ProtocolError, match="over the limit"):
        read_png(bytes(png))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "fine"),
        ("stdout", None),
        ("committed", 1),
        ("pictures", [{"source": "figure", "path": None}]),
        ("timings", {"wall": 0}),
        ("timings", {"wall": float("nan"), "run": 0, "cpu": 0, "capture": 0}),
        ("files", [{"path": "a", "size": -1}]),
        ("files", [{"path": "a"}]),
        ("layers", [1]),
        ("surprise", 1),
    ],
)
def test_an_impossible_result_is_refused(name: str, value: object) -> None:
    fields, _ = wire.unpack(codec.pack_result(RunResult(Status.OK)))
    with pytest.raises(ProtocolError):
        codec.unpack_result(wire.pack({**fields, name: value}))


def test_pictures_of_every_kind_become_pixels() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    raw = RawPixels("RGB", 4, 2, array.tobytes())
    assert pixels_of(array) == raw
    assert pixels_of(Image.fromarray(array)) == raw
    assert pixels_of(Picture("show", "RGB", 4, 2, array.tobytes())) == raw
    assert pixels_of(array[:, ::2]) == RawPixels("RGB", 2, 2, array[:, ::2].tobytes())
    assert pixels_of(array[..., 0]) == RawPixels("L", 4, 2, array[..., 0].tobytes())
    assert pixels_of([1, 2]) is None


@pytest.mark.parametrize("value", [np.zeros((2, 2)), np.zeros((2, 2, 2), np.uint8), np.zeros(3, np.uint8)])
def test_what_is_no_picture_is_refused(value: object) -> None:
    with pytest.raises(SandboxError):
        pixels_of(value)


def test_other_modes_are_converted() -> None:
    for mode, wanted in (("P", "RGB"), ("1", "RGB"), ("LA", "RGBA"), ("CMYK", "RGB")):
        converted = pixels_of(Image.new(mode, (2, 2)))
        assert converted is not None
        assert converted.mode == wanted


@dataclass
class Lazy:
    sha256: str = "a" * 64
    mode: str = "RGB"
    width: int = 2
    height: int = 2
    decoded: int = 0

    def decode(self) -> Image.Image:
        self.decoded += 1
        return Image.new("RGB", (self.width, self.height), "red")


def across(bindings: dict[str, object]) -> dict[str, object]:
    """What arrives of `bindings` on the other side."""
    sent = codec.prepare(codec.snapshot(bindings))
    fields, _ = wire.unpack(wire.pack(sent.fields))
    assert codec.picture_names(fields) == set(sent.pixels)
    there: dict[str, codec.LazyImage] = {sha256: Stored(sha256, raw) for sha256, raw in sent.pixels.items()}
    return codec.unpack_bindings(dict(fields), there, Lazy)


@dataclass
class Stored:
    sha256: str
    pixels: RawPixels

    @property
    def width(self) -> int:
        return self.pixels.width

    @property
    def height(self) -> int:
        return self.pixels.height

    def decode(self) -> Image.Image:
        return self.pixels.image()


def test_bindings_arrive() -> None:
    lazy, image = Lazy(), Image.new("L", (3, 2), 9)
    array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    grey = array[:, :, :1]
    arrived = across({"image": image, "array": array, "grey": grey, "lazy": lazy, "value": {"a": [1, None]}})
    assert isinstance(arrived["image"], Stored)
    assert arrived["image"].decode() == image
    for name, wanted in (("array", array), ("grey", grey)):
        found = arrived[name]
        assert isinstance(found, np.ndarray)
        assert found.shape == wanted.shape
        assert (found == wanted).all()
    assert arrived["lazy"] == lazy
    assert lazy.decoded == 0
    assert arrived["value"] == {"a": [1, None]}


def test_a_snapshot_does_not_follow_later_changes() -> None:
    image, values = Image.new("L", (1, 1), 7), [1]
    taken = codec.snapshot({"image": image, "values": values})
    image.putpixel((0, 0), 9)
    values.append(2)
    assert taken == {"image": RawPixels("L", 1, 1, b"\x07"), "values": [1]}


@pytest.mark.parametrize(
    "bindings",
    [{"a b": 1}, {"": 1}, {"if": 1}, {"__name__": 1}, {"x": object()}, {"x": {1}}, {"x": 1e999}, {"x": Lazy("short")}],
)
def test_what_cannot_be_bound_is_refused(bindings: dict[str, object]) -> None:
    with pytest.raises(SandboxError):
        codec.snapshot(bindings)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {"x": 1},
        {"x": {}},
        {"x": {"value": 1, "picture": "a" * 64}},
        {"x": {"picture": "A" * 64}},
        {"x": {"picture": None}},
        {"x": {"array": "a" * 64, "shape": [2, 2, 2]}},
        {"x": {"array": "a" * 64, "shape": [True, 12]}},
        {"x": {"array": "a" * 64, "shape": [2, 2, 3, 1]}},
        {"x": {"array": "a" * 64, "shape": 12}},
        {"x": {"video": 3}},
        {"x": {"lazy": "a" * 63, "mode": "L", "width": 1, "height": 1}},
        {"x": {"lazy": "a" * 64, "mode": "L", "width": "1", "height": 1}},
    ],
)
def test_impossible_bindings_are_refused(fields: object) -> None:
    with pytest.raises(ProtocolError):
        codec.unpack_bindings(fields, {"a" * 64: Lazy()}, Lazy)


def test_a_video_travels_as_its_path() -> None:
    assert across({"v": VideoFile("in/v.mp4")}) == {"v": VideoFile("in/v.mp4")}
    assert codec.prepare({"v": VideoFile("in/v.mp4")}).fields == {"v": {"video": "in/v.mp4"}}


@pytest.mark.parametrize(
    ("mode", "width", "height", "travels"),
    [
        ("L", 1, 1, True),
        ("L", 65_500, 1, True),
        ("L", 65_501, 1, False),
        ("RGB", 1, 65_500, True),
        ("RGB", 1, 65_501, False),
        ("RGBA", 1, 0, False),
        ("RGBA", 20_000, 20_000, True),
        ("RGBA", 20_000, 20_001, False),
        ("CMYK", 1, 1, False),
    ],
)
def test_the_sizes_that_travel(mode: str, width: int, height: int, travels: bool) -> None:
    if travels:
        remote_codec.check_size(mode, width, height)
    else:
        with pytest.raises(TooLargeError):
            remote_codec.check_size(mode, width, height)


def test_a_palette_with_a_transparent_colour_keeps_it_and_pixels_must_be_as_many_as_stated() -> None:
    palette = Image.new("P", (2, 1))
    palette.info["transparency"] = 0
    found = pixels_of(palette)
    assert found is not None
    assert (found.mode, found.width, found.height) == ("RGBA", 2, 1)
    assert found.data[3::4] == bytes(2)
    for size in (5, 7):
        with pytest.raises(SandboxError, match="width \\* height \\* channels"):
            pixels_of(Picture("show", "RGB", 2, 1, bytes(size)))


@pytest.mark.parametrize(("mode", "bound"), [("L", "L"), ("RGB", "RGB"), ("RGBA", "RGBA"), ("CMYK", "RGB")])
def test_a_lazy_picture_arrives_in_the_mode_that_it_states(mode: str, bound: str) -> None:
    found = remote_codec.from_lazy(Lazy(mode=mode))
    assert (found.mode, len(found.data)) == (bound, 4 * len(bound))
    assert found.image() == Image.new("RGB", (2, 2), "red").convert(bound)


def test_a_header_that_is_cut_or_of_another_depth_is_no_picture() -> None:
    png = RawPixels("L", 3, 2, bytes(6)).png()
    with pytest.raises(ProtocolError, match="is not a PNG"):
        read_png(png[:32])
    with pytest.raises(ProtocolError, match="not a whole PNG"):
        read_png(png[:33])
    for at, value in ((24, 16), (25, 3)):
        other = bytearray(png)
        other[at] = value
        with pytest.raises(ProtocolError, match="not of mode L, RGB or RGBA"):
            read_png(bytes(other))


def test_the_name_of_a_picture_is_the_hash_of_all_that_it_is() -> None:
    raw = RawPixels("RGB", 2, 1, bytes(range(6)))
    assert raw.sha256() == hashlib.sha256(b"RGB 2 1\n\x00\x01\x02\x03\x04\x05").hexdigest()
    others = (RawPixels("RGB", 1, 2, raw.data), RawPixels("RGB", 2, 1, bytes(6)), RawPixels("L", 2, 1, raw.data))
    assert len({raw.sha256(), *(other.sha256() for other in others)}) == 4
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert pixels_of(array) == RawPixels("RGBA", 3, 2, array.tobytes())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.dictionaries(st.text(), JSON, max_size=5)
BLOBS = st.lists(st.binary(max_size=64), max_size=5)


@given(FIELDS, BLOBS)
def test_round_trip_is_exact(fields: dict[str, object], blobs: list[bytes]) -> None:
    assert wire.unpack(wire.pack(fields, blobs)) == (fields, tuple(blobs))


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_lone_surrogates_survive(text: str) -> None:
    assert wire.unpack(wire.pack({"text": text}))[0] == {"text": text}


@given(st.binary(max_size=200))
def test_garbage_behind_a_right_start_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        wire.unpack(wire.MAGIC + len(data).to_bytes(4, "big") + data)


@given(FIELDS, BLOBS, st.data())
def test_a_flipped_byte_never_raises_anything_else(
    fields: dict[str, object], blobs: list[bytes], data: st.DataObject
) -> None:
    frame = bytearray(wire.pack(fields, blobs))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))
    try:
        read, _ = wire.unpack(bytes(frame))
    except ProtocolError:
        return
    assert isinstance(read, dict)


def frame_with(header: object, rest: bytes = b"") -> bytes:
    raw = json.dumps(header).encode()
    return wire.MAGIC + len(raw).to_bytes(4, "big") + raw + rest


@pytest.mark.parametrize(
    "frame",
    [
        frame_with({"fields": {}, "blobs": [3]}, b"ab"),
        frame_with({"fields": {}, "blobs": [1]}, b"ab"),
        frame_with({"fields": {}, "blobs": [-1, 3]}, b"ab"),
        frame_with({"fields": {}, "blobs": [True]}, b"a"),
        frame_with({"fields": {}, "blobs": [1.0]}, b"a"),
        frame_with({"fields": {}, "blobs": ["1"]}, b"a"),
        frame_with({"fields": {}, "blobs": 1}, b"a"),
        frame_with({"fields": {}, "blobs": [0] * (wire.MAX_BLOBS + 1)}),
        frame_with({"fields": [], "blobs": []}),
        frame_with({"fields": {}, "blobs": [], "more": 1}),
        frame_with({"fields": {}}),
        frame_with([]),
        wire.MAGIC + b"\xff\xff\xff\xff{}",
        wire.MAGIC + (200_000).to_bytes(4, "big") + b"[" * 200_000,
        wire.MAGIC + (10_000).to_bytes(4, "big") + b"9" * 10_000,
    ],
)
def test_impossible_frames_are_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        wire.unpack(frame)


def test_what_is_no_json_is_refused_when_packing() -> None:
    loop: list[object] = []
    loop.append(loop)
    for value in (object(), {1, 2}, b"bytes", loop):
        with pytest.raises(ProtocolError):
            wire.pack({"value": value})
    with pytest.raises(ProtocolError, match="blobs"):
        wire.pack({}, [b""] * (wire.MAX_BLOBS + 1))
