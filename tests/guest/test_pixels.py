"""Pixels of every kind of picture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.guest.pixels import Pixels, as_uint8, capture, fit

MODES = ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA", "RGBX", "RGBa", "La"]
BYTES = {"L": 1, "RGB": 3, "RGBA": 4}


def taken(thing: object, most: int = 10**6) -> Pixels:
    pixels, notes = capture(thing, most)
    assert pixels is not None, notes
    assert len(pixels.data) == pixels.width * pixels.height * BYTES[pixels.mode]
    return pixels


def first(thing: object) -> tuple[int, ...]:
    pixels = taken(thing)
    return tuple(pixels.data[: BYTES[pixels.mode]])


@pytest.mark.parametrize("mode", [*MODES, "I;16", "I;16B", "I;16L"])
@pytest.mark.parametrize("most", [10**6, 20])
def test_every_mode(mode: str, most: int) -> None:
    pixels = taken(Image.new(mode, (12, 8)), most)
    assert pixels.mode in BYTES
    assert pixels.width * pixels.height <= max(most, 20)


def test_colours_of_modes() -> None:
    red = Image.new("RGB", (2, 2), (255, 0, 0))
    assert first(red) == (255, 0, 0)
    assert first(red.convert("P")) == (255, 0, 0)
    assert first(red.convert("RGBA")) == (255, 0, 0, 255)
    assert first(red.convert("CMYK")) == (255, 0, 0)
    assert first(Image.new("1", (2, 2), 1)) == (255,)
    assert first(Image.new("LA", (2, 2), (9, 5))) == (9, 9, 9, 5)
    assert first(Image.new("RGBA", (2, 2), (200, 100, 0, 128)).convert("RGBa"))[3] == 128
    red_lab = Image.new("LAB", (2, 2), (138, 208, 195))
    value = first(red_lab)
    assert value[0] > 200
    assert value[1] < 60
    assert value[2] < 60


def test_palette_with_transparency_keeps_it() -> None:
    image = Image.new("P", (2, 2), 3)
    image.info["transparency"] = 3
    assert first(image)[3] == 0


def test_numbers_as_grey() -> None:
    assert first(Image.fromarray(np.full((2, 2), 0.5, np.float32))) == (128,)
    assert first(Image.fromarray(np.full((2, 2), 200, np.int32))) == (200,)
    assert first(Image.fromarray(np.full((2, 2), 0xABCD, np.uint16))) == (0xAB,)
    values = np.array([[-10.0, 0, np.nan, 10]], np.float32)
    pixels, notes = capture(Image.fromarray(values), 100)
    assert pixels is not None
    assert list(pixels.data) == [0, 128, 128, 255]
    assert "-10 as black and 10 as white" in notes[0]


@pytest.mark.parametrize(
    ("array", "mode"),
    [
        (np.zeros((4, 5), np.uint8), "L"),
        (np.zeros((4, 5, 1), np.uint8), "L"),
        (np.zeros((4, 5, 3), np.uint8), "RGB"),
        (np.zeros((4, 5, 4), np.uint8), "RGBA"),
        (np.ones((4, 5), bool), "L"),
        (np.ones((4, 5, 3), np.float16), "RGB"),
        (np.zeros((5, 4, 3), np.uint8).transpose(1, 0, 2)[:, ::-1], "RGB"),
    ],
)
def test_arrays(array: np.ndarray, mode: str) -> None:
    pixels = taken(array)
    assert (pixels.mode, pixels.width, pixels.height) == (mode, 5, 4)
    assert taken(array, 6).width == 2


@pytest.mark.parametrize(
    "thing",
    [
        np.zeros((4,), np.uint8),
        np.zeros((4, 5, 2), np.uint8),
        np.zeros((0, 5), np.uint8),
        np.full((4, 5), 1.5),
        np.full((4, 5), np.nan),
        np.zeros((4, 5), np.int64),
        np.zeros((4, 5), complex),
        np.array([["a"]]),
        np.array([[object()]]),
        "text",
        None,
        Image.new("RGB", (5, 0)),
        Image.new("RGB", (1, 201)),
        np.zeros((1, 201), np.uint8),
    ],
)
def test_what_is_no_picture_is_a_note(thing: object) -> None:
    pixels, notes = capture(thing, 1000)
    assert pixels is None
    assert len(notes) == 1


def test_broken_image_is_a_note(tmp_path) -> None:
    path = tmp_path / "a.png"
    Image.effect_noise((64, 64), 50).save(path)
    path.write_bytes(path.read_bytes()[:-600])
    with Image.open(path) as image:
        pixels, notes = capture(image, 10**6)
    assert pixels is None
    assert "could not be captured" in notes[0]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**7))
def test_fit_keeps_the_budget_and_the_shape(width: int, height: int, most: int) -> None:
    wide, high = fit(width, height, most)
    assert 1 <= wide <= width
    assert 1 <= high <= height
    assert wide * high <= most
    if width * height <= most:
        assert (wide, high) == (width, height)
    elif wide > 50 and high > 50:
        assert wide / high == pytest.approx(width / height, rel=0.05)


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([0, 3, 4]), st.binary(min_size=324, max_size=324))
def test_uint8_arrays_come_as_they_are(width: int, height: int, channels: int, data: bytes) -> None:
    shape = (height, width, channels) if channels else (height, width)
    array = np.frombuffer(data, np.uint8)[: int(np.prod(shape))].reshape(shape)
    same = as_uint8(array)
    assert same is not None
    assert (same == array).all()
    assert taken(array).data == array.tobytes()
