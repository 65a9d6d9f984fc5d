"""Bytes of unknown origin -> a Pillow picture, or a clear refusal.

Refuses by its header what would grow beyond the limits, and refuses truncated files, unknown formats and broken
metadata that a decoder stumbles over. A picture takes 4 bytes a pixel in memory, and twice that while it is decoded if
it must be turned or its mode be changed. Every error is a `MediaError`; no warning leaves this module. Honours the EXIF
orientation, and turns colours into sRGB by the file's profile. Does not notice what the format's own decoder does not
notice, such as a JPEG whose damaged middle still decodes, and relies on `PIL.ImageFile.LOAD_TRUNCATED_IMAGES` being
off, as it is by default.
"""

from __future__ import annotations

import math
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import urlsplit

from PIL import Image, UnidentifiedImageError
from pydantic import Field, PositiveFloat, PositiveInt

from saccade.core.png import MOST_PIXELS, quick_image
from saccade.core.registry import install
from saccade.core.settings import Settings
from saccade.errors import DecodeError, MediaError, TooLargeError, UnavailableError
from saccade.media.modes import WHITE, adopted, in_srgb, to_plain, to_rgb, upright

MIB: Final = 1024 * 1024

MIME_TYPES: Final = {
    "AVIF": "image/avif",
    "BMP": "image/bmp",
    "GIF": "image/gif",
    "HEIF": "image/heic",
    "JPEG": "image/jpeg",
    "JPEG2000": "image/jp2",
    "MPO": "image/jpeg",  # what Pillow calls a JPEG that holds further ones
    "PNG": "image/png",
    "PPM": "image/x-portable-anymap",
    "TIFF": "image/tiff",
    "WEBP": "image/webp",
}
"""The formats that are read, by Pillow's name, and their types."""

_READERS = tuple(name for name in MIME_TYPES if name not in ("MPO", "HEIF"))  # the JPEG reader finds MPO out
_SUBFILE, _REDUCED_OR_MASK = 254, 0b101  # of TIFF: what a frame is
_EXIF_ORIENTATION = 0x0112
_QUICK_BYTES = 5 * MOST_PIXELS
"""Of a file that is read as a whole: its pixels could not be larger if none were compressed."""
_MOVING = frozenset({"GIF", "WEBP", "PNG", "AVIF"})
"""Formats whose frames are shown one after the other; those of the others are pages."""

Source = bytes | Path
"""The encoded picture, or its file, which is not read as a whole."""


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """What a file may ask for. Exceeding one raises `TooLargeError` before the pixels are decoded."""

    data_bytes: int = 2048 * MIB
    """Size of the encoded file."""
    pixels: int = 500_000_000
    """Width times height of one picture."""
    side: int = 500_000
    """Longest side in pixels."""
    total_pixels: int = 400_000_000
    """Pixels of all pages together."""
    pages: int = 50
    """Of a PDF or a TIFF, where each is a picture."""
    pdf_dpi: int = 150
    """Dots per inch at which a page of a PDF becomes a picture; 1240x1754 pixels for A4."""


DEFAULT_LIMITS: Final = DecodeLimits()
_NO_LIMITS: Final = DecodeLimits(data_bytes=sys.maxsize, pixels=sys.maxsize, side=sys.maxsize)


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """Limits of a video. Exceeding one raises `TooLargeError`."""

    data_bytes: int = 4 << 30
    """Size of the encoded file."""
    pixels: int = 36_000_000
    """Width times height; 8K fits."""
    frames: int = 1_000_000
    seconds: float = 6 * 3600.0
    sampled_pixels: int = 400_000_000
    """Pixels of all sampled frames together."""


VIDEO_LIMITS: Final = VideoLimits()


class UnknownFormatError(DecodeError):
    """The bytes begin like no picture of a known format."""


@dataclass(frozen=True, slots=True)
class PictureHeader:
    """What the header of a file says."""

    format: str
    """Pillow's name of it, one of `MIME_TYPES`."""
    frames: int
    """Pictures in the file."""
    moving: bool
    """Whether they are frames of an animation; else further ones are pages."""


class Decoded(NamedTuple):
    """A picture as everything else takes it, and how that came about."""

    image: Image.Image
    """L, RGB or RGBA, upright, sRGB."""
    as_it_is: bool
    """Whether a program that knows nothing of colour profiles gets the same colours from the file."""
    note: str
    """What of the file could not be followed; empty for nothing."""


