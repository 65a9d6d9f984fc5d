"""Rows of a user's files, in any form that `forms.py` knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from saccade.errors import DataError
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.tasks.benchmarks.media_files import MediaFiles
from saccade.tasks.benchmarks.pictures import RowMediaReader
from saccade.tasks.benchmarks.problem import FieldError, RowProblem
from saccade.tasks.sources.reader import TaskSummary
from saccade.tasks.sources.row_tasks import RowTasks
from saccade.tasks.sources.tables import RowPlace, RowTable


class RowSpot(NamedTuple):
    """Where a row is."""

    table: int
    place: RowPlace


class RowReader:
    """The rows of some tables that lie in one folder."""

    def __init__(self, rows: RowTasks, tables: tuple[RowTable, ...], folder: Path) -> None:
        self._rows, self._tables = rows, tables
        self._files = MediaFiles(folder, rows.settings.media, anywhere=True)
        self._media: dict[Path, RowMediaReader] = {}
        self._lock = Lock()

    @property
    def label(self) -> str:
        return self._rows.label

    def scan(self) -> Iterator[tuple[RowSpot, TaskSummary] | RowProblem]:
        for number, table in enumerate(self._tables):
            for place, row in table.scan():
                if isinstance(row, RowProblem):
                    yield row
                    continue
                try:
                    yield RowSpot(number, place), self._rows.light(row.fields, self._files)
                except FieldError as error:
                    yield row.problem(error.field, error.reason)

    def make(self, spot: RowSpot, store: MediaStore) -> Task:
        row = self._tables[spot.table].read(spot.place)
        with self._lock:
            media = self._media.setdefault(store.root, RowMediaReader(self._files, store))
        try:
            return self._rows.task(row.fields, media)
        except FieldError as error:
            problem = row.problem(error.field, error.reason)
            raise DataError(
                f"{problem}. Correct the row or take it out; `saccade tasks check` lists all of them."
            ) from error
