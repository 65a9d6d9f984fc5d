"""Find and read the media that rows name.

A path is searched in the data set's folder: as written, then by its last steps, so that paths of another machine work.
Rows of a benchmark may not name files outside it; rows of a user's own file may (`anywhere`).
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from PIL import Image

from saccade.errors import MediaError
from saccade.media.decode import broken_link
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.tasks.benchmarks.row_files import FieldError, missing, short

_log = logging.getLogger(__name__)
_LONGEST_PATH = 1024
_SHORTEST_BASE64 = 64
_OFTEN = 1000
"""Looks into one folder, after which it is listed instead."""
_WEB = ("http://", "https://")
PICTURES = (".png", ".jpg", ".jpeg", ".webp")
"""Suffixes that the path of a picture may lack."""


@dataclass(frozen=True, slots=True)
class MediaFiles:
    """The files that rows may name."""

    folder: Path
    """The data set's."""
    further: tuple[str, ...] = ()
    """Folders inside it where media may be; with `anywhere`, also outside it."""
    anywhere: bool = False
    """Whether absolute paths and those with `..` are followed."""
    _asked: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)
    """How often a file was looked for in a folder."""
    _listed: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The files of folders that were asked for often."""

    def named(self, value: object) -> None:
        """Look whether there is a file of a picture that is named by its path; what holds its bytes is not decoded.
        Raises `FieldError` if there is none.
        """
        if isinstance(value, Mapping):
            value = next((value[key] for key in ("bytes", "path", "image") if not missing(value.get(key))), value)
        if self.anywhere and isinstance(value, str) and self._lies(value):
            return  # the usual place first, without a path object: there may be very many rows
        if isinstance(value, str) and self.path(value, PICTURES) is None and decoded(value) is None:
            raise FieldError("media", self.absent(value))

    def _lies(self, value: str) -> bool:
        """Whether a file of that path is there; a folder that is asked for often is listed once, which costs less."""
        file = os.path.join(self.folder, value)
        folder, name = os.path.split(file)
        if (listed := self._listed.get(folder)) is not None:
            return name in listed
        self._asked[folder] += 1
        if self._asked[folder] == _OFTEN:
            self._listed[folder] = _files_of(folder)
        return os.path.isfile(file)

    def absent(self, value: object) -> str:
        """Say why there is no such file."""
        if isinstance(value, str) and value.startswith(_WEB):
            return f"{short(value)} is an address of the web, and rows name files; download it first"
        places = [self.folder, *map(Path, self.further)]
        if why := next(filter(None, (broken_link(place / str(value)) for place in places)), ""):
            return f"{short(value)} {why}"
        named = ("the current folder" if place == Path() else str(place) for place in places)
        return f"there is no file {short(value)} in {', '.join(named)}"

    def path(self, named: str, suffixes: tuple[str, ...] = ()) -> Path | None:
        """Return where the file is that a row names, as written or in another spelling; None if it is not there."""
        return next((found for one in _spellings(named) if (found := self._found(one, suffixes)) is not None), None)

    def _found(self, named: str, suffixes: tuple[str, ...]) -> Path | None:
        if len(named) > _LONGEST_PATH or named.startswith("data:") or "\0" in named:
            return None
        if self.anywhere:
            if named.startswith(_WEB):
                return None  # a file of the same name may be another one
            plain = os.path.join(self.folder, os.path.expanduser(named.removeprefix("file://")))
            if os.path.isfile(plain):
                return Path(plain)
        plain = re.sub(r"^[A-Za-z]:(?!/)", "", named.removeprefix("file://").replace("\\", "/"))  # C:a is beside C:\a
        steps = PurePosixPath(posixpath.normpath(plain) if plain else "").parts
        steps = tuple(step for step in steps if step not in ("/", "//", "."))
        if not steps or ".." in steps:
            return None
        for place in self._places(steps):
            for candidate in (place, *(place.with_name(place.name + suffix) for suffix in suffixes)):
                if _is_file(candidate):
                    return candidate
        return None

    def _places(self, steps: tuple[str, ...]) -> Iterator[Path]:
        """Return where a path may be: longest tail first, so that the nearest to what was written wins."""
        for start in range(len(steps)):
            for root in ("", *self.further):
                yield self.folder.joinpath(root, *steps[start:])


def _spellings(named: str) -> Iterator[str]:
    """Yield the path, then what else it may stand for: between quotes, of a URL, with letters composed otherwise."""
    yield named
    plain = named.strip().strip("\"'")
    if plain != named:
        yield plain
    if "%" in plain:
        yield unquote(plain)
    if not plain.isascii():
        yield from {unicodedata.normalize(form, plain) for form in ("NFC", "NFD")} - {plain}


def _files_of(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file())
    except (OSError, ValueError):
        return frozenset()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # a name that is too long for the file system


def decoded(text: str) -> bytes | None:
    """Return the bytes of a data URL or of base64 text; None for a text that is neither."""
    url = text.startswith("data:")
    if not url and len(text) < _SHORTEST_BASE64:
        return None
    try:
        return base64.b64decode(text.partition(",")[2] if url else "".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class RowMediaReader:
    """Reads the media of rows into `store`.

    A picture is a path, bytes, base64, a data URL, a mapping of these, or a Pillow image; each page of a PDF or a TIFF
    is a picture. A video is a path.
    """

    files: MediaFiles
    store: MediaStore
    _seen: dict[bytes, tuple[ImagePart, ...]] = field(default_factory=dict, repr=False)
    """Pictures by sha256: variants of one question repeat its picture, and decoding is slow."""
    _probed: dict[tuple[Path, int, int], VideoPart] = field(default_factory=dict, repr=False)
    """Videos by path, size and time of change, since they are too large to read twice."""

    def images(self, value: object) -> tuple[ImagePart, ...]:
        """Return all pictures that a value names: one, or a list, which may be written as a JSON array. Raises
        `FieldError` if one of them is not there, or is no picture that can be used.
        """
        return tuple(part for item in items(value) for part in self._pictures(item))

    def video(self, value: object) -> VideoPart:
        """Return the video at a path. Raises `FieldError` if there is none, or it cannot be used, `UnavailableError` if
        what reads videos is not installed.
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

    def _pictures(self, value: object) -> tuple[ImagePart, ...]:
        try:
            if isinstance(value, Image.Image):
                return (self.store.put_image(value),)
            data = self._data(value)
            digest = sha256(data).digest()
            if digest not in self._seen:
                pages = self.store.put_pages(data)
                if pages.note:
                    _log.warning("%s: %s", value if _is_path(value) else "a picture in a row", pages.note)
                self._seen[digest] = pages.parts
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


def _is_path(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_PATH and not value.startswith("data:")


def items(value: object) -> list[Any]:
    """Return the items of a value: one thing, or a list, which may be a JSON array."""
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
