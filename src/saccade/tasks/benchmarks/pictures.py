"""Pictures and videos of a row into a media store.

A picture is a path, bytes, base64, a data URL, a mapping of these, or a Pillow image; a video is a path. Where a path
leads, `media_files.py` says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from PIL import Image

from saccade.errors import MediaError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.tasks.benchmarks.media_files import PICTURES, MediaFiles, decoded
from saccade.tasks.benchmarks.problem import FieldError, short
from saccade.tasks.benchmarks.values import missing


@dataclass(frozen=True, slots=True)
class RowMediaReader:
    """Reads what rows name into `store`."""

    files: MediaFiles
    store: MediaStore
    _seen: dict[bytes, ImagePart] = field(default_factory=dict, repr=False)
    """What was read already, by sha256: variants of one question repeat its picture, and decoding is the slow part."""
    _probed: dict[tuple[Path, int, int], VideoPart] = field(default_factory=dict, repr=False)
    """The same of videos, by path, size and time of change: they are too large to be read twice."""

    def images(self, value: object) -> tuple[ImagePart, ...]:
        """All pictures that a value names: one, or a list, which may be written as a JSON array.

        Raises:
            FieldError: one of them is not there, or is no picture that can be used.
        """
        return tuple(self._image(item) for item in items(value))

    def video(self, value: object) -> VideoPart:
        """The video at a path.

        Raises:
            FieldError: there is none, or it cannot be used.
            UnavailableError: what reads videos is not installed.
        """
        if isinstance(value, Mapping):
            value = next((value[key] for key in ("path", "video") if not missing(value.get(key))), value)
        path = self.files.path(value) if isinstance(value, str) else None
        if path is None:
            raise FieldError("videos", self.files.absent(value))
        try:
            state = path.stat()
            known = (path, state.st_size, state.st_mtime_ns)
            if known not in self._probed:
                self._probed[known] = self.store.put_video(path)
            return self._probed[known]
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
            path = self.files.path(value, PICTURES)
            if path is not None:
                return path.read_bytes()
            data = decoded(value)
            if data is not None:
                return data
            raise FieldError("images", self.files.absent(value))
        raise FieldError("images", f"{short(value)} names no picture")


def items(value: object) -> list[Any]:
    """What a value names: one thing, or a list, which may be written as a JSON array."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return [value]
        try:
            listed = json.loads(value.replace("'", '"') if '"' not in value else value)
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list):
            return [item for item in listed if not missing(item)]
    if isinstance(value, list | tuple):
        return [item for item in value if not missing(item)]
    return [value]
