import base64
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.models.helpers import Media

from saccade.errors import DecodeError
from saccade.models.pictures import PictureRules, encoded_picture, fitting_size
from saccade.record.content import ImagePart

SIDES = st.integers(1, 20_000)


def opened(data: bytes) -> Image.Image:
    return Image.open(BytesIO(data))


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "GIF", "WEBP"])
def test_bytes_that_fit_are_sent_as_they_are(format_: str) -> None:
    media = Media()
    part = media.put(Image.new("RGB", (5, 4)), format_)
    picture = encoded_picture(part, media)
    assert picture.data == media.stored[part.sha256]
    assert picture.mime == f"image/{format_.lower()}"
    assert picture.url == f"data:{picture.mime};base64,{base64.b64encode(picture.data).decode()}"


@pytest.mark.parametrize("format_", ["BMP", "TIFF"])
def test_formats_that_providers_refuse_become_png(format_: str) -> None:
    media = Media()
    picture = encoded_picture(media.put(Image.new("RGB", (5, 4), "red"), format_), media)
    assert (picture.mime, opened(picture.data).getpixel((0, 0))) == ("image/png", (255, 0, 0))


def test_a_turned_photo_is_sent_upright() -> None:
    media = Media()
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = encoded_picture(media.put(Image.new("RGB", (8, 4)), "JPEG", exif=exif), media)
    assert opened(picture.data).size == (4, 8)
    assert opened(picture.data).getexif().get(0x0112, 1) == 1


def test_of_an_animation_the_first_picture_is_sent() -> None:
    media = Media()
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    picture = encoded_picture(media.put(frames[0], "GIF", save_all=True, append_images=frames[1:]), media)
    assert (picture.mime, opened(picture.data).convert("RGB").getpixel((0, 0))) == ("image/png", (255, 0, 0))


@pytest.mark.parametrize("mode", ["P", "L", "LA", "RGBA", "I;16", "1", "CMYK"])
def test_every_mode_can_be_scaled(mode: str) -> None:
    media = Media()
    format_ = "TIFF" if mode == "CMYK" else "PNG"
    picture = encoded_picture(media.put(Image.new(mode, (9, 6)), format_), media, PictureRules(side=3))
    assert opened(picture.data).size == (3, 2)


def test_too_many_bytes_become_jpeg_and_then_smaller() -> None:
    media = Media()
    noise = Image.effect_noise((200, 200), 90).convert("RGB")
    part = media.put(noise)
    encoded = encoded_picture(part, media, PictureRules(data_bytes=39_000))
    assert (encoded.mime, opened(encoded.data).size) == ("image/jpeg", (200, 200))
    small = encoded_picture(part, media, PictureRules(data_bytes=5_000))
    assert len(small.data) <= 5_000
    assert max(opened(small.data).size) < 200


@given(SIDES, SIDES, st.integers(10, 4000), st.integers(1000, 10_000_000))
def test_a_fitting_size_fits_and_is_never_larger(width: int, height: int, side: int, pixels: int) -> None:
    new = fitting_size((width, height), PictureRules(side=side, pixels=pixels))
    assert max(new) <= side
    assert min(new) == 1 or new[0] * new[1] <= pixels
    assert new[0] <= width
    assert new[1] <= height
    if max(width, height) <= side and width * height <= pixels:
        assert new == (width, height)


def test_bytes_that_are_no_picture() -> None:
    media = Media()
    media.stored["b" * 64] = b"nonsense"
    with pytest.raises(DecodeError, match="bbbbbbbbbbbb cannot be read"):
        encoded_picture(ImagePart(sha256="b" * 64, width=1, height=1), media)
