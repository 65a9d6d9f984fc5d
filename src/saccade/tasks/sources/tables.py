"""Read files of rows: scan all rows without their pictures, then read any row by its place.

    table = LineTable(Path("rows.jsonl"))
    places = [place for place, row in table.scan() if isinstance(row, SourceRow)]
    row = table.read(places[7])

A place is the row's number (from 0) and its position: a byte offset for JSON lines, TSV and CSV, the number again for
parquet and Arrow.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import logging
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from saccade.errors import DataError
from saccade.tasks.benchmarks.loaders.rows import picture_index
from saccade.tasks.benchmarks.row_files import (
    LONGEST_CELL,
    RowProblem,
    SourceRow,
    load_pyarrow,
    open_parquet,
    parsed,
    read_rows,
    reading,
)


class RowPlace(NamedTuple):
    """The place of a row."""

    number: int
    """Among the rows of its file, from 0."""
    at: int
    """Byte offset; for tables in memory and columns the number again."""


class RowTable(Protocol):
    """The rows of one file."""

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        """Yield all rows in order; a value that holds pictures may be `UNREAD`. Raises `DataError` if the file as a
        whole cannot be read, `UnavailableError` if what reads it is not installed.
        """

    def read(self, place: RowPlace) -> SourceRow:
        """Read the whole row. Raises `DataError` if the file has changed."""


class _Unread:
    """Placeholder of a value that a scan did not read."""

    def __repr__(self) -> str:
        return "(not read yet)"


UNREAD: Final = _Unread()


@lru_cache(64)
def _about(file: Path) -> tuple[str, str, str, str]:
    return file.name, file.stem, file.parent.name, file.parent.parent.name


def as_row(file: Path, number: int, fields: Mapping[str, Any]) -> SourceRow:
    """Make a row with the fields that `read_rows` adds."""
    name, stem, folder, above = _about(file)
    return SourceRow(name, number, {**fields, "_row": number, "_file": stem, "_folder": folder, "_above": above})


@dataclass(frozen=True, slots=True)
class LineTable:
    """JSON lines, one object for each row."""

    file: Path

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        """See `RowTable`; blank lines are no rows."""
        at = number = 0
        with reading(self.file), self.file.open("rb") as lines:
            for line in lines:
                if line.strip():
                    yield RowPlace(number, at), self._row(line, number)
                    number += 1
                at += len(line)

    def read(self, place: RowPlace) -> SourceRow:
        row = self._row(line_at(self.file, place.at), place.number)
        if isinstance(row, RowProblem):
            raise DataError(f"{self.file} was changed while it was in use: {row}. Start again.")
        return row

    def _row(self, line: bytes, number: int) -> SourceRow | RowProblem:
        fields = parsed(line)
        if isinstance(fields, str):
            return RowProblem(self.file.name, number, "row", fields)
        return as_row(self.file, number, fields)


def line_at(file: Path, at: int) -> bytes:
    """Read the line that begins at this byte."""
    with reading(file), file.open("rb") as lines:
        lines.seek(at)
        return lines.readline()


class HeldTable:
    """A JSON list or object of rows, each kept as its JSON."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._rows: list[bytes] = []

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        self._rows = []
        for number, row in enumerate(read_rows(self.file)):
            held = b"" if isinstance(row, RowProblem) else json.dumps(dict(row.fields)).encode()
            self._rows.append(held)
            yield RowPlace(number, number), row

    def read(self, place: RowPlace) -> SourceRow:
        return SourceRow(self.file.name, place.number, json.loads(self._rows[place.at]))


# Parquet and Arrow: a scan leaves out columns of bytes (a picture, `{bytes, path}`, a list of these) and, in a struct,
# its fields of bytes. To read one parquet row, its row group is read up to it.

_LIGHT, _HEAVY = 4096, 16
"""Rows per batch, without media and with them."""


