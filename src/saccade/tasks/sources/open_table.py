"""The table of a file, by its suffix."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from saccade.errors import DataError
from saccade.tasks.sources.columns import ArrowTable, ParquetTable
from saccade.tasks.sources.tables import RowTable
from saccade.tasks.sources.text_tables import DelimitedTable, HeldTable, LineTable

SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".tsv", ".csv", ".parquet", ".arrow")
"""Of files whose rows are read."""


def open_table(file: Path) -> RowTable:
    """The table of a file, by its suffix.

    Raises:
        DataError: rows are not read from such files.
    """
    match file.suffix.lower():
        case ".jsonl" | ".ndjson":
            return LineTable(file)
        case ".tsv":
            return DelimitedTable(file, "\t")
        case ".csv":
            return DelimitedTable(file, ",")
        case ".json":
            return HeldTable(file)
        case ".parquet":
            return ParquetTable(file)
        case ".arrow":
            return ArrowTable(file)
    raise DataError(
        f"{file} is of an unknown kind; rows are read from {', '.join(SUFFIXES)}. Convert it to one of them."
    )
