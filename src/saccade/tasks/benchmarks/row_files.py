"""Read files of rows as streams (TSV, JSON, JSON lines, parquet), and find the media that rows name.

A row that cannot be read is a `RowProblem` in its place; a file that cannot be read at all raises. JSON lists and
objects are in memory as a whole, everything else a few rows at a time.
"""

from __future__ import annotations

import ast
import base64
import binascii
import csv
import json
import logging
import math
import os
import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from PIL import Image
from pydantic_core import from_json

from saccade.core.registry import install
from saccade.errors import DataError, MediaError, UnavailableError
from saccade.media.decode import broken_link
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart, clean_text

# Read values of a row by the names in cards, and turn them into texts.
#
# A card names a field in one of these ways; of several names the first that has a value counts.
#
#     question             the field of that name
#     metadata.split       a field inside a field; inside a list of tables that field of each of them, as a list
#     tables/{id}.png      a text with fields put into it; it has a value only if all of them have
#     coco/{id:012}.jpg    the same, the field filled up with zeros to so many signs
#     image_#              the fields image_1, image_2, ... that have a value, as a list (from 1, or from 0)
#
# Loaders add `_row` (number in its file), `_file` (the file's name without its suffix), `_folder` (the name of the
# folder it is in), `_above` (the name of the folder above that) and, where rows have keys, `_key`.

_SHORT = 120


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that gives no task; a benchmark with broken rows is still read, but none is dropped silently."""

    file: str
    """Name of the file that holds it; empty for rows that come from no file."""
    row: int
    """Its number in that file, from 0."""
    field: str
    """The unreadable field of the task or row; `row` if all of it."""
    reason: str

    def __str__(self) -> str:
        """Say it to a person: rows count from 1, without a head and blank lines."""
        return f"{self.file or 'rows'}, row {self.row + 1}, {self.field}: {self.reason.rstrip('.')}"


class FieldError(DataError):
    """A field of a task cannot be read from a row; loaders turn it into a `RowProblem`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def short(value: object) -> str:
    """Shorten a value for a message."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


RowFields = Mapping[str, Any]
"""A row as its source names its fields."""

_SLOT = re.compile(r"\{([^{}]+)\}")
_MOST_NUMBERED = 100
_EMPTIABLE = (bytes, list, tuple, dict)


def first_value(fields: RowFields, names: Sequence[str]) -> Any:
    """Return the value of the first name that has one, or None."""
    for name in names:
        value = fields[name] if name in fields else _named(fields, name)
        if not missing(value):
            return value
    return None


def missing(value: object) -> bool:
    """Tell whether a value is missing: null, an empty text or list, or NaN."""
    if isinstance(value, str):  # first, since most are
        return not value
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (not value and isinstance(value, _EMPTIABLE))


def as_text(value: object, field: str) -> str:
    """Return a value as text: whole numbers without a point, truth as yes or no, lists as a JSON array of texts. Raises
    `FieldError` if it is neither text, number nor a list of these.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list | tuple):
        return json.dumps([_item(item, field) for item in value], ensure_ascii=False)
    return _item(value, field)


def as_list(value: object) -> list[Any]:
    """Return a list as it is; anything else as the only item of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def list_in_text(text: str) -> list[Any] | None:
    """Return the list that a text writes as JSON or as Python does; None if it writes none."""
    return next((value for value in _written(text) if isinstance(value, list)), None)


def mapping_in_text(text: str) -> dict[Any, Any] | None:
    """Return the mapping that a text writes as JSON or as Python does; None if it writes none."""
    return next((value for value in _written(text) if isinstance(value, dict)), None)


def _written(text: str) -> Iterator[object]:
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            yield read(text.strip())


def matches(fields: RowFields, conditions: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether each named field has one of the given values, as texts; an empty one means no value."""
    for name, values in conditions.items():
        value = first_value(fields, (name,))
        try:
            text = "" if value is None else as_text(value, name)
        except FieldError:
            return False
        if not any(text == pattern or ("*" in pattern and fnmatchcase(text, pattern)) for pattern in values):
            return False
    return True


def _item(value: object, field: str) -> str:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    raise FieldError(field, f"{short(value)} is neither text nor number")


def _named(fields: RowFields, name: str) -> Any:
    if name.endswith("#"):
        return _numbered(fields, name[:-1])
    if "{" in name:
        return _filled(fields, name)
    value: Any = fields
    for step in name.split("."):
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            value = [item[step] for item in value if not missing(item.get(step))]
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            return None
    return value


def _numbered(fields: RowFields, stem: str) -> list[Any]:
    values = (fields.get(f"{stem}{number}") for number in range(_MOST_NUMBERED))
    return [value for value in values if not missing(value)]


def _filled(fields: RowFields, template: str) -> str | None:
    slots = {slot: slot.partition(":") for slot in _SLOT.findall(template)}
    values = {slot: first_value(fields, (name,)) for slot, (name, _, _) in slots.items()}
    if any(value is None for value in values.values()):
        return None

    def put(match: re.Match[str]) -> str:
        name, _, width = slots[match[1]]
        return as_text(values[match[1]], name).zfill(int(width) if width.isdecimal() else 0)

    return _SLOT.sub(put, template)


