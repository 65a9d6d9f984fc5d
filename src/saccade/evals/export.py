"""Writes the samples of a run as a table with VLMEvalKit's columns, as far as it has them, and some of our own.

`index`, `question`, options `A` on, `answer`, `category`, `split`, `prediction` and `hit` are VLMEvalKit's; of a choice
`answer` is the letter. `hit` is 1, 0, partial credit, or empty where there is no grade. The file appears complete or
not at all. Texts are written as texts: no cell becomes a formula.

`headline` says whose verdict `hit` is, `judge` what a judge said: `right`, `wrong`, `invalid` for a reply that is no
verdict (`no_verdict` says why), `none` where none was asked.
"""

from __future__ import annotations

import csv
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, islice, product
from operator import attrgetter
from pathlib import Path
from string import ascii_uppercase
from typing import Final, Protocol

from saccade.core.disk import atomic_file
from saccade.core.plugins import install
from saccade.core.registry import Registry, has_members
from saccade.errors import SettingsError, UnavailableError
from saccade.evals.rows import COLUMNS, EvalRow
from saccade.record.task import right_choices
from saccade.record.trajectory import Trajectory

_log = logging.getLogger(__name__)

Cell = str | int | float | None
Table = Sequence[Mapping[str, Cell]]

_OWN: Final = {
    **{column.export: attrgetter(name) for name, column in COLUMNS.items() if column.export},
    "headline": attrgetter("headline"),
    "judge": attrgetter("judgement"),
}
"""Columns that VLMEvalKit lacks: name -> the value of a row."""
_HEADS: Final = ("index", "question", "answer", "category", "split", "prediction", "hit", *_OWN)
"""Of a table without rows, so without options."""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_XLSX_CHARACTERS: Final = 32_767
"""Of one cell."""


def export(rows: Sequence[EvalRow], path: Path, form: str = "") -> None:
    """Write the rows to `path` as `form`, or as its suffix says: jsonl, csv, tsv, parquet or xlsx.

    Raises:
        SettingsError: the form is another.
        UnavailableError: parquet or xlsx is asked for, and what writes it is not installed.
    """
    suffix = form or path.suffix.lstrip(".").lower()
    if suffix not in WRITERS:
        raise SettingsError(f"{suffix or path} is no form of a table: name one of {', '.join(WRITERS)} with --format.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial:
        WRITERS[suffix](table(rows), partial)


def table(rows: Sequence[EvalRow]) -> list[dict[str, Cell]]:
    """Return the rows with the same columns each."""
    letters = _letters(max((len(row.choices) for row in rows), default=0))
    return [_cells(number, row, letters) for number, row in enumerate(rows)]


def _letters(most: int) -> tuple[str, ...]:
    """Return a to Z, then AA, AB and on."""
    every = ("".join(letters) for length in count(1) for letters in product(ascii_uppercase, repeat=length))
    return tuple(islice(every, most))


def _cells(number: int, row: EvalRow, letters: Sequence[str]) -> dict[str, Cell]:
    options = dict(zip(letters, row.choices, strict=False))
    right = right_choices(row.gold, row.choices)
    letter = ", ".join(next(name for name, text in options.items() if text == one) for one in right)
    return {
        "index": number,
        "question": row.question,
        **{name: options.get(name) for name in letters},
        "answer": letter or row.gold,
        "category": row.tags[0] if row.tags else None,
        "split": row.split,
        "prediction": row.answer,
        "hit": row.correct,
        **{name: value(row) for name, value in _OWN.items()},
    }


def _columns(data: Table) -> list[str]:
    return list(data[0]) if data else list(_HEADS)


def _jsonl(data: Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in data), encoding="utf-8")


def _separated(separator: str) -> Callable[[Table, Path], None]:
    def write(data: Table, path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _columns(data), delimiter=separator, lineterminator="\n")
            writer.writeheader()
            writer.writerows(data)

    return write


def _parquet(data: Table, path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UnavailableError(f"parquet needs pyarrow: {install('data')}") from error
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(data)), path)


def _xlsx(data: Table, path: Path) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
    except ImportError as error:
        raise UnavailableError(f"xlsx needs openpyxl: {install('data')}") from error
    book = Workbook(write_only=True)
    sheet = book.create_sheet("samples")

    def cell(value: Cell) -> object:
        if not isinstance(value, str):
            return value
        made = WriteOnlyCell(sheet, _UNPRINTABLE.sub("\ufffd", value)[:_XLSX_CHARACTERS])
        made.data_type = "s"  # a text that begins with = stays a text
        return made

    sheet.append(_columns(data))
    for row in data:
        sheet.append([cell(value) for value in row.values()])
    book.save(path)
    _say_what_is_lost(data)


def _say_what_is_lost(data: Table) -> None:
    texts = [value for row in data for value in row.values() if isinstance(value, str)]
    cut = sum(len(text) > _XLSX_CHARACTERS for text in texts)
    if cut:
        _log.warning("%d text(s) cut: a cell of xlsx holds %d characters. jsonl has all.", cut, _XLSX_CHARACTERS)
    replaced = sum(_UNPRINTABLE.search(text) is not None for text in texts)
    if replaced:
        _log.warning("%d text(s) have \ufffd for control characters, which xlsx cannot hold. jsonl has all.", replaced)


WRITERS: Mapping[str, Callable[[Table, Path], None]] = {
    "jsonl": _jsonl,
    "csv": _separated(","),
    "tsv": _separated("\t"),
    "parquet": _parquet,
    "xlsx": _xlsx,
}
"""Form -> what writes it."""


class EpisodeExport(Protocol):
    """Writes episodes in another format, or sends them to a service (`saccade export --to NAME`).

    Packages register theirs by an entry point of the group `saccade.exports`.
    """

    items: str
    """The things that are written, for a message: `spans`."""
    file_name: str
    """Name of the file in the run's folder, where none is given."""

    def export(self, episodes: Iterable[Trajectory], target: Path | str, *, content: bool) -> int:
        """Write the episodes to a file, or send them to the address `target`; return the number of items.

        Args:
            episodes: recorded ones, each once.
            target: a file, or an address as text.
            content: also export texts, code and output.

        Raises:
            UnavailableError: a package that it needs is not installed.
            SettingsError: the episodes cannot be written or delivered.
        """


EXPORTS: Final = Registry[EpisodeExport]("exports", {}, has_members(("items", "file_name", "export")))