class ParquetTable:
    """One parquet file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        with open_parquet(self.file) as table:
            light, heavy = _columns(table.schema_arrow)
            labels = class_labels(table.schema_arrow)
            number = 0
            for batch in table.iter_batches(batch_size=_LIGHT, columns=light):
                for fields in batch.to_pylist():
                    cells = {**named(fields, labels), **dict.fromkeys(heavy, UNREAD)}
                    yield RowPlace(number, number), as_row(self.file, number, cells)
                    number += 1

    def read(self, place: RowPlace) -> SourceRow:
        group = bisect_right(self._starts, place.at) - 1
        left = place.at - self._starts[group]
        with open_parquet(self.file) as table:
            for batch in table.iter_batches(batch_size=_HEAVY, row_groups=[group]):
                if left < batch.num_rows:
                    (fields,) = batch.slice(left, 1).to_pylist()
                    return as_row(self.file, place.number, named(fields, class_labels(table.schema_arrow)))
                left -= batch.num_rows
        raise DataError(f"{self.file} was changed while it was in use: it has no row {place.number + 1}. Start again.")

    @cached_property
    def _starts(self) -> list[int]:
        """Number of the first row of each group."""
        with open_parquet(self.file) as table:
            sizes = [table.metadata.row_group(number).num_rows for number in range(table.metadata.num_row_groups)]
        return [0, *accumulate(sizes)][:-1]


class ArrowTable:
    """One file of a data set that `datasets` saved to the disk; mapped into memory, not read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        table = self._table
        light, heavy = _columns(table.schema)
        labels = class_labels(table.schema)
        mixed = {name.partition(".")[0] for name in light if name not in table.schema.names}
        number = 0
        # Of a column that is in memory already, inner fields cannot be left out: then few rows at once.
        plain = [name for name in table.schema.names if name not in heavy]
        for batch in table.select(plain).to_batches(max_chunksize=_HEAVY if mixed else _LIGHT):
            for fields in batch.to_pylist():
                cells = {**named(fields, labels), **dict.fromkeys(heavy, UNREAD)}
                yield RowPlace(number, number), as_row(self.file, number, cells)
                number += 1

    def read(self, place: RowPlace) -> SourceRow:
        (fields,) = self._table.slice(place.at, 1).to_pylist()
        return as_row(self.file, place.number, named(fields, class_labels(self._table.schema)))

    @cached_property
    def _table(self) -> Any:
        pyarrow, _ = load_pyarrow()
        with reading(self.file):
            try:
                return pyarrow.ipc.open_stream(pyarrow.memory_map(str(self.file))).read_all()
            except pyarrow.ArrowException as error:
                raise ValueError(str(error)) from error


def class_labels(schema: Any) -> dict[str, list[str]]:
    """Return the class names of Hugging Face `ClassLabel` columns."""
    try:
        metadata = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = metadata["info"]["features"]
        return {name: kind["names"] for name, kind in features.items() if kind.get("_type") == "ClassLabel"}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # written by another program


def named(fields: Mapping[str, Any], labels: Mapping[str, list[str]]) -> dict[str, Any]:
    """Replace label numbers by their names."""
    row = dict(fields)
    for name, names in labels.items():
        number = row.get(name)
        if isinstance(number, int) and 0 <= number < len(names):
            row[name] = names[number]
    return row


def _columns(schema: Any) -> tuple[list[str], list[str]]:
    """Return the columns and inner fields that a scan reads, and the columns that it leaves out."""
    light: list[str] = []
    heavy: list[str] = []
    for field in schema:
        inner = _inner_fields(field.type) if _holds_bytes(field.type) else None
        if inner is None:
            light.append(field.name)
        elif "bytes" in inner or not (leaves := _leaves(field)):
            heavy.append(field.name)
        else:
            light += leaves
    return light, heavy


def _inner_fields(kind: Any) -> dict[str, Any]:
    """Return the fields of a struct by name; none for other types."""
    pyarrow, _ = load_pyarrow()
    return {field.name: field for field in kind} if pyarrow.types.is_struct(kind) else {}


def _leaves(field: Any) -> list[str]:
    """Return the dotted names of a struct's fields without bytes."""
    inner = _inner_fields(field.type).items()
    return [f"{field.name}.{name}" for name, value in inner if not _holds_bytes(value.type)]


