"""How rows name media: a path, bytes, base64, a data URL; read from rows into a store, and linked out of one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import MediaError, RecordError
from saccade.media.store import MediaStore
from saccade.media.suffixes import suffix_of
from saccade.record.content import ImagePart, VideoPart
from saccade.sft.curate.output import link_or_copy
from saccade.sft.curate.stage import Media

FOLDER = "media"
_LONGEST_PATH = 1024
_SHORT = 80


@dataclass(frozen=True, slots=True)
class MediaIn:
    """Reads media that rows name into a store."""

    folder: Path
    """To which paths are relative."""
    store: MediaStore

    def image(self, named: object) -> ImagePart:
        """The picture that a row names: a path, base64, a data URL, or a mapping with `bytes`, `path` or `image`.

        Raises:
            RecordError: it names nothing that could be a picture, a file that is not there, or no usable picture.
        """
        data = self._data(named)
        try:
            return self.store.put_bytes(data)
        except MediaError as error:
            raise RecordError(f"{_short(named)}: {error}") from error

    def video(self, named: object) -> VideoPart:
        """The video at the path that a row names, which may stand under `video` or `path`. Raises as `image`."""
        if isinstance(named, Mapping):
            named = next((named[key] for key in ("video", "path") if named.get(key)), None)
        if not isinstance(named, str):
            raise RecordError("a video is named otherwise than by its path")
        return self.store.put_video(self._file(named))

    def _data(self, named: object) -> bytes:
        if isinstance(named, bytes):
            return named
        if isinstance(named, Mapping):
            inner = next((named[key] for key in ("bytes", "path", "image") if named.get(key)), None)
            if inner is not None:
                return self._data(inner)
        if isinstance(named, str) and named:
            data = _decoded(named)
            return data if data is not None else self._file(named).read_bytes()
        raise RecordError(f"{_short(named)} names no picture")

    def _file(self, named: str) -> Path:
        if len(named) > _LONGEST_PATH:
            raise RecordError("a text that is no base64 and too long for a path stands in the place of a picture")
        path = Path(named.removeprefix("file://"))
        steps = [step for step in path.parts if step != path.anchor]
        tails = (Path(*steps[start:]) for start in range(len(steps)) if ".." not in steps[start:])
        for candidate in (self.folder / path, *(self.folder / tail for tail in tails)):
            if candidate.is_file():
                return candidate
        raise RecordError(f"there is no file {named} (looked in {self.folder}; name another folder with --images)")


@dataclass(frozen=True, slots=True)
class MediaOut:
    """Puts media beside a file of rows, each once, under the beginning of its sha256."""

    media: Media
    folder: Path
    root: str = ""

    def path(self, part: ImagePart | VideoPart) -> str:
        """Link the file into the folder; its path as rows write it."""
        name = f"{FOLDER}/{part.sha256[:32]}{suffix_of(part.mime)}"
        target = self.folder / name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            link_or_copy(self.media.path(part.sha256), target)
        return f"{self.root.rstrip('/')}/{name}" if self.root else name

    def data(self, part: ImagePart | VideoPart) -> bytes:
        """The encoded bytes."""
        return self.media.get_bytes(part.sha256)

    def base64(self, part: ImagePart | VideoPart) -> str:
        """The encoded bytes as base64."""
        return base64.b64encode(self.data(part)).decode("ascii")


def _decoded(text: str) -> bytes | None:
    """The bytes of a data URL or of base64 text; None for a text that is neither."""
    url = text.startswith("data:")
    if not url and len(text) < 64:
        return None
    try:
        data = base64.b64decode(text.partition(",")[2] if url else text, validate=True)
    except binascii.Error as error:
        if url:
            raise MediaError("a data URL does not hold base64") from error
        return None
    return data


def _short(named: object) -> str:
    text = named if isinstance(named, str) else repr(named)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def listed(row: Mapping[str, Any], *names: str) -> list[Any]:
    """The list under the first of `names` that the row has; one thing alone counts as a list of it."""
    value: Any = next((row[name] for name in names if row.get(name) is not None), [])
    return list(value) if isinstance(value, list | tuple) else [value]
