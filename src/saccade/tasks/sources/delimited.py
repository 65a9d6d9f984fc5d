"""Read TSV and CSV as programs write them: any separator of Excel's, UTF-8, UTF-16, and the code pages of Windows.

The separator is the one of tab, comma and semicolon that cuts the head and the first row into equally many cells, and
into most; a line `sep=;` before the head names it. The encoding is, in this order: what the source says; what a byte
order mark says; UTF-16 if every second byte of the beginning is 0; UTF-8 if the first 64 MiB are UTF-8; a code page, by
`_code_page`, with a line in the log.
"""

from __future__ import annotations

import codecs
import csv
import io
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from saccade.errors import DataError
from saccade.tasks.benchmarks.loaders.rows import picture_index
from saccade.tasks.benchmarks.row_files import LONGEST_CELL, SourceRow, reading
from saccade.tasks.benchmarks.values import RowProblem
from saccade.tasks.sources.tables import RowPlace, as_row

_log = logging.getLogger(__name__)
_LOOKED_AT: Final = 64 << 20
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS: Final = "\t,;"
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
            yield from ((at, cells) for at, cells in enumerate(self._rows) if any(cells))
            return
        with self.file.open("rb") as binary:
            binary.seek(self._start)
            lines = _Counted(binary)
            at = self._start
            for cells in csv.reader(lines, delimiter=self._separator):
                if any(cells):
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
                self._names = next(csv.reader(lines, delimiter=self._separator), [])
            self._start = start + lines.read
        else:
            text = self._text(encoding).removeprefix("\ufeff")
            told = _TOLD.match(text)
            text = text[len(told[0]) if told else 0 :]
            self._separator = told[1] if told else separator_of(io.StringIO(text, newline=""))
            self._rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=self._separator))
            self._names = self._rows.pop(0) if self._rows else []
        self._opened = True

    def _text(self, encoding: str) -> str:
        try:
            return self.file.read_bytes().decode(encoding)
        except LookupError as error:
            raise DataError(
                f'{self.file}: there is no encoding {encoding!r}. Python knows "cp1251" and the like.'
            ) from error


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

    Of two alike it is the first of tab, comma, semicolon.
    """
    beginning = list(_records(lines, 2))

    def fit(sign: str) -> tuple[bool, int]:
        cells = [len(row) for row in csv.reader(beginning, delimiter=sign)]
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
    """Return the encoding of a text file from its beginning, by the rule above; a code page is said in the log.

    Raises:
        DataError: none fits.
    """
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