def decode(
    data: Source,
    *,
    keep_alpha: bool = False,
    background: tuple[int, int, int] = WHITE,
    limits: DecodeLimits = DEFAULT_LIMITS,
) -> Image.Image:
    """Return the (first) picture of an encoded file, upright, as RGB; with `keep_alpha` as RGBA if it has transparency.

    Without `keep_alpha`, transparency is composited on `background` (RGB, 0..255).

    Raises `TooLargeError`: the file or the picture is beyond `limits`; `DecodeError`: the bytes are broken, truncated,
    empty or of an unknown format.
    """
    plain = decode_plain(data, limits=limits)
    if keep_alpha and plain.mode == "RGBA":
        return plain
    return to_rgb(plain, background)


def decode_plain(data: Source, *, limits: DecodeLimits = DEFAULT_LIMITS) -> Image.Image:
    """Decode like `decode`, in the mode that the file has: L, RGB or RGBA. Raises the same."""
    return decode_noted(data, limits=limits).image


def decode_noted(data: Source, *, limits: DecodeLimits = DEFAULT_LIMITS) -> Decoded:
    """Decode like `decode_plain`, and note what became of the file's colours. Raises the same."""
    with _decoding(), _opened(data, limits) as image:
        if (quick := _read_quickly(data, image)) is not None:
            return Decoded(quick, True, "")
        _load(image)
        _check_size(image.size, limits)  # a GIF frame can be larger than the header said
        orientation = _orientation(image)
        colours = in_srgb(image)
        plain = upright(adopted(colours.image), orientation)
        return Decoded(plain, not colours.changed and image.format != "HEIF", colours.note)


def decode_smaller(data: Source, most_pixels: int, *, limits: DecodeLimits = DEFAULT_LIMITS) -> Image.Image:
    """Decode like `decode_plain`, scaled down to at most `most_pixels`; a JPEG is never decoded at full size for it."""
    with _decoding(), _opened(data, limits) as image:
        width, height = image.size
        scale = min(1.0, math.sqrt(most_pixels / (width * height)))
        size = max(1, math.floor(width * scale)), max(1, math.floor(height * scale))
        if image.format == "JPEG":
            image.draft(None, size)
        _load(image)
        orientation = _orientation(image)
        plain = adopted(in_srgb(image).image)
        if plain.size != size:
            plain = plain.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
        return upright(plain, orientation)


def decode_pages(data: Source, *, limits: DecodeLimits = DEFAULT_LIMITS) -> tuple[Decoded, ...]:
    """Decode every page of a TIFF that is a picture of its own, not a preview or a mask of another.

    Raises `TooLargeError`: also for more pages than `limits.pages`, or for too many pixels of all pages together;
    `DecodeError`: also if there is nothing but a preview, as in the raw files of cameras.
    """
    pages: list[Decoded] = []
    pixels = 0
    with _decoding(), _opened(data, limits) as image:
        with _quiet():
            check_pages(getattr(image, "n_frames", 1), 4 * limits.pages)  # previews and masks among them
        number = 0
        while _seek(image, number):
            number += 1
            if int(getattr(image, "tag_v2", {}).get(_SUBFILE, 0)) & _REDUCED_OR_MASK:
                continue
            check_pages(len(pages) + 1, limits.pages)
            _check_size(image.size, limits)
            pixels += image.width * image.height
            if pixels > limits.total_pixels:
                raise TooLargeError(
                    f"its first {len(pages) + 1} pages hold {pixels:,} pixels, over the limit of "
                    f"{limits.total_pixels:,}. Give fewer pages or smaller ones."
                )
            _load(image)
            orientation = _orientation(image)
            colours = in_srgb(image)
            page = colours.image.copy() if colours.image is image else colours.image
            pages.append(Decoded(upright(to_plain(page), orientation), not colours.changed, colours.note))
    if not pages:
        raise DecodeError(
            "it holds a preview only, as the raw files of cameras do. Develop it, and give the picture as JPEG or PNG."
        )
    return tuple(pages)


def header(data: Source) -> PictureHeader | None:
    """Return what the file says of itself, nothing decoded; None if it is no picture of a known format. Raises
    `DecodeError` if its header is broken.
    """
    try:
        with _decoding(), _opened(data, _NO_LIMITS) as image:
            with _quiet():
                frames = getattr(image, "n_frames", 1)
            return PictureHeader(image.format or "", frames, frames > 1 and image.format in _MOVING)
    except UnknownFormatError:
        return None