def _holds_bytes(kind: Any) -> bool:
    pyarrow, _ = load_pyarrow()
    types = pyarrow.types
    if types.is_struct(kind):
        return any(_holds_bytes(kind.field(number).type) for number in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _holds_bytes(kind.value_type)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


_log = logging.getLogger(__name__)
_LOOKED_AT: Final = 64 << 20
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS: Final = "\t,;|"
_OLD_MAC: Final = re.compile(rb"[^\r\n]*\r(?!\n)")
"""A first line that ends as those of old Macintosh files do."""
_TOLD: Final = re.compile(r"sep=(.)\r?\n")
_HIGH: Final = re.compile(rb"[\x80-\xff]+")

_PAGES: Final = (
    ("cp949", "Korean", rb"[\xb0-\xc8][\xa1-\xfe]|\xa1[\xa1-\xfe]"),
    ("cp932", "Japanese", rb"[\x82\x83][\x40-\xf1]|\x81[\x41-\x9a]|[\x88-\x97][\x40-\xfc]"),
    ("gb18030", "simplified Chinese", rb"[\xb0-\xd7][\xa1-\xfe]|[\xa1\xa3][\xa1-\xfe]"),
    ("big5", "traditional Chinese", rb"[\xa4-\xc6][\x40-\x7e\xa1-\xfe]|\xa1[\x40-\x7e\xa1-\xfe]"),
)
"""Code page, what it writes, and the bytes of its usual signs; of two that fit alike the first is taken."""
_FEWEST: Final = 10
_USUAL: Final = 0.8
"""Share of a text's signs beyond ASCII that are usual ones in its own code page."""


class DelimitedTable:
    """A file of TSV or CSV with a head; quoted cells may hold line breaks.

    An `image` cell of VLMEvalKit's that is the `index` of another row stands for the picture of that row.
    """

    def __init__(self, file: Path, encoding: str = "") -> None:
        """Name the file; `encoding` is Python's name of a text encoding, where the file does not tell."""
        self.file = file
        self._said = encoding
        self._opened = False
        self._separator = ","
        self._rows: list[list[str]] | None = None
        self._names: list[str] = []
        self._start = 0
        self._pictures: dict[str, int] | None = None

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        with reading(self.file):
            for number, (at, cells) in enumerate(self._listed()):
                yield RowPlace(number, at), self._row(cells, number)

    def read(self, place: RowPlace) -> SourceRow:
        with reading(self.file):
            self._open()
            row = self._row(self._cells(place.at), place.number)
        if isinstance(row, RowProblem):
            raise DataError(f"{self.file} was changed while it was in use: {row}. Start again.")
        return row

    def _listed(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the place and the cells of each row that is not blank."""
        self._open()
        if self._rows is not None:
            yield from ((at, cells) for at, cells in enumerate(self._rows) if _filled(cells))
            return
        with self.file.open("rb") as binary:
            binary.seek(self._start)
            lines = _Counted(binary)
            at = self._start
            for cells in csv.reader(lines, delimiter=self._separator):
                if _filled(cells):
                    yield at, cells
                at = self._start + lines.read

    def _cells(self, at: int) -> list[str]:
        if self._rows is not None:
            return self._rows[at] if at < len(self._rows) else []
        with self.file.open("rb") as binary:
            binary.seek(at)
            return next(csv.reader(_Counted(binary), delimiter=self._separator), [])

    def _row(self, cells: list[str], number: int) -> SourceRow | RowProblem:
        if len(cells) != len(self._names):
            wrong = f"it has {len(cells)} cells where the head has {len(self._names)}"
            return RowProblem(self.file.name, number, "row", wrong)
        fields = dict(zip(self._names, cells, strict=True))
        if (index := picture_index(fields)) is not None and (at := self._with_pictures().get(index)) is not None:
            shared = dict(zip(self._names, self._cells(at), strict=False))
            fields["image"] = shared.get("image", "")
        return as_row(self.file, number, fields)

    def _with_pictures(self) -> dict[str, int]:
        """Return the places of the rows that hold a picture, by their index."""
        if self._pictures is None:
            named = [(at, dict(zip(self._names, cells, strict=False))) for at, cells in self._short()]
            self._pictures = {row["index"]: at for at, row in named if picture_index(row) is None and row.get("image")}
        return self._pictures

    def _short(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows with their cells cut: a picture has millions of letters, and only its being there counts."""
        return ((at, [cell[:100] for cell in cells]) for at, cells in self._listed())

    def _open(self) -> None:
        """Find out encoding, separator and head, once; keep the rows of what is no UTF-8 with ordinary lines."""
        if self._opened:
            return
        csv.field_size_limit(LONGEST_CELL)
        with self.file.open("rb") as binary:
            head = binary.read(_LOOKED_AT)
        encoding = self._said or encoding_of(head, self.file)
        if encoding == "utf-8" and not _OLD_MAC.match(head):
            start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
            told = _TOLD.match(head[start : start + 8].decode("latin-1"))
            start += len(told[0]) if told else 0
            with self.file.open("rb") as binary:
                binary.seek(start)
                self._separator = told[1] if told else separator_of(_Counted(binary))
                binary.seek(start)
                lines = _Counted(binary)
                self._names = _head(csv.reader(lines, delimiter=self._separator))
            self._start = start + lines.read
        else:
            text = self._text(encoding).removeprefix("\ufeff")
            told = _TOLD.match(text)
            text = text[len(told[0]) if told else 0 :]
            self._separator = told[1] if told else separator_of(io.StringIO(text, newline=""))
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=self._separator)
            self._names = _head(rows)
            self._rows = list(rows)
        self._opened = True

    def _text(self, encoding: str) -> str:
        try:
            return self.file.read_bytes().decode(encoding)
        except LookupError as error:
            raise DataError(
                f'{self.file}: there is no encoding {encoding!r}. Python knows "cp1251" and the like.'
            ) from error


def _filled(cells: Iterable[str]) -> bool:
    """Return whether a row holds more than blanks, and the marks with which some programs end a file."""
    return any(cell.strip("\0\x1a \t") for cell in cells)


def _head(rows: Iterable[list[str]]) -> list[str]:
    """Take the names of the columns off the beginning of `rows`."""
    return [name.strip() for name in next(filter(_filled, rows), ())]


class _Counted:
    """Iterates over the lines of a file as UTF-8 and counts the bytes read."""

    def __init__(self, binary: Any) -> None:
        self._binary, self.read = binary, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._binary:
            self.read += len(line)
            yield line.decode()


def separator_of(lines: Iterable[str]) -> str:
    """Return the separator that cuts head and first row into equally many cells, and into most.

    Of two alike it is the first of tab, comma, semicolon, bar.
    """
    beginning = list(_records(lines, 2))

    def fit(sign: str) -> tuple[bool, int]:
        cells = [len(row) for row in csv.reader(beginning, delimiter=sign) if row]
        return len(set(cells[:2])) == 1 < max(cells, default=0), cells[0] if cells else 0

    return max(_SEPARATORS, key=fit)


def _records(lines: Iterable[str], count: int) -> Iterator[str]:
    """Yield the lines of the first `count` rows that are not blank; an open quotation mark joins lines."""
    marks = 0
    for line in lines:
        yield line
        marks += line.count('"')
        count -= marks % 2 == 0 and bool(line.strip())
        if not count:
            return


def encoding_of(head: bytes, file: Path) -> str:
    """Return the encoding of a text file from its beginning, by the rule above; a code page is said in the log. Raises
    `DataError` if none fits.
    """
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise DataError(f"{file} is a workbook, as Excel's, whatever its name says. Save the sheet as CSV.")
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    pairs = head[:4096]
    if len(pairs) > 3 and (even := pairs[::2].count(0)) + (odd := pairs[1::2].count(0)) > len(pairs) / 4:
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < _LOOKED_AT)
        return "utf-8"
    except UnicodeDecodeError:
        page, language = _code_page(head, file)
    _log.warning(
        "%s is neither UTF-8 nor UTF-16: read as %s (%s), the code page that fits its bytes. If that is wrong, say "
        'encoding = "..." in a [[source]] table, or save the file as UTF-8.',
        file,
        page,
        language,
    )
    return page


