"""Read a benchmark by its card. Rows are read again when their task is made, where their file allows it.

Tasks get their card's grader; if the benchmark's authors let a model grade, the answer is open. Choices are shuffled
or cycled as the card says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from saccade.errors import DataError
from saccade.media.store import MediaStore
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.benchmark import CIRCULAR, TURNED, Benchmark, turned, turns
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.base import load_loader
from saccade.tasks.benchmarks.loaders.rows import RowLoader
from saccade.tasks.benchmarks.make_task import draft, make_task, tags_of
from saccade.tasks.benchmarks.media_files import MediaFiles, RowMediaReader, items
from saccade.tasks.benchmarks.row_files import SourceRow
from saccade.tasks.benchmarks.values import FieldError, RowProblem, first_value, matches
from saccade.tasks.sources.folder import open_table
from saccade.tasks.sources.readers import TaskSummary, content_of
from saccade.tasks.sources.row_tasks import with_open
from saccade.tasks.sources.shares import rotations, shuffled
from saccade.tasks.sources.tables import UNREAD, RowPlace


class CardSpot(NamedTuple):
    """The place of a task."""

    file: int
    """Number of the file; -1 for rows that stay in memory."""
    place: RowPlace
    turn: int
    """Rotation of its choices."""


class CardReader:
    """Reads the tasks of a benchmark on disk."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._card = benchmark.card
        self._loader = load_loader(benchmark.card.loader.id)
        self._tables = tuple(map(open_table, benchmark.files)) if isinstance(self._loader, RowLoader) else ()
        self._held: list[SourceRow] = []
        self._media: dict[Path, RowMediaReader] = {}
        self._lock = Lock()

    @property
    def label(self) -> str:
        """Return the id of the card, with the split if it is not the card's default."""
        return f"{self._card.id}:{self._card.part}" if self._card.part else self._card.id

    def scan(self) -> Iterator[tuple[CardSpot, TaskSummary] | RowProblem]:
        seen: set[str] = set()
        for file, place, row in self._rows():
            if isinstance(row, RowProblem):
                yield row
                continue
            try:
                fields = self._adapted(row)
                if not matches(fields, self._card.only):
                    continue
                light, count = self._light(fields)
            except FieldError as error:
                yield row.problem(error.field, error.reason)
                continue
            if light.id in seen:
                yield row.problem("id", f"{light.id!r} is the id of an earlier row")
                continue
            seen.add(light.id)
            order = self._card.choices.order
            if order not in TURNED or (order == CIRCULAR and count == 1):
                yield CardSpot(file, place, 0), light
                continue
            for turn in range(count):
                yield CardSpot(file, place, turn), replace(light, id=f"{light.id}/{order}-{turn}", rotations=1)

    def make(self, spot: CardSpot, store: MediaStore) -> Task:
        row = self._held[spot.place.at] if spot.file < 0 else self._tables[spot.file].read(spot.place)
        with self._lock:
            files = MediaFiles(self._benchmark.folder, self._card.loader.media)
            media = self._media.setdefault(store.root, RowMediaReader(files, store))
        try:
            task = make_task(self._adapted(row), self._card, media)
        except FieldError as error:
            raise DataError(f"{row.problem(error.field, error.reason)}. Correct the row, or take it out.") from error
        order = self._card.choices.order
        if order in TURNED:
            task = tuple(turned(task, order))[spot.turn]
        elif order == "shuffle":
            task = shuffled(task, self._card.choices.seed)
        return task.model_copy(update={"grader": _grader(self._card, task.answer_type)})

    def _rows(self) -> Iterator[tuple[int, RowPlace, SourceRow | RowProblem]]:
        for file, table in enumerate(self._tables):
            for place, row in table.scan():
                yield file, place, row
        if not self._tables:
            self._held = []
            for row in self._loader.rows(self._benchmark.files):
                place = RowPlace(row.row if isinstance(row, RowProblem) else row.number, len(self._held))
                if isinstance(row, SourceRow):
                    self._held.append(row)
                yield -1, place, row

    def _adapted(self, row: SourceRow) -> Mapping[str, Any]:
        return self._loader.adapt(row.fields) if isinstance(self._loader, RowLoader) else row.fields

    def _light(self, fields: Mapping[str, Any]) -> tuple[TaskSummary, int]:
        card = self._card
        said = draft(fields, card)
        known = {name: value for name, value in fields.items() if value is not UNREAD}
        tags = tags_of(known, card, said.question)
        pictures, videos = _count(fields, card.fields.images), _count(fields, card.fields.videos)
        light = TaskSummary(
            said.id,
            tags,
            said.answer_type,
            said.answer is not None,
            pictures + videos,
            _grader(card, said.answer_type),
            videos=videos,
            content=content_of(said.question, said.choices, said.answer),
            rotations=rotations(said.choices),
        )
        return light, turns(said.choices, card.choices.order)


def _count(fields: Mapping[str, Any], names: Sequence[str]) -> int:
    """Count the pictures or videos of a row; an unread column counts as one."""
    value = first_value(fields, names)
    return 0 if value is None else 1 if value is UNREAD else len(items(value))


def _grader(card: Card, kind: AnswerType) -> str:
    chosen = card.graders[kind]
    return with_open(chosen.spec, chosen.headline == "judge")
