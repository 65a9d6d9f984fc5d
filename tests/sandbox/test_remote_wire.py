"""The frames of the remote sandbox: exact both ways, and no garbage gets through."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import ProtocolError
from saccade.sandbox import remote_wire as wire

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
def test_garbage_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        wire.unpack(data)


@given(st.binary(max_size=200))
def test_garbage_behind_a_right_start_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        wire.unpack(wire.MAGIC + len(data).to_bytes(4, "big") + data)


@given(FIELDS, BLOBS, st.data())
def test_a_cut_frame_is_a_protocol_error(fields: dict[str, object], blobs: list[bytes], data: st.DataObject) -> None:
    frame = wire.pack(fields, blobs)
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(ProtocolError):
        wire.unpack(frame[:cut])


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


READERS = [wire.text, wire.flag, wire.integer, wire.number, wire.items, wire.texts]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("value", [None, {}, object(), float("nan"), float("-inf"), [1, None], -1])
def test_readers_refuse_other_types(reader: object, value: object) -> None:
    if reader is wire.items and value == [1, None]:
        assert wire.items({"x": value}, "x") == [1, None]
        return
    with pytest.raises(ProtocolError):
        reader({"x": value}, "x")  # type: ignore[operator]


def test_readers_give_what_is_there() -> None:
    fields = {"t": "a", "f": True, "i": 3, "n": 2, "l": ["a"], "none": None}
    assert wire.text(fields, "t") == "a"
    assert wire.flag(fields, "f") is True
    assert wire.integer(fields, "i", low=3, high=3) == 3
    assert wire.number(fields, "n") == 2.0
    assert wire.texts(fields, "l") == ("a",)
    assert wire.optional_text(fields, "none") is None
    assert wire.optional_number(fields, "none") is None
    for wrong in ("f", "n"):
        with pytest.raises(ProtocolError):
            wire.integer(fields, wrong, low=5)
    with pytest.raises(ProtocolError):
        wire.number(fields, "f")
    with pytest.raises(ProtocolError, match="l, none"):
        wire.keys(fields, frozenset({"t", "f", "i", "n"}))


def test_a_frame_says_how_it_begins_and_where_it_ends() -> None:
    frame = wire.pack({}, [b"ab"])
    assert frame[:8] == b"SAC1" + len(frame[8:-2]).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="does not start as a Saccade frame"):
        wire.unpack(frame[:7])
    with pytest.raises(ProtocolError, match=rf"ends inside its header: {len(frame) - 2} bytes announced, 8 received"):
        wire.unpack(frame[:8])
    with pytest.raises(ProtocolError, match="1 bytes follow the last blob"):
        wire.unpack(frame + b"x")
    with pytest.raises(ProtocolError, match="impossible length"):
        wire.unpack(frame[:-1])
