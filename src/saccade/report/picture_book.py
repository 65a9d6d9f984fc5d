"""The pictures of a page: each distinct one once, as a thumbnail and at most `LARGE` pixels long, as data URLs.

A picture that cannot be had is not an error here: the page shows its size and the reason in its place.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image

from saccade.errors import MediaError, MissingMediaError, TooLargeError
from saccade.media.decode import decode_plain
from saccade.media.store import EncodeOptions, MediaStore, encode
from saccade.record.content import ImagePart, VideoPart

THUMBNAIL: Final = 560
"""Longest side of a thumbnail in pixels."""
LARGE: Final = 2048
"""Longest side of a picture on a page in pixels."""
_LOSSY = EncodeOptions("WEBP", quality=84)
_LOSSLESS = EncodeOptions("WEBP", lossless=True)
_SMALL_PIXELS = 160 * 160
"""Below that a picture is kept exactly: it will be looked at enlarged."""
_KEPT = 6
"""Decoded pictures that are kept: those of about one episode."""
_REMEMBERED = 128
"""Pictures whose copies are kept for further pages: episodes of one group share theirs."""


@dataclass(frozen=True, slots=True)
class ShownMedia:
    """A picture or video as a page shows it."""

    key: str
    """Names its sources in the page."""
    width: int
    height: int
    """Pixels of the recorded picture, not of the copy in the page."""
    note: str = ""
    """Note for a person: it was scaled down, or it is a video."""
    problem: str = ""
    """Why there is no picture; then nothing is embedded."""

    @property
    def size(self) -> str:
        return f"{self.width}×{self.height}"


@dataclass(frozen=True, slots=True)
class Sources:
    """Data URLs of one picture."""

    thumb: str
    large: str
    """Empty if the thumbnail is as large as the picture."""

    @property
    def bytes(self) -> int:
        """Bytes that they add to a page."""
        return len(self.thumb) + len(self.large)


class Decoder:
    """Decodes the pictures of a store, and keeps the last few: one page asks for the same ones several times."""

    def __init__(self, store: MediaStore) -> None:
        self.store = store
        self._kept: dict[str, Image.Image] = {}

    def image(self, part: ImagePart) -> Image.Image:
        """Return the recorded pixels, not to be changed. Raises `MediaError` or `OSError`."""
        source = self._kept.pop(part.sha256, None)
        image = self.store.open(part).decode() if source is None else source
        self._kept[part.sha256] = image
        if len(self._kept) > _KEPT:
            self._kept.pop(next(iter(self._kept)))
        return image


class PictureBook:
    """Gathers the pictures of a page. Without a store every picture is missing."""

    def __init__(self, store: MediaStore | None, *, thumbnail: int = THUMBNAIL, large: int = LARGE) -> None:
        """Longest sides of both copies in pixels; keys of books with other sides differ."""
        self._decoder = None if store is None else Decoder(store)
        self._sides = thumbnail, large
        self._made: dict[str, tuple[ShownMedia, Sources | None]] = {}
        self.sources: dict[str, Sources] = {}
        """Pictures that the page must embed."""
        self.folder: Path | None = None
        """Folder of the page, for files that lie next to it; None if it has none."""

    def add(self, part: ImagePart | VideoPart) -> ShownMedia:
        """Return the picture as it is shown; the same for the same bytes."""
        key = f"p{part.sha256[:24]}-{self._sides[0]}"
        if key not in self._made:
            if len(self._made) >= _REMEMBERED:
                self._made.pop(next(iter(self._made)))
            self._made[key] = self._copies(key, part)
        shown, sources = self._made[key]
        if sources is not None:
            self.sources[key] = sources
        return shown

    @property
    def store(self) -> MediaStore | None:
        return None if self._decoder is None else self._decoder.store

    def add_image(self, image: Image.Image, name: str) -> ShownMedia:
        """Return a picture that is in no store, such as a frame of a video; `name` tells it from all others."""
        key = f"f{name}-{self._sides[0]}"
        thumb = _within(image, self._sides[0])
        self.sources[key] = Sources(_url(thumb, exact=False), "")
        return ShownMedia(key, image.width, image.height)

    def smaller(self, side: int) -> PictureBook:
        """Return another book over the same store, with copies of one size; pictures are decoded once for both."""
        book = PictureBook(None, thumbnail=side, large=side)
        book._decoder = self._decoder
        return book

    def new_page(self) -> None:
        """Begin a page: nothing is embedded yet; copies that were made are remembered."""
        self.sources = {}

    def pixels(self, part: ImagePart) -> Image.Image | None:
        """Return the recorded pixels, or None if they cannot be had."""
        try:
            return None if self._decoder is None else self._decoder.image(part)
        except (MediaError, OSError):
            return None

    def _copies(self, key: str, part: ImagePart | VideoPart) -> tuple[ShownMedia, Sources | None]:
        try:
            picture, note = self._decoded(part)
        except (MediaError, OSError) as error:
            return ShownMedia(key, part.width, part.height, problem=_reason(part, error)), None
        large = _within(picture, self._sides[1])
        thumb = _within(large, self._sides[0])
        exact = picture.width * picture.height <= _SMALL_PIXELS
        sources = Sources(_url(thumb, exact), "" if thumb.size == large.size else _url(large, exact))
        if large.size != picture.size:
            note = ", ".join(filter(None, (note, f"shown at {large.width}×{large.height}")))
        return ShownMedia(key, part.width, part.height, note=note), sources

    def _decoded(self, part: ImagePart | VideoPart) -> tuple[Image.Image, str]:
        if self._decoder is None:
            raise MissingMediaError("there is no media folder beside the record")
        if isinstance(part, ImagePart):
            return self._decoder.image(part), ""
        note = f"video, {part.seconds:.1f} s, {part.frames} frames"
        if not part.mime.startswith("image/"):
            raise TooLargeError(f"{note}; pages show pictures only")
        return decode_plain(self._decoder.store.get_bytes(part.sha256)), f"{note}; this is the first"


def _within(picture: Image.Image, side: int) -> Image.Image:
    if max(picture.size) <= side:
        return picture
    scale = side / max(picture.size)
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    return picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _url(picture: Image.Image, exact: bool) -> str:
    return f"data:image/webp;base64,{base64.b64encode(encode(picture, _LOSSLESS if exact else _LOSSY)).decode('ascii')}"


def _reason(part: ImagePart | VideoPart, error: Exception) -> str:
    """Say why a picture is missing, without the paths of the machine on which the page was made."""
    if isinstance(error, MissingMediaError):
        return f"missing: the run's media folder holds no {part.sha256[:12]}…"
    if isinstance(error, TooLargeError) and isinstance(part, VideoPart):
        return str(error)
    if isinstance(error, MediaError):
        return f"cannot be shown: {str(error).removeprefix(part.sha256).strip()}"
    return f"cannot be read: {error.__class__.__name__}"
