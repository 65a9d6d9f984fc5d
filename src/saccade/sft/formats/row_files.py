"""Files of rows: JSON lines, a JSON list, parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.errors import RecordError, UnavailableError

Row = dict[str, Any]
_GROUP = 256
"""Rows of a parquet file that are in memory together."""


def find_rows(path: Path) -> Path:
    """The file of rows that `path` names: itself, or the only data file in that folder.

    Raises:
        RecordError: there is none, or there are several.
    """
    if path.is_file():
        return path
    named = [path / f"data{suffix}" for suffix in (".jsonl", ".json", ".parquet")]
    files = [file for file in named if file.is_file()]
    if not files and path.is_dir():
        files = sorted(file for suffix in ("jsonl", "parquet", "json") for file in path.glob(f"*.{suffix}"))
    if len(files) != 1:
        what = "there is none" if not files else "there are " + ", ".join(file.name for file in files)
        raise RecordError(f"{path} should be a file of rows or a folder with one; {what}. Name the file.")
    return files[0]


def read_rows(file: Path) -> Iterator[Row | str]:
    """The rows of a file, in order; for a line that is no JSON object the reason in words.

    Raises:
        RecordError: the file as a whole cannot be read.
        UnavailableError: it is parquet, and pyarrow is not installed.
    """
    if file.suffix == ".parquet":
        yield from _read_parquet(file)
        return
    with file.open(encoding="utf-8-sig") as lines:
        if _first_sign(lines.read(4096)) == "[":
            lines.seek(0)
            try:
                rows = json.loads(lines.read().lstrip("\ufeff"))
            except ValueError as error:
                raise RecordError(f"{file} begins as a JSON list, but is none: {error}") from error
            yield from (row if isinstance(row, dict) else "it is no JSON object" for row in rows)
            return
        lines.seek(0)
        for line in lines:
            if line.strip():
                yield _parsed(line)


def write_jsonl(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines."""
    with file.open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_parquet(file: Path, rows: Iterable[Row], schema: Any) -> None:
    """Write rows with a pyarrow schema, a group of them at a time."""
    pyarrow, parquet = load_pyarrow()
    stream = iter(rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(stream, _GROUP)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))


def load_pyarrow() -> tuple[Any, Any]:
    """The modules `pyarrow` and `pyarrow.parquet`. Raises `UnavailableError` without them."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UnavailableError("parquet files need pyarrow: pip install 'saccade[data]'") from error
    return pyarrow, parquet


def _read_parquet(file: Path) -> Iterator[Row]:
    pyarrow, parquet = load_pyarrow()
    try:
        with parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_GROUP):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise RecordError(f"{file} cannot be read as parquet: {error}") from error


def _parsed(line: str) -> Row | str:
    try:
        row = json.loads(line)
    except ValueError as error:
        return f"it is no JSON: {error}"
    return row if isinstance(row, dict) else "it is no JSON object"


def _first_sign(text: str) -> str:
    return text.lstrip("\ufeff \t\r\n")[:1]
