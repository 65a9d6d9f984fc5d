"""Encoded media on disk, each under the sha256 of its bytes.

    store = MediaStore("runs/1/media")
    part = store.put_image(picture)          # -> ImagePart, to put into a record
    store.open(part).decode()                # -> the pixels again

Bytes are written to a temporary file, flushed to the disk and renamed, so an object is whole or absent, also when the
writer is killed or two processes write the same picture. The store never deletes an object and does not notice a
disk that decays, unless it was made with `verify=True`.
"""

from __future__ import annotations

import base64
import errno
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, field
from hashlib import sha256 as _sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from PIL import Image

from saccade.core.disk import sync, writing
from saccade.core.png import quick_png
from saccade.errors import MediaError, MissingMediaError, TooLargeError
from saccade.media.decode import (
    DEFAULT_LIMITS,
    VIDEO_LIMITS,
    DecodeLimits,
    VideoLimits,
    decode_noted,
    decode_pages,
    decode_plain,
    decode_smaller,
    first_bytes,
    header,
    kind,
    mime_type,
)
from saccade.media.modes import PLAIN_MODES, WHITE, in_srgb, to_plain, to_rgb
from saccade.record.content import ImageMode, ImagePart, VideoPart

# Pictures -> bytes of a stated format, and data URLs with the true type.
#
# The same picture, options, library versions and kind of processor give the same bytes; others may compress
# differently. Metadata is never written.

if TYPE_CHECKING:
    from saccade.media.video import VideoFacts

ImageFormat = Literal["PNG", "JPEG", "WEBP"]


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """How a picture is encoded. PNG is lossless; JPEG has no transparency."""

    format: ImageFormat = "PNG"
    quality: int = 90
    """Of JPEG and lossy WebP, 1..100."""
    lossless: bool = False
    """Of WebP."""
    compression: int = 6
    """Of PNG, 0 (large) to 9. At 1 it is written by `saccade.core.png`, which tries one filter only."""
    background: tuple[int, int, int] = WHITE
    """RGB below the transparency, for JPEG."""

    def __post_init__(self) -> None:
        if self.format not in ("PNG", "JPEG", "WEBP"):
            raise MediaError(f"cannot encode as {self.format!r}; use PNG, JPEG or WEBP")
        if not 1 <= self.quality <= 100:
            raise MediaError(f"quality is {self.quality}; it goes from 1 to 100")
        if not 0 <= self.compression <= 9:
            raise MediaError(f"compression is {self.compression}; it goes from 0 to 9")


PNG = EncodeOptions()


def encode(image: Image.Image, options: EncodeOptions = PNG) -> bytes:
    """Return the encoded picture. Modes other than L, RGB and RGBA are first made plain. Raises `MediaError` if the
    picture is empty or has no plain form, `TooLargeError` if a side is longer than the format can hold.
    """
    if not (image.width and image.height):
        raise MediaError(f"cannot encode a picture of {image.width}x{image.height} pixels; it holds nothing")
    plain = image if image.mode in PLAIN_MODES and not image.info else to_plain(image)
    if options.format == "JPEG" and plain.mode == "RGBA":
        plain = to_rgb(plain, options.background)
    parameters: dict[str, Any] = {
        "PNG": {"compress_level": options.compression},
        "JPEG": {"quality": options.quality},
        "WEBP": {"quality": options.quality, "lossless": options.lossless, "exact": options.lossless},
    }[options.format]
    if options.format == "PNG" and options.compression == 1:
        return quick_png(plain)
    out = BytesIO()
    try:
        plain.save(out, options.format, **parameters)
    except (OSError, ValueError) as error:
        raise TooLargeError(
            f"{options.format} cannot hold a picture of {plain.width}x{plain.height} pixels ({error}). "
            "Scale it down, or use PNG."
        ) from error
    return out.getvalue()


def data_url(data: bytes) -> str:
    """Return `data:image/...;base64,...` of an encoded picture; the type is that of its bytes. Raises `DecodeError` if
    the bytes are no picture of a known format.
    """
    return f"data:{mime_type(data)};base64,{base64.b64encode(data).decode('ascii')}"


