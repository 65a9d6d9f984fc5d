"""Where the media lie that rows name by a path.

A path is looked for in the data set's folder: as it stands, then by its last steps, so that rows with the paths of
another machine are read. Rows of a benchmark name no file outside it; those of a user's own file may (`anywhere`).
"""

from __future__ import annotations

import base64
import binascii
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from saccade.tasks.benchmarks.problem import FieldError, short
from saccade.tasks.benchmarks.values import missing

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
    """Folders inside it where media may lie; with `anywhere`, of the user's."""
    anywhere: bool = False
    """Whether absolute paths and those with `..` are followed."""
    _asked: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)
    """How often a file was looked for in a folder."""
    _listed: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The files of folders that were asked for often."""

    def named(self, value: object) -> None:
        """Look whether there is a file of a picture that is named by its path; what holds its bytes is not decoded.

        Raises:
            FieldError: there is none.
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
        """Why there is no such file."""
        if isinstance(value, str) and value.startswith(_WEB):
            return f"{short(value)} is an address of the web, and rows name files; download it first"
        places = [str(self.folder), *self.further]
        return f"there is no file {short(value)} in {', '.join(places)}"

    def path(self, named: str, suffixes: tuple[str, ...] = ()) -> Path | None:
        """Where the file lies that a row names; None if it is not there."""
        if len(named) > _LONGEST_PATH or named.startswith("data:") or "\0" in named:
            return None
        if self.anywhere:
            if named.startswith(_WEB):
                return None  # a file of the same name may be another one
            plain = os.path.join(self.folder, os.path.expanduser(named.removeprefix("file://")))
            if os.path.isfile(plain):
                return Path(plain)
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
    """The bytes of a data URL or of base64 text; None for a text that is neither."""
    url = text.startswith("data:")
    if not url and len(text) < _SHORTEST_BASE64:
        return None
    try:
        return base64.b64decode(text.partition(",")[2] if url else "".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
