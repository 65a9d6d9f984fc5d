"""Decoded pictures in shared memory: each is decoded once and mapped by every session that looks at it."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from saccade.errors import MediaError, SandboxError
from saccade.guest.wire import RAW_MODES, sealed_pieces
from saccade.sandbox.base import LazyImage

if TYPE_CHECKING:
    from PIL.Image import Image

_BAND = 1 << 22
"""Pixels copied at once."""


def image_memfd(image: Image) -> int:
    """Return a sealed memfd with the pixels of `image` (mode L, RGB or RGBA); the caller owns it."""
    raw = RAW_MODES.get(image.mode)
    if raw is None:
        raise SandboxError(
            f"a picture of mode {image.mode!r} cannot be bound: modes are {', '.join(RAW_MODES)}. "
            "Convert it first, e.g. image.convert('RGB')."
        )
    return sealed_pieces("saccade-image", _Bands(image, raw))


class _Bands:
    """The raw bytes of a picture in pieces: of 500 megapixels the whole would be 2 GB next to the pixels themselves."""

    def __init__(self, image: Image, raw: str) -> None:
        self._image, self._raw = image, raw

    def __iter__(self) -> Iterator[bytes]:
        width, height = self._image.size
        rows = max(1, _BAND // max(1, width))
        for top in range(0, height, rows):
            yield self._image.crop((0, top, width, min(top + rows, height))).tobytes("raw", self._raw)


def decode_to_memfd(image: LazyImage) -> int:
    """Decode `image` into a memfd. Raises what `decode` raises, and `MediaError` if it is not as it was stated."""
    decoded = image.decode()
    if (decoded.mode, decoded.size) != (image.mode, (image.width, image.height)):
        raise MediaError(
            f"picture {image.sha256[:12]} is {decoded.mode} of {decoded.width}x{decoded.height} pixels, but bound as "
            f"{image.mode} of {image.width}x{image.height}: state what `decode` returns"
        )
    return image_memfd(decoded)


class SharedImages:
    """Memfds of decoded pictures by sha256, the least recently used dropped above `max_bytes`.

    Sessions that have mapped a dropped picture keep it; it is decoded again only for new ones.
    """

    def __init__(self, max_bytes: int = 1 << 30) -> None:
        self._max_bytes = max_bytes
        self._fds: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._decoding: dict[str, asyncio.Task[None]] = {}

    def have(self, sha256: str) -> int | None:
        """Return the memfd of that picture if it is decoded already (owned by this cache), else None."""
        if sha256 not in self._fds:
            return None
        self._fds.move_to_end(sha256)
        return self._fds[sha256][0]

    async def get(self, image: LazyImage) -> int:
        """Return the memfd of `image` (owned by this cache), decoded in a thread if it is not there yet.

        Whatever `image.decode` raises is raised here.
        """
        fd = self.have(image.sha256)
        while fd is None:
            task = self._decoding.get(image.sha256)
            if task is None:
                task = asyncio.create_task(self._decode(image))
                self._decoding[image.sha256] = task
                task.add_done_callback(lambda _: self._decoding.pop(image.sha256, None))
            await asyncio.shield(task)
            fd = self.have(image.sha256)
        return fd

    async def _decode(self, image: LazyImage) -> None:
        fd = await asyncio.to_thread(decode_to_memfd, image)
        self._fds[image.sha256] = (fd, os.fstat(fd).st_size)
        # The newest stays even if it alone is larger than the budget: someone waits for it.
        while len(self._fds) > 1 and sum(size for _, size in self._fds.values()) > self._max_bytes:
            _, (old, _size) = self._fds.popitem(last=False)
            os.close(old)

    def close(self) -> None:
        """Close every memfd."""
        while self._fds:
            _, (fd, _size) = self._fds.popitem()
            os.close(fd)