def from_base64(text: str) -> bytes:
    """Return the bytes of base64 as clients write it: with line breaks, without padding, in the alphabet of URLs.

    Raises `ValueError`: it is no base64.
    """
    plain = "".join(text.split()).translate(_URL_SAFE).rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


_URL_SAFE: Final = str.maketrans("-_", "+/")
_log = logging.getLogger(__name__)
_OF_READING = (errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ENOTDIR, errno.EPERM)
_HEX = re.compile(r"[0-9a-f]{64}")
# A picture that a sandbox shows is stored once and read often, by `saccade.core.png`.
_FAST_PNG = EncodeOptions("PNG", compression=1)


@dataclass(frozen=True, slots=True)
class StoredImage:
    """A picture in the store that is decoded when it is asked for; a new Pillow image every time."""

    sha256: str
    width: int
    height: int
    mode: ImageMode
    _store: MediaStore = field(repr=False)

    def decode(self) -> Image.Image:
        """Return the pixels, in mode L, RGB or RGBA and of the stated size. Raises `MissingMediaError` if the store
        holds no such bytes, `MediaError` if the stored picture is not the one that was described.
        """
        image = decode_plain(self._store.source(self.sha256), limits=self._store.limits)
        if (image.size, image.mode) != ((self.width, self.height), self.mode):
            raise MediaError(
                f"{self.sha256} is {image.mode} of {image.width}x{image.height} pixels, but its record says "
                f"{self.mode} of {self.width}x{self.height}. The record is wrong: put the picture again."
            )
        return image

    def encoded(self) -> bytes:
        """Return the bytes of its file. Raises `MissingMediaError` if there are none."""
        return self._store.get_bytes(self.sha256)


class Pages(NamedTuple):
    """The pictures of one file."""

    parts: tuple[ImagePart, ...]
    note: str = ""
    """What of the file could not be followed, or is left out; empty for nothing."""


@dataclass(slots=True)
class _Writes:
    """What stores of one folder share."""

    begun: bool = False