def mime_type(data: Source) -> str:
    """Return the type of an encoded picture, from its bytes. Raises `DecodeError` if the format is unknown, or its
    header is broken.
    """
    with _decoding(), _opened(data, _NO_LIMITS) as image:
        return MIME_TYPES[image.format or ""]


@contextmanager
def _decoding() -> Iterator[None]:
    """Turn whatever a decoder raises into an error of ours."""
    try:
        yield
    except (MediaError, UnavailableError):
        raise
    except MemoryError as error:
        raise TooLargeError("the picture needs more memory than there is for it. Give a smaller one.") from error
    except UnidentifiedImageError as error:
        raise UnknownFormatError(
            f"the bytes are no picture of a known format ({', '.join(_READERS)}), or their header is broken. "
            "Convert the picture to PNG or JPEG."
        ) from error
    except Exception as error:
        # Decoders of broken files raise OSError, SyntaxError, struct.error, IndexError and more; none is ours to keep.
        raise DecodeError(
            f"the picture cannot be decoded: {error or type(error).__name__}. The file is broken or was cut short; "
            "get it again from its source."
        ) from error


@contextmanager
def _opened(data: Source, limits: DecodeLimits) -> Iterator[Image.Image]:
    """Yield the file with its header read and found to be within the limits, no pixel decoded."""
    with BytesIO(data) if isinstance(data, bytes) else _file(data) as file:
        size = file.seek(0, os.SEEK_END)  # Pillow begins at the start again
        if not size:
            raise DecodeError("there are no bytes to decode: the picture is empty. Read its file again.")
        if size > limits.data_bytes:
            raise TooLargeError(
                f"the encoded picture has {size:,} bytes, over the limit of {limits.data_bytes:,}. "
                "Give a smaller one, or raise the limit (media.max_bytes)."
            )
        file.seek(0)
        head = file.read(4096)
        heic = kind(head) == "heic"
        if heic:
            load_heic()
        with _quiet(), _any_size():
            try:
                image = Image.open(file, formats=("HEIF",) if heic else _READERS)
            except UnidentifiedImageError as error:
                if heic:
                    raise DecodeError("the HEIC picture cannot be decoded. Get it again from its source.") from error
                if said := refusal(head):
                    raise UnknownFormatError(said) from error
                raise
        with image:
            _check_size(image.size, limits)
            yield image


def _file(path: Path) -> BinaryIO:
    # Opened here and not by Pillow, which would map a file that it knows by its path.
    try:
        return path.open("rb")
    except OSError as error:
        raise MediaError(f"{path} cannot be read: {error.strerror or error}. Check the path.") from error


def _check_size(size: tuple[int, int], limits: DecodeLimits) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise DecodeError(f"the picture has no pixels: its header says {width}x{height}. The file is broken.")
    if max(size) > limits.side:
        raise TooLargeError(
            f"the picture has {width}x{height} pixels: over the limit of {limits.side:,} a side. Cut it up."
        )
    if width * height > limits.pixels:
        raise TooLargeError(
            f"the picture has {width}x{height} pixels, {width * height:,} in all: over the limit of {limits.pixels:,}. "
            "Scale it down first, or raise the limit (media.max_pixels) if you trust its source."
        )


def _read_quickly(data: Source, opened: Image.Image) -> Image.Image | None:
    """Decode a file of which `opened` has read the header, if `saccade.core.png` could have written it."""
    if opened.format != "PNG" or opened.width * opened.height > MOST_PIXELS:
        return None
    if isinstance(data, bytes):
        return quick_image(data)
    return quick_image(data.read_bytes()) if data.stat().st_size <= _QUICK_BYTES else None


def _load(image: Image.Image) -> None:
    if image.format == "TIFF":  # the one decoder that warns while it reads pixels
        with _quiet():
            image.load()
    else:
        image.load()


@contextmanager
def _any_size() -> Iterator[None]:
    """Lift Pillow's own limit of pixels: ours is a setting and is checked before a pixel is decoded."""
    # Under the lock of `_quiet`: this belongs to the whole process, too.
    before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def _seek(image: Image.Image, frame: int) -> bool:
    """Go to a frame; False if there is none."""
    try:
        with _quiet():
            image.seek(frame)
    except EOFError:
        return False
    return True


def _orientation(image: Image.Image) -> int:
    # Asked after the pixels are loaded: the TIFF decoder turns the picture itself and then forgets the tag.
    try:
        with _quiet():
            value = image.getexif().get(_EXIF_ORIENTATION, 1)
    except Exception:  # broken EXIF does not make the pixels unusable
        return 1
    return value if isinstance(value, int) else 1


_warnings_lock = threading.Lock()


