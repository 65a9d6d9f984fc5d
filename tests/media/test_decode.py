"""Every format and mode that people have, and every way in which a file can be bad."""

import struct
import threading
import warnings
import zlib
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, features
from PIL.PngImagePlugin import PngImageFile

from saccade.errors import DecodeError, MediaError, TooLargeError
from saccade.media.decode import (
    DecodeLimits,
    PictureHeader,
    decode,
    decode_plain,
    decode_smaller,
    header,
    mime_type,
)
from saccade.media.modes import to_plain
from saccade.media.store import EncodeOptions, encode

SIZE = (48, 32)


def saved(image: Image.Image, format: str, **parameters: object) -> bytes:
    out = BytesIO()
    image.save(out, format, **parameters)  # type: ignore[arg-type]
    return out.getvalue()


def picture(mode: str = "RGB") -> Image.Image:
    """Red at the top left, blue at the bottom right, smooth between; half transparent in the middle with alpha."""
    y, x = np.mgrid[0 : SIZE[1], 0 : SIZE[0]]
    rgba = np.stack([255 - 5 * x, 4 * y + x, 5 * x, np.full_like(x, 255)], axis=-1).astype(np.uint8)
    rgba[10:20, 10:30, 3] = 0
    image = Image.fromarray(rgba)
    return image.convert(mode) if "A" in mode else image.convert("RGB").convert(mode)


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, *extra: bytes) -> bytes:
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = png_chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + pixels + png_chunk(b"IEND", b"")