_GROUP = 32
"""Rows of a parquet file in memory together; a row can hold a picture of many megabytes."""
LONGEST_CELL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of a source."""

    file: str
    number: int
    fields: Mapping[str, Any]

    def problem(self, field: str, reason: str) -> RowProblem:
        """Return what is wrong with it."""
        return RowProblem(self.file, self.number, field, reason)


def read_rows(file: Path) -> Iterator[SourceRow | RowProblem]:
    """Yield the rows of a file by its suffix: `.tsv`, `.jsonl`, `.json` or `.parquet`, in their order.

    Raises `DataError`: the file as a whole cannot be read; `UnavailableError`: it is parquet, and pyarrow is not
    installed.
    """
    for number, raw in enumerate(_READERS.get(file.suffix.lower(), _unknown)(file)):
        if isinstance(raw, str):
            yield RowProblem(file.name, number, "row", raw)
        else:
            place = {"_file": file.stem, "_folder": file.parent.name, "_above": file.parent.parent.name}
            yield SourceRow(file.name, number, {**raw, "_row": number, **place})


def count_rows(file: Path) -> int:
    """Return how many rows `read_rows` gives, broken ones included; of text files found by reading them.

    Raises the same.
    """
    if file.suffix.lower() == ".parquet":
        with open_parquet(file) as table:
            return int(table.metadata.num_rows)
    return sum(1 for _ in _READERS.get(file.suffix.lower(), _unknown)(file))


def load_pyarrow() -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`. Raises `UnavailableError`: pyarrow is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UnavailableError(f"parquet files need pyarrow: {install('data')}") from error
    return pyarrow, parquet


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn what libraries raise about a file into a `DataError`."""
    try:
        yield
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise DataError(f"{file} cannot be read: {error}. Download it again, or name another.") from error


def _read_tsv(file: Path) -> Iterator[dict[str, Any] | str]:
    # The limit is the module's own and small; a cell of these files holds a whole picture as base64.
    csv.field_size_limit(LONGEST_CELL)
    with reading(file), file.open(encoding="utf-8-sig", newline="") as text:
        lines = csv.reader(text, delimiter="\t")
        names = next(lines, None)
        if names is None:
            return
        for cells in lines:
            if len(cells) == len(names):
                yield dict(zip(names, cells, strict=True))
            elif cells:
                yield f"it has {len(cells)} cells where the head has {len(names)}"


def _read_jsonl(file: Path) -> Iterator[dict[str, Any] | str]:
    with reading(file), file.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield parsed(line)


def parsed(line: bytes) -> dict[str, Any] | str:
    """Return the row of a JSON line, or what is wrong with it."""
    try:
        row = _loaded(line)
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} of its line ({line[error.start]:#04x}) is no UTF-8. Save the file as UTF-8"
    except (ValueError, RecursionError) as error:
        return f"it is no JSON: {error}"
    return row if isinstance(row, dict) else "it is no JSON object"


def _loaded(line: bytes) -> Any:
    """Read a JSON text: by the fast reader, or by Python's where that refuses it (lone surrogates, NaN)."""
    try:
        return from_json(line)
    except ValueError:
        return json.loads(line)


def _read_json(file: Path) -> Iterator[dict[str, Any] | str]:
    with reading(file):
        data = json.loads(file.read_bytes())
    if isinstance(data, dict) and not all(isinstance(row, dict) for row in data.values()):
        data = next((rows for rows in data.values() if isinstance(rows, list)), None)
    if isinstance(data, dict):
        yield from ({**row, "_key": key} for key, row in data.items())
    elif isinstance(data, list):
        yield from (row if isinstance(row, dict) else "it is no JSON object" for row in data)
    else:
        raise DataError(f"{file} holds neither a list nor an object of rows. Name another file.")


def _read_parquet(file: Path) -> Iterator[dict[str, Any] | str]:
    with open_parquet(file) as table:
        for batch in table.iter_batches(batch_size=_GROUP):
            yield from batch.to_pylist()


@contextmanager
def open_parquet(file: Path) -> Iterator[Any]:
    """Open a parquet file."""
    pyarrow, parquet = load_pyarrow()
    with reading(file):
        try:
            with parquet.ParquetFile(file) as table:
                yield table
        except pyarrow.ArrowException as error:
            raise ValueError(str(error)) from error


def _unknown(file: Path) -> Iterator[dict[str, Any] | str]:
    raise DataError(f"{file} is of an unknown kind; rows are read from {', '.join(_READERS)}")


_READERS = {".tsv": _read_tsv, ".jsonl": _read_jsonl, ".json": _read_json, ".parquet": _read_parquet}


# A path is searched in the data set's folder: as written, then by its last steps, so that paths of another machine
# work. Rows of a benchmark may not name files outside it; rows of a user's own file may (`anywhere`).


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
        """Tell whether a file of that path exists; a folder asked for often is listed once, which costs less."""
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
