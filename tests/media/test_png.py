"""PNG written and read quickly: exact to the pixel, read by anybody; what others wrote is not taken for ours."""

import struct
import tracemalloc
import zlib
from io import BytesIO

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.core.png import MOST_PIXELS, MOST_ROWS, quick_image, quick_png


def noise(mode: str, width: int, height: int, seed: int = 0) -> Image.Image:
    """As random as a picture can be, over a gradient."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 256, (height, width, len(mode)), dtype=np.uint8)
    values[:, : width // 2] = np.arange(height, dtype=np.uint8)[:, None, None]
    return Image.frombytes(mode, (width, height), values.tobytes())


def by_pillow(data: bytes) -> Image.Image:
    with Image.open(BytesIO(data)) as image:
        image.load()
        return image.copy()


def same(one: Image.Image | None, other: Image.Image) -> bool:
    return one is not None and (one.mode, one.size, one.tobytes()) == (other.mode, other.size, other.tobytes())


def file_of(size: tuple[int, int], *chunks: bytes, colour: int = 2, depth: int = 8, interlaced: int = 0) -> bytes:
    """A PNG of any kind, from the data of its IDAT chunks, which is not compressed yet."""
    head = struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, interlaced)
    deflate = zlib.compressobj(1)
    packed = [deflate.compress(item) + deflate.flush(zlib.Z_SYNC_FLUSH) for item in chunks]
    packed[-1] += deflate.flush()
    parts = [(b"IHDR", head), *((b"IDAT", item) for item in packed), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")


@given(st.sampled_from(["L", "RGB", "RGBA"]), st.integers(1, 70), st.integers(1, 70), st.integers(0, 9))
def test_pixels_come_back_here_and_with_every_other_reader(mode: str, width: int, height: int, seed: int) -> None:
    image = noise(mode, width, height, seed)
    data = quick_png(image)
    assert same(quick_image(data), image)
    read = by_pillow(data)
    assert same(read, image)
    assert not read.info
    order = {"L": [0], "RGB": [2, 1, 0], "RGBA": [2, 1, 0, 3]}[mode]
    by_opencv = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert by_opencv.reshape(height, width, -1)[..., order].tobytes() == image.tobytes()


@pytest.mark.parametrize(("width", "height"), [(2000, 1000), (1 << 20, 1), (1, MOST_ROWS), (600_000, 6)])
def test_bands_of_a_large_picture_join(width: int, height: int) -> None:
    image = noise("RGBA", width, height)
    data = quick_png(image)
    assert same(quick_image(data), image)
    assert same(by_pillow(data), image)


def test_the_same_pixels_give_the_same_bytes() -> None:
    assert quick_png(noise("RGB", 300, 200)) == quick_png(noise("RGB", 300, 200))


def test_files_are_about_as_large_as_by_pillow_at_its_fastest() -> None:
    image = noise("RGB", 600, 400).resize((1200, 800), Image.Resampling.BICUBIC)
    out = BytesIO()
    image.save(out, "PNG", compress_level=1)
    assert len(quick_png(image)) < 1.25 * len(out.getvalue())


@pytest.mark.parametrize("mode", ["P", "1", "LA", "I;16", "F", "CMYK"])
def test_other_modes_are_refused(mode: str) -> None:
    with pytest.raises(ValueError, match="mode"):
        quick_png(Image.new(mode, (4, 4)))


def test_no_pixels_are_refused() -> None:
    with pytest.raises(ValueError, match="0x5"):
        quick_png(Image.new("RGB", (0, 5)))


ROW = b"\x02" + b"abc" * 5


@pytest.mark.parametrize(
    "data",
    {
        "nothing": b"",
        "no PNG": b"\xff\xd8\xff" + bytes(100),
        "a row of another filter": file_of((5, 2), ROW + b"\x01" + ROW[1:]),
        "far below a row of another filter": file_of((5, 20), ROW * 19 + b"\x04" + ROW[1:]),
        "a row too few": file_of((5, 3), ROW * 2),
        "half a row more": file_of((5, 2), ROW * 2 + ROW[:4]),
        "16 bits": file_of((5, 2), ROW * 2, depth=16),
        "a palette": file_of((5, 2), ROW * 2, colour=3),
        "interlaced": file_of((5, 2), ROW * 2, interlaced=1),
        "no width": file_of((0, 2), b"\x02\x02"),
        "no height": file_of((5, 0), ROW),
        "too many rows": file_of((1, MOST_ROWS + 1), b"\x02a" * (MOST_ROWS + 1), colour=0),
        "too many pixels": file_of((MOST_PIXELS // 8 + 1, 8), ROW),
        "more behind the end": file_of((5, 2), ROW * 2) + b"x",
        "no end": file_of((5, 2), ROW * 2)[:-12],
        "a chunk that says what is not": file_of((5, 2), ROW * 2)[:-12] + chunk(b"tEXt", b"a\0b") + chunk(b"IEND", b""),
        "a chunk before the pixels": file_of((5, 2), ROW * 2)[:33]
        + chunk(b"gAMA", bytes(4))
        + file_of((5, 2), ROW * 2)[33:],
        "a stream behind the stream": file_of((5, 2), ROW * 2)[:-12] + chunk(b"IDAT", b"more") + chunk(b"IEND", b""),
        "thousands of chunks": file_of((5, 2), ROW * 2)[:-12] + chunk(b"IDAT", b"") * 5000 + chunk(b"IEND", b""),
    }.items(),
    ids=lambda item: item[0],
)
def test_what_is_not_ours_is_left_to_a_decoder(data: tuple[str, bytes]) -> None:
    assert quick_image(data[1]) is None


def test_a_file_like_ours_is_read_whoever_wrote_it() -> None:
    data = file_of((5, 3), ROW, ROW * 2)
    assert same(quick_image(data), by_pillow(data))


@given(st.data())
def test_damage_is_noticed(data: st.DataObject) -> None:
    sound = quick_png(noise("RGB", 40, 30))
    damaged = bytearray(sound)
    damaged[data.draw(st.integers(0, len(sound) - 1))] ^= data.draw(st.integers(1, 255))
    assert quick_image(bytes(damaged)) is None
    assert quick_image(sound[: data.draw(st.integers(0, len(sound) - 1))]) is None


def test_a_bomb_takes_no_memory() -> None:
    # 20 MB behind a header of 15 pixels, and the same behind one of far too many.
    bombs = [file_of(size, b"\x02" + b"\0" * 20_000_000) for size in ((5, 3), (60_000, 60_000))]
    tracemalloc.start()
    try:
        assert [quick_image(bomb) for bomb in bombs] == [None, None]
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