class MediaStore:
    """A folder of encoded media, named by content. Safe to use from several threads and processes at once."""

    def __init__(
        self, root: str | os.PathLike[str], *, verify: bool = False, limits: DecodeLimits = DEFAULT_LIMITS
    ) -> None:
        """Open a store at `root`, which is made when first needed. `verify` hashes the bytes again at every read."""
        self.root = Path(root)
        self.verify = verify
        self.limits = limits
        self._writes = _Writes()

    @property
    def written(self) -> bool:
        """Whether this process put anything here, through this store or one that `limited` gave of it."""
        return self._writes.begun

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs; it may work in another folder, so the root is absolute."""
        return self.__dict__ | {"root": self.root.absolute()}

    def put_image(self, image: Image.Image) -> ImagePart:
        """Store the pixels losslessly, as PNG, in sRGB. Modes other than L, RGB and RGBA are made plain first."""
        if "icc_profile" in image.info:
            image, _, note = in_srgb(image)
            if note:
                _log.warning("a picture of %dx%d pixels: %s", *image.size, note)
        plain = image if image.mode in PLAIN_MODES and not image.info else to_plain(image)
        name = self.put_blob(encode(plain, _FAST_PNG))
        return _part(name, plain, "image/png")

    def put_bytes(self, data: bytes) -> ImagePart:
        """Store an encoded picture as it is, after it was decoded once to see that it can be.

        One whose colours are not sRGB, or whose format programs do not know, is stored as PNG: what follows takes
        colours as sRGB.

        Raises `TooLargeError`: it is beyond the store's limits; `DecodeError`: it is no picture, or a broken one;
        `UnavailableError`: what reads its format is not installed.
        """
        return _said(*self._put(data))

    def put_file(self, path: str | os.PathLike[str]) -> ImagePart:
        """Store a file like `put_bytes`, not reading it whole. Raises the same, and `MediaError` if there is none."""
        return _said(*self._put(Path(path)))

    def put_pages(self, source: bytes | Path) -> Pages:
        """Store like `put_bytes`; of a PDF, and of a TIFF with several pages, each page is a picture.

        Raises `TooLargeError`: also for more pages than the store's limits allow.
        """
        limits, head = self.limits, first_bytes(source)
        if kind(head) == "pdf":
            from saccade.media.documents import pdf_pages

            drawn = pdf_pages(source, most=limits.pages, dpi=limits.pdf_dpi, pixels=limits.pixels)
            return Pages(tuple(self.put_image(page) for page in drawn))
        about = header(source) if kind(head) or head[:2] in (b"II", b"MM") else None
        if about is not None and about.format == "TIFF":
            pages = decode_pages(source, limits=limits)
            if about.frames > 1:
                notes = dict.fromkeys(page.note for page in pages if page.note)
                return Pages(tuple(self.put_image(page.image) for page in pages), "; ".join(notes))
        part, note = self._put(source)
        if about is not None and about.frames > 1:
            note = "; ".join(filter(None, (f"it holds {about.frames} pictures: the main one is used", note)))
        return Pages((part,), note)

    def _put(self, source: bytes | Path) -> tuple[ImagePart, str]:
        """Store one picture; say what of its file could not be followed."""
        if isinstance(source, bytes):
            found = decode_noted(source, limits=self.limits)
            if found.as_it_is:
                return _part(self.put_blob(source), found.image, mime_type(source)), found.note
            return self.put_image(found.image), found.note
        with self._new_partial() as partial:
            name = _copy(source, partial, self.limits.data_bytes, "media.max_bytes")
            found, mime = decode_noted(partial, limits=self.limits), mime_type(partial)
            if found.as_it_is:
                self._adopt(partial, name)
        part = _part(name, found.image, mime) if found.as_it_is else self.put_image(found.image)
        return part, found.note

    def put_smaller(self, part: ImagePart, most_pixels: int, data: bytes | None = None) -> ImagePart:
        """Store the picture `part` again, scaled down to `most_pixels`: as JPEG, as PNG if it has transparency.

        `data` is its file, where this store does not have it. Raises as `open` and `decode` do.
        """
        source = self.source(part.sha256) if data is None else data
        image = decode_smaller(source, most_pixels, limits=self.limits)
        clear = image.mode == "RGBA"
        options, mime = (_FAST_PNG, "image/png") if clear else (EncodeOptions("JPEG", quality=92), "image/jpeg")
        return _part(self.put_blob(encode(image, options)), image, mime)

    def put_video(
        self, video: bytes | str | os.PathLike[str], *, limits: VideoLimits = VIDEO_LIMITS, name: str = ""
    ) -> VideoPart:
        """Store an encoded video, or the file at a path, as it is, after `media.video.probe` has looked at it.

        Raises `MediaError`: as `probe` does; it calls the video `name`, or by its path.
        """
        from saccade.media.video import probe

        if isinstance(video, bytes):
            facts = probe(video, limits=limits, name=name)
            return _video_part(self.put_blob(video), facts)
        with self._new_partial() as partial:
            digest = _copy(video, partial, limits.data_bytes, "media.max_video_bytes")
            facts = probe(partial, limits=limits, name=name or os.fspath(video))
            self._adopt(partial, digest)
        return _video_part(digest, facts)

    def put_blob(self, data: bytes) -> str:
        """Store any bytes and return their sha256; they are on the disk when this returns."""
        name = _sha256(data).hexdigest()
        if self._holds(self.path(name), data):
            return name
        with writing(self.path(name)), self._new_partial() as partial:
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._adopt(partial, name)
        return name

    def get_bytes(self, sha256: str) -> bytes:
        """Return the stored bytes.

        Raises `MissingMediaError`: there are none; `MediaError`: with `verify`, they are not the bytes that were
        stored.
        """
        try:
            data = self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise self._missing(sha256) from None
        if self.verify and _sha256(data).hexdigest() != sha256:
            raise MediaError(f"{self.path(sha256)} is damaged: delete it and put the same media again")
        return data

    def source(self, sha256: str) -> bytes | Path:
        """Return what decoders read: the file, or its verified bytes. Raises as `get_bytes` does."""
        if self.verify:
            return self.get_bytes(sha256)
        if sha256 not in self:
            raise self._missing(sha256)
        return self.path(sha256)

    def limited(self, limits: DecodeLimits) -> MediaStore:
        """Return the same folder with other limits for pictures."""
        other = copy(self)
        other.limits = limits
        return other

    def open(self, part: ImagePart) -> StoredImage:
        """Return the picture that a record names, not decoded yet. Raises `MissingMediaError` if it is not here."""
        if part.sha256 not in self:
            raise self._missing(part.sha256)
        return StoredImage(part.sha256, part.width, part.height, part.mode, self)

    def __contains__(self, item: str | ImagePart | VideoPart) -> bool:
        return self.path(item if isinstance(item, str) else item.sha256).is_file()

    def path(self, sha256: str) -> Path:
        """Return where the bytes are or would be, in one of 256 folders. Raises `MediaError` if it is no sha256."""
        if not _HEX.fullmatch(sha256):
            raise MediaError(f"{sha256!r} is no sha256: 64 lower-case hexadecimal digits")
        return self.root / sha256[:2] / sha256

    def sweep(self, older_than_seconds: float = 3600.0) -> int:
        """Delete temporary files that killed writers left, and return how many.

        A writer that is still busy with a file older than that loses its write with a FileNotFoundError.
        """
        latest = time.time() - older_than_seconds
        swept = 0
        for partial in self._partial.glob("*"):
            try:
                if partial.stat().st_mtime <= latest:
                    partial.unlink()
                    swept += 1
            except FileNotFoundError:
                continue  # renamed by its writer, or swept by another process
        return swept

    def _missing(self, sha256: str) -> MissingMediaError:
        return MissingMediaError(
            f"the media store {self.root} holds no {sha256}. Copy the run's media folder along with its records."
        )

    @property
    def _partial(self) -> Path:
        return self.root / "partial"

    @contextmanager
    def _new_partial(self) -> Iterator[Path]:
        """Yield a free name for a file that is being written; the file is removed unless it was adopted."""
        self._writes.begun = True
        self._partial.mkdir(parents=True, exist_ok=True)
        partial = self._partial / f"{os.getpid()}.{secrets.token_hex(8)}"
        try:
            yield partial
        finally:
            partial.unlink(missing_ok=True)

    def _adopt(self, partial: Path, name: str) -> None:
        """Make a written file the object `name`."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, target)
        sync(target.parent)

    def _holds(self, target: Path, data: bytes) -> bool:
        # The size alone finds what a power cut leaves of a file; a verifying store looks at every byte.
        try:
            if target.stat().st_size != len(data):
                return False
            return not self.verify or target.read_bytes() == data
        except FileNotFoundError:
            return False


