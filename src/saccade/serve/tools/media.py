"""Pictures and videos that clients uploaded, by the sha256 of their files, in a folder that is deleted with it."""

from __future__ import annotations

import asyncio
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from saccade.errors import MediaError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart
from saccade.tools.context import Numbering, ToolContext
from saccade.tools.served.wire import MediaKind, ServedMedium


@dataclass(frozen=True, slots=True)
class _HeldMedium:
    part: ImagePart | None
    """None for a video."""
    size: int


class HeldMedia:
    """At most `most_bytes` of files; the least recently used are deleted. One event loop uses it."""

    def __init__(self, most_bytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-tools-")
        self._store = MediaStore(self._folder.name)
        self._most = most_bytes
        self._held: OrderedDict[str, _HeldMedium] = OrderedDict()
        self.bytes = 0

    async def put(self, kind: MediaKind, name: str, data: bytes) -> None:
        """Keep a file. Raises `MediaError` if it is not the one of that hash, or no picture."""
        held = await asyncio.to_thread(self._put, kind, name, data)
        if name not in self._held:
            self._held[name] = held
            self.bytes += held.size
        elif held.part is not None:  # a picture that somebody sent as a video before
            self._held[name] = held
        while self.bytes > self._most and len(self._held) > 1:
            old, gone = self._held.popitem(last=False)
            self.bytes -= gone.size
            self._store.path(old).unlink(missing_ok=True)

    def missing(self, media: Sequence[ServedMedium]) -> tuple[str, ...]:
        """Hashes of those that are not held; the others count as used now."""
        for item in media:
            if item.sha256 in self._held:
                self._held.move_to_end(item.sha256)
        return tuple(dict.fromkeys(item.sha256 for item in media if item.sha256 not in self._held))

    def data(self, media: Sequence[ServedMedium], wanted: Sequence[str]) -> list[tuple[MediaKind, str, bytes]]:
        """Kind, hash and bytes of those that are wanted."""
        return [(item.kind, item.sha256, self._store.get_bytes(item.sha256)) for item in media if item.sha256 in wanted]

    def context(self, media: Sequence[ServedMedium], numbering: Numbering | None) -> ToolContext:
        """What a tool looks at; all of `media` are held. Raises `MediaError` if a file is a video or the reverse."""
        images, videos = {}, dict[str, Path]()
        for item in media:
            part = self._held[item.sha256].part
            if item.kind == "video":
                videos[item.name] = self._store.path(item.sha256)
            elif part is None:
                raise MediaError(f"{item.sha256} was uploaded as a video, and is named as a picture")
            else:
                images[item.name] = self._store.open(part)
        return ToolContext(images, videos, numbering=numbering)

    def close(self) -> None:
        """Delete all of it."""
        self._folder.cleanup()

    def _put(self, kind: MediaKind, name: str, data: bytes) -> _HeldMedium:
        if sha256(data).hexdigest() != name:
            raise MediaError(f"the bytes are not those of {name}")
        if kind == "video":
            self._store.put_blob(data)
            return _HeldMedium(None, len(data))
        return _HeldMedium(self._store.put_bytes(data), len(data))
