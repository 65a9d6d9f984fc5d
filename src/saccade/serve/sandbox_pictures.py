"""The pictures of a sandbox server: uploaded by clients, named by the hash of their pixels, bounded in bytes.

What is stored was decoded and hashed here first. The least recently used pictures are dropped when there is no more
room; a client is then asked to send them again. Nothing is written to disk.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from saccade.errors import ProtocolError, TooLargeError
from saccade.sandbox.remote_pixels import read_png

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class StoredPicture:
    """An uploaded picture; a `LazyImage` for any sandbox provider."""

    sha256: str
    mode: str
    width: int
    height: int
    png: bytes = field(repr=False)

    def decode(self) -> Image:
        """The pixels, as a new Pillow image."""
        return read_png(self.png).image()


class PictureStore:
    """Uploaded pictures, at most `max_bytes` of PNG altogether. Safe from many threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._pictures: OrderedDict[str, StoredPicture] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, names: Iterable[str]) -> dict[str, StoredPicture]:
        """Those of the named pictures that are here; they count as just used."""
        pictures = {}
        with self._lock:
            for name in names:
                picture = self._pictures.get(name)
                if picture is not None:
                    self._pictures.move_to_end(name)
                    pictures[name] = picture
        return pictures

    def add(self, picture: StoredPicture) -> None:
        """Keep a picture that `verified` returned; raises `TooLargeError` if it alone is over the limit."""
        if len(picture.png) > self._max_bytes:
            raise TooLargeError(
                f"a picture of {len(picture.png)} bytes is over the server's room of {self._max_bytes} bytes for all "
                "pictures; scale it down or raise picture_bytes in its settings file."
            )
        with self._lock:
            if picture.sha256 in self._pictures:
                return
            self._pictures[picture.sha256] = picture
            self._bytes += len(picture.png)
            while self._bytes > self._max_bytes:
                _, dropped = self._pictures.popitem(last=False)
                self._bytes -= len(dropped.png)


def verified(sha256: str, png: bytes) -> StoredPicture:
    """The picture in `png`, if its pixels have that hash; raises `ProtocolError` if not. Decodes: call off the loop."""
    pixels = read_png(png)
    if pixels.sha256() != sha256:
        raise ProtocolError("the pixels do not have the sha256 under which they were sent.")
    return StoredPicture(sha256, pixels.mode, pixels.width, pixels.height, png)