def _part(name: str, image: Image.Image, mime: str) -> ImagePart:
    return ImagePart.model_validate(
        {"sha256": name, "width": image.width, "height": image.height, "mode": image.mode, "mime": mime}
    )


def _said(part: ImagePart, note: str) -> ImagePart:
    if note:
        _log.warning("a picture of %dx%d pixels: %s", part.width, part.height, note)
    return part


def _video_part(name: str, facts: VideoFacts) -> VideoPart:
    return VideoPart.model_validate({"sha256": name, **asdict(facts)})


def _copy(source: str | os.PathLike[str], target: Path, most: int, setting: str) -> str:
    """Copy a file onto the disk, a piece at a time, and return the sha256 of its bytes."""
    digest, copied = _sha256(), 0
    try:
        with open(source, "rb") as read, target.open("xb") as write:
            while piece := read.read(1 << 20):
                copied += len(piece)
                if copied > most:
                    raise TooLargeError(
                        f"{os.fspath(source)} has more than {most:,} bytes. Cut it or compress it, or raise {setting}."
                    )
                digest.update(piece)
                write.write(piece)
            write.flush()
            os.fsync(write.fileno())
    except OSError as error:
        if error.filename not in (os.fspath(source), None) or error.errno not in _OF_READING:
            error.filename = str(target)
            raise
        raise MediaError(f"{os.fspath(source)} cannot be read: {error.strerror or error}. Check the path.") from error
    return digest.hexdigest()
