"""Encoding with stated options; data URLs tell the true type."""

import base64

import numpy as np
import pytest
from PIL import Image

from saccade.errors import DecodeError, MediaError, TooLargeError
from saccade.media.decode import decode, decode_plain, mime_type
from saccade.media.encode import EncodeOptions, data_url, encode


def gradient(mode: str = "RGBA") -> Image.Image:
    y, x = np.mgrid[0:40, 0:60]
    return Image.fromarray(np.stack([4 * x, 6 * y, x + y, 255 - 4 * x], axis=-1).astype(np.uint8)).convert(mode)


@pytest.mark.parametrize(
    "options", [EncodeOptions(compression=0), EncodeOptions(), EncodeOptions("WEBP", lossless=True)]
)
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_lossless(options: EncodeOptions, mode: str) -> None:
    image = gradient(mode)
    again = decode_plain(encode(image, options))
    wanted = image if again.mode == mode else image.convert(again.mode)  # WebP has no grey
    assert again.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("format", ["JPEG", "WEBP"])
def test_quality_costs_bytes(format: str) -> None:
    image = gradient("RGB")
    low, high = (encode(image, EncodeOptions(format, quality=quality)) for quality in (10, 95))  # type: ignore[arg-type]
    assert len(low) < len(high)
    assert np.abs(np.asarray(decode(high), int) - np.asarray(image, int)).mean() < 6


def test_jpeg_composites_transparency() -> None:
    clear = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
    data = encode(clear, EncodeOptions("JPEG", background=(200, 100, 50)))
    assert np.abs(np.array(decode(data).getpixel((8, 8)), int) - (200, 100, 50)).max() <= 3


def test_same_picture_same_bytes_and_no_metadata() -> None:
    image = gradient("RGB")
    marked = image.copy()
    marked.info["dpi"] = (300, 300)
    marked.info["comment"] = "secret"
    for format in ("PNG", "JPEG", "WEBP"):
        options = EncodeOptions(format)  # type: ignore[arg-type]
        assert encode(image, options) == encode(image, options) == encode(marked, options)


def test_other_modes_are_made_plain() -> None:
    assert decode_plain(encode(gradient("P"))).mode in ("RGB", "RGBA")
    assert decode_plain(encode(Image.new("I;16", (4, 4), 65_535))).getpixel((0, 0)) == 255


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_data_url_has_the_true_type(format: str) -> None:
    options = EncodeOptions(format)  # type: ignore[arg-type]
    url = data_url(encode(gradient("RGB"), options))
    head, _, body = url.partition(",")
    data = base64.b64decode(body, validate=True)
    assert head == f"data:image/{format.lower()};base64"
    assert mime_type(data) == f"image/{format.lower()}"


def test_data_url_of_no_picture() -> None:
    with pytest.raises(DecodeError):
        data_url(b"plain text")


def test_what_a_format_cannot_hold() -> None:
    with pytest.raises(TooLargeError, match="use PNG"):
        encode(Image.new("L", (16_400, 1)), EncodeOptions("WEBP"))
    with pytest.raises(MediaError, match="holds nothing"):
        encode(Image.new("RGB", (0, 5)))


@pytest.mark.parametrize("change", [{"quality": 0}, {"quality": 101}, {"compression": 10}, {"format": "GIF"}])
def test_options_out_of_range(change: dict[str, object]) -> None:
    with pytest.raises(MediaError):
        EncodeOptions(**change)  # type: ignore[arg-type]
