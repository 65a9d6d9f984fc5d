"""Files of telephones, scanners and offices: each is read right, or the refusal says what it is and what to do."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from saccade.errors import DecodeError, MediaError, TooLargeError
from saccade.media.decode import DecodeLimits, UnknownFormatError, decode, decode_pages, decode_smaller, kind, refusal
from saccade.media.modes import in_srgb
from saccade.media.store import MediaStore

pillow_heif = pytest.importorskip("pillow_heif", reason="the extra `heic` is not installed")
pytest.importorskip("pypdfium2", reason="the extra `pdf` is not installed")

P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))
"""Red, green and blue of Display P3 as XYZ under D50, as its profile states them."""
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
_SRGB_CURVE = (
    b"para"
    + bytes(4)
    + struct.pack(
        ">HH5i", 3, 0, *(round(value * 65536) for value in (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045))
    )
)


def profile(space: bytes, tags: dict[bytes, bytes], connection: bytes = b"XYZ ") -> bytes:
    """An ICC profile of version 2 with these tags."""
    tags = {b"wtpt": xyz(0.9642, 1.0, 0.8249), **tags}
    at, table, body = 132 + 12 * len(tags), b"", b""
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        table += name + struct.pack(">II", at + len(body), len(data))
        body += data
    kind_of = b"prtr" if space == b"CMYK" else b"mntr"
    head = struct.pack(">I4sI4s4s4s", 132 + len(table) + len(body), bytes(4), 0x02400000, kind_of, space, connection)
    head += bytes(12) + b"acsp" + bytes(28) + struct.pack(">3i", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def xyz(*values: float) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *(round(value * 65536) for value in values))


def matrix(primaries: tuple[tuple[float, ...], ...]) -> bytes:
    curves = dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), _SRGB_CURVE)
    return profile(
        b"RGB ", {**{n: xyz(*p) for n, p in zip((b"rXYZ", b"gXYZ", b"bXYZ"), primaries, strict=True)}, **curves}
    )


def grey(gamma: float) -> bytes:
    return profile(b"GRAY", {b"kTRC": b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256))})


def inks() -> bytes:
    """CMYK whose only ink that counts is black: paper is L* 100, black is L* 0, all grey."""
    points = b"".join(bytes((0 if black else 255, 128, 128)) for _ in range(8) for black in (0, 1))
    table = b"mft1" + bytes(4) + bytes((4, 3, 2, 0)) + struct.pack(">9i", *(65536 * (i % 4 == 0) for i in range(9)))
    straight = bytes(range(256))
    return profile(b"CMYK", {b"A2B0": table + straight * 4 + points + straight * 3}, b"Lab ")


def saved(image: Image.Image, format_: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format_, **options)
    return out.getvalue()


def plain(colour: Any, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (8, 6), colour)


@pytest.mark.parametrize(
    ("given", "wanted"),  # by the matrices of both spaces and their common curve, by hand; beyond sRGB is clipped
    [
        ((255, 255, 255), (255, 255, 255)),
        ((0, 0, 0), (0, 0, 0)),
        ((128, 128, 128), (128, 128, 128)),
        ((200, 100, 50), (215, 93, 31)),
        ((255, 0, 0), (255, 0, 0)),
        ((100, 150, 100), (83, 152, 95)),
    ],
)
@pytest.mark.parametrize("format_", ["PNG", "TIFF", "WEBP", "HEIF"])
def test_display_p3_becomes_srgb(format_: str, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    exact = {"WEBP": {"lossless": True}, "HEIF": {"quality": -1, "chroma": 444, "matrix_coefficients": 0}}
    pillow_heif.register_heif_opener()
    data = saved(plain(given), format_, icc_profile=matrix(P3), **exact.get(format_, {}))
    for read in (decode(data), decode_smaller(data, 20)):
        found = read.convert("RGB").getpixel((1, 1))
        assert isinstance(found, tuple)
        assert max(abs(one - other) for one, other in zip(found, wanted, strict=True)) <= 2, (format_, found)


def test_colours_that_are_srgb_already_keep_their_file_and_others_lose_it(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    for icc, kept in ((matrix(SRGB), True), (matrix(P3), False), (b"", True), (b"nonsense", True)):
        data = saved(plain((200, 100, 50)), "JPEG", **({"icc_profile": icc} if icc else {}))
        part = store.put_bytes(data)
        assert (store.get_bytes(part.sha256) == data) is kept, icc[:8]
        (tmp_path / "a.jpg").write_bytes(data)
        assert store.put_file(tmp_path / "a.jpg") == part
        assert "icc_profile" not in store.open(part).decode().info


def test_transparency_survives_and_grey_stays_grey() -> None:
    clear = plain((200, 100, 50, 77), "RGBA")
    clear.info["icc_profile"] = matrix(P3)
    turned = in_srgb(clear)
    assert (turned.changed, turned.image.getpixel((0, 0))) == (True, (215, 93, 31, 77))
    shade = plain(128, "L")
    shade.info["icc_profile"] = grey(1.0)  # linear light of one half is 188 of sRGB
    turned = in_srgb(shade)
    assert (turned.image.mode, turned.image.getpixel((0, 0))) == ("L", 188)
    shade.info["icc_profile"] = matrix(P3)
    assert (in_srgb(shade).changed, in_srgb(shade).note) == (False, "")  # grey is grey in both
    indexed = plain((200, 100, 50)).convert("P", palette=Image.Palette.ADAPTIVE)
    indexed.info["icc_profile"] = matrix(P3)
    assert in_srgb(indexed).image.convert("RGB").getpixel((0, 0)) == (215, 93, 31)


def test_inks_follow_their_profile_and_are_stored_as_pixels(tmp_path: Path) -> None:
    cyan = plain((255, 0, 0, 0), "CMYK")
    data = saved(cyan, "TIFF", icc_profile=inks())
    assert np.asarray(decode(data)).min() > 250  # of these inks only black is seen
    black = decode(saved(plain((0, 0, 0, 255), "CMYK"), "TIFF", icc_profile=inks()))
    assert np.asarray(black).max() < 6
    store = MediaStore(tmp_path)
    for given in (data, saved(cyan, "JPEG")):
        part = store.put_bytes(given)
        assert (part.mime, part.mode) == ("image/png", "RGB")


@pytest.mark.parametrize(
    ("mode", "icc", "says"),
    [
        ("RGB", b"nonsense", "cannot be read"),
        ("RGB", matrix(P3)[:200], "cannot be read"),
        ("RGB", b"\0" * 300, "cannot be read"),
        ("RGB", inks(), "is for CMYK and its pixels are RGB"),
        ("CMYK", matrix(P3), "is for RGB and its pixels are CMYK"),
        ("RGB", grey(1.0), "is for L and its pixels are RGB"),
        ("RGB", profile(b"Lab ", {}), "is for Lab"),
    ],
)
def test_a_profile_that_cannot_be_followed_is_left_out_with_a_line(
    mode: str, icc: bytes, says: str, tmp_path: Path
) -> None:
    image = plain((200, 100, 50, 0)[: len(mode)], mode)
    pages = MediaStore(tmp_path).put_pages(saved(image, "TIFF", icc_profile=icc))
    assert says in pages.note
    without = decode(saved(image, "TIFF"))
    assert decode(saved(image, "TIFF", icc_profile=icc)).tobytes() == without.tobytes()


def test_a_telephones_picture_is_upright_cut_as_it_asks_and_stored_as_png(tmp_path: Path) -> None:
    pillow_heif.register_heif_opener()
    photo = Image.new("RGB", (64, 48), "red")
    photo.paste("blue", (0, 0, 32, 48))
    exif = Image.Exif()
    exif[0x0112] = 6
    store = MediaStore(tmp_path)
    turned = store.put_pages(saved(photo, "HEIF", quality=90, exif=exif.tobytes())).parts[0]
    assert (turned.width, turned.height, turned.mime) == (48, 64, "image/png")
    found = store.open(turned).decode().getpixel((24, 8))
    assert isinstance(found, tuple)
    assert found[2] > 200 > 60 > found[0]
    several = pillow_heif.from_pillow(photo)
    several.add_from_pillow(Image.new("RGB", (20, 10), "green"))
    out = io.BytesIO()
    several.save(out, quality=90)
    pages = store.put_pages(out.getvalue())
    assert (len(pages.parts), pages.parts[0].width) == (1, 64)
    assert "2 pictures: the main one is used" in pages.note
    whole = saved(photo, "HEIF")
    for cut in (whole[: len(whole) // 2], whole[:40]):
        with pytest.raises(DecodeError):
            store.put_pages(cut)


@pytest.mark.parametrize(
    ("head", "is_"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "heic"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "heic"),
        (b"\0\0\0\x18ftypheif\0\0\0\0mif1heic", "heic"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", ""),
        (b"\0\0\0\x18ftypavif\0\0\0\0mif1avif", ""),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", ""),
        (b"%PDF-1.7\n", "pdf"),
        (b"\xef\xbb\xbf\r\njunk before %PDF-1.4", "pdf"),
        (b"", ""),
    ],
)
def test_the_first_bytes_tell(head: bytes, is_: str) -> None:
    assert kind(head) == is_


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG.*PNG"),
        (
            b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- a\nb -->\n<!DOCTYPE svg PUBLIC '-//W3C//DTD' 'x'>\n<svg>",
            "SVG",
        ),
        (b"<svg:svg xmlns:svg='x'>", "SVG"),
        ("\ufeff<svg xmlns='x'>".encode("utf-16-le"), "SVG"),
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"\xff\x0a\x00", "JPEG XL"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"8BPS\0\1", "Photoshop"),
        (b"PK\x03\x04", "PDF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "PDF"),
        (b"%!PS-Adobe-3.0", "ps2pdf"),
        (bytes(128) + b"DICM", "DICOM"),
        (b"<!DOCTYPE html><html>", "page of the web"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_what_is_not_read_is_named_with_what_to_do(data: bytes, says: str, tmp_path: Path) -> None:
    assert re.search(says, refusal(data), re.DOTALL)
    with pytest.raises(UnknownFormatError, match=f"(?s){says}"):
        MediaStore(tmp_path).put_pages(data)


def test_each_page_of_a_pdf_is_a_picture(tmp_path: Path) -> None:
    store = MediaStore(tmp_path, limits=DecodeLimits(pdf_dpi=72))
    colours = ("red", "green", "blue")
    first, *others = (Image.new("RGB", (200 + 10 * at, 100), colour) for at, colour in enumerate(colours))
    data = saved(first, "PDF", save_all=True, append_images=others)
    (tmp_path / "a.pdf").write_bytes(data)
    pages = store.put_pages(tmp_path / "a.pdf")
    assert [(part.width, part.height, part.mime) for part in pages.parts] == [
        (200 + 10 * at, 100, "image/png") for at in range(3)
    ]
    middle = store.open(pages.parts[1]).decode().getpixel((100, 50))
    assert isinstance(middle, tuple)
    assert middle[1] > 100 > middle[0]
    assert store.put_pages(data) == pages
    twice = MediaStore(tmp_path, limits=DecodeLimits(pdf_dpi=144)).put_pages(data)
    assert (twice.parts[0].width, twice.parts[0].height) == (400, 200)
    with pytest.raises(TooLargeError, match=r"3 pages, over the limit of 2\..*media\.pages"):
        MediaStore(tmp_path, limits=DecodeLimits(pages=2)).put_pages(data)
    with pytest.raises(TooLargeError, match=r"page 1 has 400x200 pixels.*media\.pdf_dpi"):
        MediaStore(tmp_path, limits=DecodeLimits(pdf_dpi=144, pixels=1000)).put_pages(data)


def test_a_broken_or_locked_pdf_is_refused(tmp_path: Path) -> None:
    whole = saved(plain("red"), "PDF")
    store = MediaStore(tmp_path)
    for data in (b"%PDF-1.7\n", whole[:100], b"%PDF-" + bytes(2000)):
        with pytest.raises(DecodeError, match="PDF"):
            store.put_pages(data)
    with pytest.raises(DecodeError, match="password: save it without"):
        store.put_pages(locked())
    with pytest.raises(MediaError, match="cannot be read"):
        store.put_pages(tmp_path / "none.pdf")


def test_pages_of_a_scan_are_pictures_and_its_previews_are_not(tmp_path: Path) -> None:
    pages = [Image.new("L", (40, 30), shade) for shade in (10, 120, 240)]
    data = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    store = MediaStore(tmp_path)
    assert [store.open(part).decode().getpixel((0, 0)) for part in store.put_pages(data).parts] == [10, 120, 240]
    with pytest.raises(TooLargeError, match="over the limit of 2"):
        decode_pages(data, limits=DecodeLimits(pages=2))
    with pytest.raises(TooLargeError, match="pages hold 2,400 pixels"):
        decode_pages(data, limits=DecodeLimits(total_pixels=1300))
    tag = struct.pack("<HHII", 254, 4, 1, 1)
    previews = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:], tiffinfo={254: 1})
    assert previews.count(tag) == 3
    marked = previews.replace(tag, tag[:8] + bytes(4), 1)
    assert [store.open(part).decode().getpixel((0, 0)) for part in store.put_pages(marked).parts] == [10]
    preview = saved(pages[0], "TIFF", tiffinfo={254: 1})
    with pytest.raises(DecodeError, match=r"preview only.*raw files of cameras"):
        store.put_pages(preview)


def locked() -> bytes:
    """A PDF whose keys fit no password, so that the empty one is wrong."""
    bodies = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]>>",
        b"<</Filter/Standard/V 1/R 2/P -4/O<" + b"11" * 32 + b">/U<" + b"22" * 32 + b">>>",
    )
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<</Size 5/Root 1 0 R/Encrypt 4 0 R/ID[<33><33>]>>\nstartxref\n%d\n%%%%EOF\n" % len(out)
    return out + b"xref\n0 5\n0000000000 65535 f \n" + table + trailer