def _code_page(head: bytes, file: Path) -> tuple[str, str]:
    """Return the code page of a text and what it writes.

    A page of East Asia, if all bytes decode in it and eight of ten signs beyond ASCII are usual ones of its language:
    the one with most of these. Else Cyrillic, if most such bytes, ten at least, are letters of it in rows of three or
    more. Else Western European.
    """
    found = []
    for place, (page, language, usual) in enumerate(_PAGES):
        try:
            beyond = sum(not sign.isascii() for sign in codecs.getincrementaldecoder(page)().decode(head))
        except UnicodeDecodeError:
            continue
        share = len(re.findall(usual, head)) / beyond if beyond else 0.0
        if share >= _USUAL:
            found.append((share, -place, page, language))
    if found:
        return max(found)[2:]
    runs = _HIGH.findall(head)
    letters = sum(len(run) for run in runs if len(run) > 2 and min(run) >= 0xA8)
    cyrillic = 2 * letters > sum(map(len, runs)) and letters >= _FEWEST
    page, language = ("cp1251", "Cyrillic") if cyrillic else ("cp1252", "Western European")
    try:
        head.decode(page)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is in no encoding that is known here (byte {error.start:,}). Save it as UTF-8, or say "
            'encoding = "..." in its [[source]] table.'
        ) from error
    return page, language