FORMATS = [
    ("PNG", {}),
    ("JPEG", {"quality": 95}),
    ("JPEG", {"quality": 95, "progressive": True}),
    ("WEBP", {"lossless": True}),
    ("WEBP", {"quality": 95}),
    ("GIF", {}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("TIFF", {"compression": "tiff_adobe_deflate"}),
    ("PPM", {}),
    pytest.param("AVIF", {"quality": 95}, marks=pytest.mark.skipif(not features.check("avif"), reason="no AVIF here")),
]


@pytest.mark.parametrize(("format", "parameters"), FORMATS)
def test_formats(format: str, parameters: dict[str, object]) -> None:
    data = saved(picture(), format, **parameters)
    image = decode(data)
    assert (image.mode, image.size) == ("RGB", SIZE)
    off = np.abs(np.asarray(image, int) - np.asarray(picture(), int)).mean()
    assert off < 8, f"mean difference {off}"
    assert type(image) is Image.Image, "no decoder with an open file behind it"
    assert mime_type(data) == f"image/{format.lower()}".replace("ppm", "x-portable-anymap")


@pytest.mark.parametrize(
    ("mode", "format", "plain"),
    [
        ("1", "PNG", "L"),
        ("L", "PNG", "L"),
        ("L", "JPEG", "L"),
        ("LA", "PNG", "RGBA"),
        ("P", "PNG", "RGB"),
        ("P", "GIF", "RGB"),
        ("RGBA", "PNG", "RGBA"),
        ("RGBA", "WEBP", "RGBA"),
        ("RGBA", "TIFF", "RGBA"),
        ("CMYK", "JPEG", "RGB"),
        ("CMYK", "TIFF", "RGB"),
        ("YCbCr", "JPEG", "RGB"),
    ],
)
def test_modes(mode: str, format: str, plain: str) -> None:
    data = saved(picture(mode), format)
    assert decode_plain(data).mode == plain
    assert decode(data).mode == "RGB"
    assert decode(data, keep_alpha=True).mode == ("RGBA" if plain == "RGBA" else "RGB")


def test_cmyk_jpeg_has_its_colours() -> None:
    red = Image.new("RGB", SIZE, (250, 10, 20)).convert("CMYK")
    assert np.abs(np.asarray(decode(saved(red, "JPEG", quality=95)), int) - (250, 10, 20)).max() < 12


def test_transparency_is_composited_on_the_background() -> None:
    data = saved(picture("RGBA"), "PNG")
    assert decode(data).getpixel((15, 15)) == (255, 255, 255)
    assert decode(data, background=(0, 128, 0)).getpixel((15, 15)) == (0, 128, 0)
    assert decode(data).getpixel((0, 0)) == (255, 0, 0)
    kept = decode(data, keep_alpha=True)
    assert kept.getchannel("A").getextrema() == (0, 255)


def test_half_transparent_pixel_is_mixed() -> None:
    data = saved(Image.new("RGBA", SIZE, (255, 0, 0, 128)), "PNG")
    assert decode(data, background=(0, 0, 255)).getpixel((0, 0)) == (128, 0, 127)


def palette_with_transparent_index(format: str) -> bytes:
    image = Image.new("P", SIZE, 1)
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.paste(0, (0, 0, 10, 10))
    return saved(image, format, transparency=0)


@pytest.mark.parametrize("format", ["PNG", "GIF"])
def test_palette_with_a_transparent_colour(format: str) -> None:
    image = decode(palette_with_transparent_index(format))
    assert image.getpixel((0, 0)) == (255, 255, 255)
    assert image.getpixel((20, 20)) == (0, 255, 0)


def test_palette_with_an_alpha_for_each_colour() -> None:
    image = Image.new("P", SIZE, 1)
    image.putpalette([255, 0, 0, 0, 255, 0])
    data = saved(image, "PNG", transparency=bytes([0, 128]))
    assert decode(data, keep_alpha=True).getpixel((0, 0)) == (0, 255, 0, 128)


@pytest.mark.parametrize(("mode", "colour", "key"), [("RGB", (9, 8, 7), (9, 8, 7)), ("L", 9, 9)])
def test_colour_key_is_transparency(mode: str, colour: object, key: object) -> None:
    data = saved(Image.new(mode, SIZE, colour), "PNG", transparency=key)  # type: ignore[arg-type]
    assert decode(data).getpixel((0, 0)) == (255, 255, 255)


def test_sixteen_bits_are_scaled() -> None:
    values = np.array([[0, 128, 129, 257, 32_768, 65_535]], np.uint16)
    for format in ("PNG", "TIFF"):
        image = decode_plain(saved(Image.fromarray(values), format))
        assert image.mode == "L"
        assert np.asarray(image).tolist() == [[0, 0, 1, 1, 128, 255]]


def test_sixteen_bit_colour_png_is_read() -> None:
    rows = b"".join(b"\0" + struct.pack(">HHH", 65_535, 32_896, 0) * 4 for _ in range(3))
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 3, 16, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b"")
    assert decode(data).getpixel((3, 2)) == (255, 128, 0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 100.0, 255.0], [0, 100, 255]),
        ([10.0, 100.0, 255.0], [10, 100, 255]),
        ([-10.0, 0.0, 10.0], [0, 128, 255]),
        ([0.0, np.nan, 1.0], [0, 0, 255]),
        ([0.0, np.inf, 1.0], [0, 0, 255]),
        ([-3e38, 0.0, 3e38], [0, 128, 255]),
        ([np.nan, np.nan, np.nan], [0, 0, 0]),
        ([-5.0, -5.0, -5.0], [0, 0, 0]),
    ],
)
def test_floats_are_scaled(values: list[float], expected: list[int]) -> None:
    data = saved(Image.fromarray(np.array([values], np.float32)), "TIFF")
    assert np.asarray(decode_plain(data)).tolist() == [expected]


def test_wide_integers_are_stretched() -> None:
    for values, levels in (([-1000, 0, 1000], [0, 128, 255]), ([70_000, 80_000, 90_000], [0, 128, 255])):
        data = saved(Image.fromarray(np.array([values], np.int32)), "TIFF")
        assert np.asarray(decode_plain(data)).tolist() == [levels]