@contextmanager
def _quiet() -> Iterator[None]:
    """Let no warning pass. The filters belong to the whole process, so one thread at a time."""
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# How files of pictures and videos are called: one list for what users bring, what is written for others, and worlds.
#
# What a file is, its bytes say; a name only decides what a broken file is called in an error, and what a copy is
# called.


SUFFIXES: Final = {
    "application/pdf": (".pdf",),
    "image/apng": (".apng",),
    "image/avif": (".avif",),
    "image/bmp": (".bmp", ".dib"),
    "image/gif": (".gif",),
    "image/heic": (".heic", ".heif", ".hif"),
    "image/jp2": (".jp2", ".j2k", ".jpx"),
    "image/jpeg": (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"),
    "image/png": (".png",),
    "image/tiff": (".tiff", ".tif"),
    "image/webp": (".webp",),
    "image/x-portable-anymap": (".pnm", ".pbm", ".pgm", ".ppm"),
    "video/3gpp": (".3gp", ".3g2"),
    "video/mp2t": (".ts", ".m2ts", ".mts"),
    "video/mp4": (".mp4", ".m4v"),
    "video/mpeg": (".mpg", ".mpeg", ".vob"),
    "video/ogg": (".ogv", ".ogg"),
    "video/quicktime": (".mov", ".qt"),
    "video/webm": (".webm",),
    "video/x-flv": (".flv", ".f4v"),
    "video/x-matroska": (".mkv",),
    "video/x-ms-asf": (".wmv", ".asf"),
    "video/x-msvideo": (".avi",),
    "video/x-mxf": (".mxf",),
}
"""By the type that `saccade.media` finds in a file; the first ending of each is written."""
_KINDS: Final = {
    suffix: mime.partition("/")[0].replace("application", "image")
    for mime, suffixes in SUFFIXES.items()
    for suffix in suffixes
}


def broken_link(path: Path) -> str:
    """Return what is wrong with a symbolic link that leads to nothing, as the end of a sentence; else an empty text."""
    if not os.path.islink(path) or os.path.exists(path):
        return ""
    try:
        target = path.resolve(strict=True)
    except FileNotFoundError as error:
        return f"is a link to {error.filename}, which is not there"
    except (OSError, RuntimeError):
        return "is a link that leads back to itself"
    return f"is a link to {target}"


def suffixes_of(kind: str) -> tuple[str, ...]:
    """Return every ending of a file of `image` or `video`, with its dot."""
    return tuple(suffix for suffix, known in _KINDS.items() if known == kind)


def suffix_of(mime: str) -> str:
    """Return the ending of a file of that type, with its dot; empty for a type that is not listed."""
    return SUFFIXES.get(mime, ("",))[0]


def named_as(kind: str, name: str) -> bool:
    """Return whether a file's name or address ends as those of `image` or `video` do."""
    path = urlsplit(name).path if "://" in name else name
    return _KINDS.get(PurePosixPath(path).suffix.lower()) == kind


_SCHEMES = ("http://", "https://")


def is_url(text: str) -> bool:
    """Return whether `text` is meant as an address of the web and not as a path."""
    return text.lower().startswith(_SCHEMES)


_LEAST_SHOWN: Final = 28 * 28
_LIMITS: Final = DecodeLimits()
_VIDEO_LIMITS: Final = VideoLimits()


class MediaSettings(Settings):
    """Of the pictures of any task."""

    max_pixels: PositiveInt = _LIMITS.pixels
    """Width times height of one picture. Decoding takes 8 bytes a pixel for a moment, then 4 while a sandbox has it."""
    max_bytes: PositiveInt = _LIMITS.data_bytes
    """Of a picture's file."""
    pages: PositiveInt = _LIMITS.pages
    """Most pages of a PDF or a TIFF; each is a picture."""
    pdf_dpi: int = Field(_LIMITS.pdf_dpi, ge=18, le=1200)
    """Dots per inch at which a page of a PDF is drawn; A4 has 1240x1754 pixels at 150."""
    shown_pixels: int = Field(36_000_000, ge=_LEAST_SHOWN)
    """A larger picture is shown to the model scaled down to it, with a line that says so; code has it at full size."""

    @property
    def limits(self) -> DecodeLimits:
        return DecodeLimits(data_bytes=self.max_bytes, pixels=self.max_pixels, pages=self.pages, pdf_dpi=self.pdf_dpi)


class OwnMediaSettings(MediaSettings):
    """Of pictures and videos that a user brings."""

    max_video_bytes: PositiveInt = _VIDEO_LIMITS.data_bytes
    """Of a video's file; for code to read it, `session.file_bytes` must allow it too."""
    allow_urls: bool = False
    """Whether http:// and https:// addresses are downloaded."""
    url_bytes: PositiveInt = 256 << 20
    """Most bytes of one download."""
    url_seconds: PositiveFloat = 60.0
    """Longest time of one download."""

    @property
    def video_limits(self) -> VideoLimits:
        return VideoLimits(data_bytes=self.max_video_bytes)


_HEAD: Final = 4096
_HEIC: Final = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs")
_HEIF: Final = (*_HEIC, b"mif1", b"mif2", b"msf1")


def kind(head: bytes) -> str:
    """Return `pdf`, `heic`, or an empty text for everything else, from the first bytes of a file."""
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head[4:8] == b"ftyp":
        brands = head[16 : int.from_bytes(head[:4], "big")]
        compatible = {brands[at : at + 4] for at in range(0, len(brands), 4)}
        if head[8:12] in _HEIC or (compatible.intersection(_HEIC[:4]) and head[8:12] not in (b"avif", b"avis")):
            return "heic"
        return "heic" if head[8:12] in _HEIF and b"avif" not in compatible else ""
    return ""


def first_bytes(data: Source) -> bytes:
    """Return the beginning of a file. Raises `MediaError` if it cannot be read."""
    if isinstance(data, bytes):
        return data[:_HEAD]
    try:
        with data.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise MediaError(f"{data} cannot be read: {error.strerror or error}. Check the path.") from error


def check_pages(pages: int, most: int) -> None:
    """Raise `TooLargeError` for more pages than `most`."""
    if pages > most:
        raise TooLargeError(
            f"it has {pages:,} pages, over the limit of {most:,}. Give those that matter, or raise the limit "
            "(media.pages)."
        )


_NOT_READ: Final[tuple[tuple[str, str, str], ...]] = (
    (
        r"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*|<!--.*?-->\s*|<!DOCTYPE svg.*?>\s*)*<(svg:)?svg[\s>]",
        "SVG",
        "It is a drawing without a size in pixels: export it as PNG, as with `rsvg-convert drawing.svg -o a.png`",
    ),
    (r"\x1f\x8b", "compressed by gzip (as .svgz is)", "Unpack it; export an SVG as PNG"),
    (r"\xff\x0a|\x00\x00\x00\x0cJXL \r\n", "JPEG XL", "Convert it to PNG, as with `djxl a.jxl a.png`"),
    (r"8BPS", "Photoshop", "Export it as PNG"),
    (r"%!PS|\xc5\xd0\xd3\xc6", "PostScript", "Convert it to PDF, as with `ps2pdf`, or to PNG"),
    (r"PK\x03\x04", "an archive, as the documents of offices are", "Export the document as PDF, or unpack the archive"),
    (r"\xd0\xcf\x11\xe0", "a document of an older office program", "Export it as PDF"),
    (r"\{\\rtf", "RTF", "Export it as PDF"),
    (r".{128}DICM", "DICOM", "Export its pictures as PNG"),
    (r"(\xef\xbb\xbf)?\s*<(!doctype )?html", "a page of the web", "Save the picture that the page shows"),
    (r"version https://git-lfs", "a pointer of Git LFS and not the file", "Fetch the file with `git lfs pull`"),
)
"""Beginning of a file -> what it is, and what to do."""


def refusal(head: bytes) -> str:
    """Return what a file is that is not read, and what to do about it; empty if its first bytes say nothing."""
    if kind(head) == "pdf":
        return "it is a PDF, and one picture was asked for. Save the page that is meant as PNG."
    wide = head.startswith((b"\xff\xfe<\0", b"\xfe\xff\0<"))
    text = head[:_HEAD].decode("utf-16" if wide else "latin-1", "replace")
    for beginning, name, advice in _NOT_READ:
        if re.match(beginning, text, re.DOTALL | re.IGNORECASE):
            return f"it is {name}, which is not read here. {advice}."
    return ""


_registered = False


def load_heic() -> None:
    """Teach Pillow to read HEIC. Raises `UnavailableError` without the extra `heic`."""
    global _registered
    if _registered:
        return
    try:
        import pillow_heif
    except ImportError as error:
        raise UnavailableError(
            f"it is a HEIC picture, which needs pillow-heif: {install('heic')}. Or convert it to JPEG."
        ) from error
    pillow_heif.register_heif_opener(thumbnails=False)
    _registered = True
