"""Pictures and videos of a row into a media store.

A picture is a path, bytes, base64, a data URL, a mapping of these, or a Pillow image; a video is a path. A path is
looked for inside the data set's folder only: as it stands, then by its last steps, so that rows with the paths of
another machine are read. A row cannot name a file outside.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from PIL import Image

from saccade.errors import MediaError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.tasks.benchmarks.problem import FieldError, short
from saccade.tasks.benchmarks.values import missing

_LONGEST_PATH = 1024
_SHORTEST_BASE64 = 64
_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True, slots=True)
class RowMediaReader:
    """Reads what rows name into `store`."""

    folder: Path
    """The data set's."""
    further: tuple[str, ...]
    """Folders inside it where media may lie."""
    store: MediaStore
    _seen: dict[bytes, ImagePart] = field(default_factory=dict, repr=False)
    """What was read already, by sha256: variants of one question repeat its picture, and decoding is the slow part."""

    def images(self, value: object) -> tuple[ImagePart, ...]:
        """All pictures that a value names: one, or a list, which may be written as a JSON array.

        Raises:
            FieldError: one of them is not there, or is no picture that can be used.
        """
        return tuple(self._image(item) for item in _items(value))

    def video(self, value: object) -> VideoPart:
        """The video at a path.

        Raises:
            FieldError: there is none, or it cannot be used.
            UnavailableError: what reads videos is not installed.
        """
        path = self._path(value, ()) if isinstance(value, str) else None
        if path is None:
            raise FieldError("videos", f"there is no file {short(value)} in {self.folder}")
        try:
            return self.store.put_video(path)
        except MediaError as error:
            raise FieldError("videos", f"{short(value)}: {error}") from error

    def _image(self, value: object) -> ImagePart:
        try:
            if isinstance(value, Image.Image):
                return self.store.put_image(value)
            data = self._data(value)
            digest = sha256(data).digest()
            if digest not in self._seen:
                self._seen[digest] = self.store.put_bytes(data)
            return self._seen[digest]
        except (MediaError, OSError) as error:
            raise FieldError("images", f"{short(value)}: {error}") from error

    def _data(self, value: object) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, Mapping):
            inner = next((value[key] for key in ("bytes", "path", "image") if not missing(value.get(key))), None)
            if inner is not None and not isinstance(inner, Mapping):
                return self._data(inner)
        if isinstance(value, str) and value:
            path = self._path(value, _SUFFIXES)
            if path is not None:
                return path.read_bytes()
            data = _decoded(value)
            if data is not None:
                return data
            raise FieldError("images", f"there is no file {short(value)} in {self.folder}")
        raise FieldError("images", f"{short(value)} names no picture")

    def _path(self, named: str, suffixes: tuple[str, ...]) -> Path | None:
        if len(named) > _LONGEST_PATH or named.startswith("data:") or "\0" in named:
            return None
        steps = PurePosixPath(named.removeprefix("file://").replace("\\", "/")).parts
        steps = tuple(step for step in steps if step not in ("/", "."))
        if not steps or ".." in steps:
            return None
        for place in self._places(steps):
            for candidate in (place, *(place.with_name(place.name + suffix) for suffix in suffixes)):
                if _is_file(candidate):
                    return candidate
        return None

    def _places(self, steps: tuple[str, ...]) -> Iterator[Path]:
        """Where a path may lie: longest tail first, so that the nearest to what was written wins."""
        for start in range(len(steps)):
            for root in ("", *self.further):
                yield self.folder.joinpath(root, *steps[start:])


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # a name that is too long for the file system


def _items(value: object) -> list[Any]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            listed = json.loads(value.replace("'", '"') if '"' not in value else value)
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list):
            return [item for item in listed if not missing(item)]
    if isinstance(value, list | tuple):
        return [item for item in value if not missing(item)]
    return [value]


def _decoded(text: str) -> bytes | None:
    """The bytes of a data URL or of base64 text; None for a text that is neither."""
    url = text.startswith("data:")
    if not url and len(text) < _SHORTEST_BASE64:
        return None
    try:
        return base64.b64decode(text.partition(",")[2] if url else "".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