def test_lab_has_its_colours() -> None:
    # L* 53, a* 81, b* 70 is pure red; Pillow stores a* and b* with an offset of 128.
    data = saved(Image.new("LAB", SIZE, (138, 209, 198)), "TIFF")
    assert np.abs(np.array(decode(data).getpixel((0, 0)), int) - (255, 0, 0)).max() < 12


def oriented(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


# Where the top left corner of the upright picture lies in the stored one: (right side?, bottom side?), and whether
# rows and columns are exchanged. Written down from the EXIF standard's description of the eight values.
CORNERS = {
    1: (False, False, False),
    2: (True, False, False),
    3: (True, True, False),
    4: (False, True, False),
    5: (False, False, True),
    6: (False, True, True),
    7: (True, True, True),
    8: (True, False, True),
}


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", CORNERS)
def test_exif_orientation(format: str, orientation: int) -> None:
    right, bottom, exchanged = CORNERS[orientation]
    stored = Image.new("RGB", SIZE, "black")
    corner = (SIZE[0] - 16 if right else 0, SIZE[1] - 16 if bottom else 0)
    stored.paste((255, 255, 255), (*corner, corner[0] + 16, corner[1] + 16))
    image = decode(saved(stored, format, exif=oriented(orientation)))
    assert image.size == ((SIZE[1], SIZE[0]) if exchanged else SIZE)
    white = np.asarray(image)[..., 0] > 128
    assert white[:16, :16].all()
    assert not white[20:, :].any()
    assert not white[:, 20:].any()


@pytest.mark.parametrize("orientation", [0, 9, 65_535])
def test_orientation_that_does_not_exist_is_ignored(orientation: int) -> None:
    assert decode(saved(picture(), "JPEG", exif=oriented(orientation))).size == SIZE


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    "exif", [b"Exif\0\0", b"Exif\0\0II", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0" + b"\xff" * 500]
)
def test_broken_exif_does_not_spoil_the_picture(format: str, exif: bytes) -> None:
    image = decode(saved(picture(), format, exif=exif))
    assert image.size == SIZE
    red, _, blue = np.asarray(image)[0, 0]
    assert red > 200 > 50 > blue, "nothing was turned"


def animated(format: str, count: int = 4) -> bytes:
    frames = [Image.new("RGB", SIZE, (60 * index, 0, 0)) for index in range(count)]
    return saved(frames[0], format, save_all=True, append_images=frames[1:], duration=50)


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_frame_of_several_is_the_picture(format: str) -> None:
    assert decode(animated(format)).getpixel((5, 5))[0] < 4


def bmp_header(width: int, height: int) -> bytes:
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, *[0] * 6)


def gif_header(width: int, height: int) -> bytes:
    frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0)
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF0, 0, 0) + bytes(6) + frame + b"\x02\x02\x4c\x01\x00;"


def webp_header(width: int, height: int) -> bytes:
    bits = struct.pack("<I", (width - 1) | (height - 1) << 14)
    body = b"WEBPVP8L" + struct.pack("<I", 6) + b"\x2f" + bits + b"\0"
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        png(60_000, 60_000),
        png(20_000, 20_000),
        png(11_000, 11_000),
        bmp_header(40_000, 40_000),
        gif_header(65_535, 65_535),
        webp_header(16_383, 16_383),
        b"P6 50000 50000 255\n" + b"\0" * 100,
    ],
    ids=["png", "png-where-pillow-refuses", "png-where-pillow-warns", "bmp", "gif", "webp", "ppm"],
)
def test_bombs_are_refused_by_their_header(data: bytes) -> None:
    with pytest.raises(TooLargeError, match="over the limit of 100,000,000"):
        decode(data, limits=DecodeLimits(pixels=100_000_000))


def test_gif_frame_larger_than_its_header_says() -> None:
    frame = b"," + struct.pack("<HHHHB", 0, 0, 3000, 3000, 0) + b"\x02\x02\x4c\x01\x00;"
    data = b"GIF89a" + struct.pack("<HHBBB", 2, 2, 0xF0, 0, 0) + bytes(6) + frame
    with pytest.raises(MediaError):
        decode(data, limits=DecodeLimits(pixels=1000))


def test_text_chunk_bomb_is_refused() -> None:
    bomb = png_chunk(b"zTXt", b"c\0\0" + zlib.compress(bytes(80_000_000)))
    with pytest.raises(MediaError):
        decode(png(4, 4, bomb))


@pytest.mark.parametrize("data", [png(0, 5), png(5, 0), bmp_header(0, 5), b"P6 0 5 255\n", b"P6 5 0 255\n"])
def test_zero_size_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"hello world" * 50,
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7",
        b"%!PS-Adobe-3.0 EPSF",
    ],
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)
    with pytest.raises(DecodeError):
        mime_type(data)


@pytest.mark.parametrize(("format", "parameters"), FORMATS)
def test_truncated_anywhere_is_refused_or_whole(format: str, parameters: dict[str, object]) -> None:
    data = saved(picture(), format, **parameters)
    full = decode(data).tobytes()
    step = max(1, len(data) // 97)
    refused = 0
    for kept in range(0, len(data), step):
        try:
            image = decode(data[:kept])
        except DecodeError:
            refused += 1
        else:  # only bytes after the last pixel may be missed
            assert image.tobytes() == full, f"{kept} of {len(data)} bytes gave another picture"
    assert refused > 0.5 * len(data) / step


@given(st.sampled_from(FORMATS[:6]), st.data())
def test_damaged_files_never_raise_anything_else(chosen: tuple[str, dict[str, object]], data: st.DataObject) -> None:
    broken = bytearray(saved(picture(), chosen[0], **chosen[1]))
    for _ in range(data.draw(st.integers(1, 8))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            image = decode(bytes(broken), limits=DecodeLimits(pixels=1_000_000))
        except MediaError:
            return
    assert image.mode == "RGB"


def test_decoding_from_several_threads_leaves_the_warning_filters_alone() -> None:
    data = saved(picture(), "TIFF")
    before = list(warnings.filters)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                assert decode(data).size == SIZE
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert warnings.filters == before


PHOTOS = Path(__file__).resolve().parents[3] / "shared" / "data" / "photos"


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="no folder of photos beside the repository")
def test_real_photos() -> None:
    for path in (PHOTOS / "blackmug.JPG", PHOTOS / "instrument.webp"):
        image = decode(path.read_bytes())
        assert image.mode == "RGB"
        assert np.asarray(image).std() > 5, f"{path.name} is not blank"


def test_more_than_a_hundred_megapixels() -> None:
    side = 10_100
    large = Image.new("L", (side, side))
    large.paste(255, (0, 0, side // 2, side))
    data = saved(large, "PNG", compress_level=1)
    small = decode_smaller(data, 10_000)
    assert (small.mode, small.size) == ("L", (100, 100))
    assert small.getpixel((20, 50)) == 255
    assert small.getpixel((80, 50)) == 0
    before = Image.MAX_IMAGE_PIXELS
    assert header(data) == PictureHeader("PNG", 1, moving=False)
    assert before == Image.MAX_IMAGE_PIXELS  # Pillow's own limit stands again


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_smaller_picture_stands_upright(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    wide = Image.new("RGB", (640, 320), "red")
    data = saved(wide, "JPEG", exif=exif)
    small = decode_smaller(data, 800)
    assert small.size == ((40, 20) if orientation == 1 else (20, 40))
    assert decode_smaller(data, 10**9).size == ((640, 320) if orientation == 1 else (320, 640))


def test_numbers_are_scaled_alike_in_every_piece_of_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.linspace(-3.0, 500.0, 60, dtype=np.float32).reshape(10, 6)
    full = np.asarray(to_plain(Image.fromarray(values)))
    monkeypatch.setattr("saccade.media.modes._BAND", 7)  # one row at once
    assert np.array_equal(np.asarray(to_plain(Image.fromarray(values))), full)
    assert (full[0, 0], full[-1, -1]) == (0, 255)


def test_what_a_header_says(tmp_path: Path) -> None:
    frames = [picture(), picture().transpose(Image.Transpose.ROTATE_180)]
    for format, said in (("GIF", True), ("WEBP", True), ("TIFF", False)):
        data = saved(frames[0], format, save_all=True, append_images=frames[1:])
        assert header(data) == PictureHeader(format, 2, said)
        assert header(saved(frames[0], format)) == PictureHeader(format, 1, False)
    assert header(b"no picture") is None
    with pytest.raises(MediaError, match=r"none\.png cannot be read: No such file or directory\. Check the path\.$"):
        header(tmp_path / "none.png")


def test_a_decoder_without_memory_says_that_the_picture_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(image: Image.Image) -> None:
        raise MemoryError

    monkeypatch.setattr("saccade.media.decode._load", full)
    with pytest.raises(TooLargeError, match="the picture needs more memory than there is for it"):
        decode(saved(picture(), "PNG"))


def test_limits_hold_what_they_say_and_no_more() -> None:
    data = saved(picture(), "PNG")
    width, height = SIZE
    exact = DecodeLimits(data_bytes=len(data), pixels=width * height, side=width, total_pixels=width * height)
    assert decode(data, limits=exact).size == SIZE
    for field, less in (("data_bytes", len(data) - 1), ("pixels", width * height - 1), ("side", width - 1)):
        with pytest.raises(TooLargeError, match=f"over the limit of {less:,}"):
            decode(data, limits=replace(exact, **{field: less}))


@pytest.mark.parametrize("most", [1, 2, 96, 383, 384, 1535, 1536, 99_999])
def test_a_smaller_picture_has_as_many_pixels_as_allowed(most: int) -> None:
    for format in ("PNG", "JPEG"):
        small = decode_smaller(saved(picture(), format), most)
        assert small.width * small.height <= max(most, 1)
        assert small.width <= SIZE[0]
        if most >= 96:
            assert small.width / small.height == pytest.approx(SIZE[0] / SIZE[1], rel=0.1)
            assert small.width * small.height >= 0.8 * min(most, SIZE[0] * SIZE[1])


def test_a_large_jpeg_is_never_decoded_at_its_full_size() -> None:
    data = saved(Image.fromarray(np.random.default_rng(0).integers(0, 256, (640, 960, 3), np.uint8)), "JPEG")
    with Image.open(BytesIO(data)) as image:
        image.draft(None, (120, 80))
        assert image.size == (120, 80)  # the decoder's own eighth
        eighth = np.asarray(image)
    assert np.array_equal(np.asarray(decode_smaller(data, 120 * 80)), eighth)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_files_of_the_store_are_read_without_a_decoder_of_png(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode(picture(mode), EncodeOptions(compression=1))
    (tmp_path / "picture").write_bytes(data)
    wanted = picture(mode).tobytes()
    monkeypatch.setattr(PngImageFile, "load", lambda self: pytest.fail("Pillow decoded it"))
    for source in (data, tmp_path / "picture"):
        image = decode_plain(source)
        assert (image.mode, image.size, image.tobytes(), image.info) == (mode, SIZE, wanted, {})


def test_files_of_the_store_have_the_limits_of_all_files() -> None:
    data = encode(picture(), EncodeOptions(compression=1))
    for limits in (DecodeLimits(pixels=100), DecodeLimits(side=47), DecodeLimits(data_bytes=len(data) - 1)):
        with pytest.raises(TooLargeError):
            decode_plain(data, limits=limits)


def test_a_damaged_file_of_the_store_is_refused() -> None:
    data = encode(picture(), EncodeOptions(compression=1))
    for broken in (data[: len(data) // 2], data[:60] + b"xxxx" + data[64:]):
        with pytest.raises(DecodeError):
            decode_plain(broken)
