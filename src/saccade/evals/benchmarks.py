"""Chooses the tasks of a benchmark for one run, reads them once, and keeps them in the run folder.

Rows hold pictures, so tasks are made once, as `tasks/NAME-KEY.jsonl` with their media in the run's store; a continued
run reads them there. `n` counts rows that the card takes: a row whose choices are cycled gives several tasks, which
stay together. Rows that give no task are kept among the run's failures.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

from saccade.core.disk import atomic_file
from saccade.dialects.base import Dialect
from saccade.episode.task_media import Unshown, takes_pictures, unshown
from saccade.errors import SaccadeError
from saccade.evals.grades import Headline, SampleFailure, add_failure
from saccade.evals.settings import EvalSettings
from saccade.grading.registry import load_grader
from saccade.media.store import MediaStore
from saccade.record.base import clean_text
from saccade.record.codec import dumps, read_lines
from saccade.record.task import Task
from saccade.tasks.benchmarks.benchmark import CIRCULAR, TURNED, Benchmark, open_benchmark, tasks_of_rows
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.rows import load_loader
from saccade.tasks.benchmarks.registry import load_card, recorded_card
from saccade.tasks.benchmarks.row_files import RowProblem, SourceRow, matches
from saccade.tasks.frames import FrameSettings
from saccade.tasks.sources.resolve import CardReader
from saccade.tasks.sources.settings import SourceSettings, rotated, rotations, shuffled
from saccade.tasks.sources.task_set import OpenSource, drawn, expanded

# Which tasks are chosen depends only on the seed and their names, so every model gets the same ones, and a larger `n`
# adds to those of a smaller one.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Item:
    """One task that can be made."""

    id: str
    make: Callable[[MediaStore], Task]
    """Gives the task and puts its media into a store; may be called in any thread."""
    grader: str = ""
    """Id of the source's grader; empty: the one that the task names, or that of the answer's type."""
    rotations: int = 1
    """In how many orders its choices can be shown."""

    def turned(self) -> Iterator[Item]:
        """Yield it once for every rotation of its choices."""
        for turn in range(self.rotations):
            yield (
                self
                if self.rotations == 1
                else replace(self, id=f"{self.id}/{CIRCULAR}-{turn}", make=partial(self._turned, turn), rotations=1)
            )

    def _turned(self, turn: int, store: MediaStore) -> Task:
        return rotated(self.make(store), turn, CIRCULAR)


class ItemSource(Protocol):
    """Tasks for runs."""

    @property
    def note(self) -> str:
        """What a person should know of what is taken and what is not; empty for nothing."""

    def unshown(self, dialect: Dialect, frames: FrameSettings) -> Sequence[Unshown]:
        """List its tasks with pictures or videos that the dialect cannot show, as far as known before they are made."""

    async def items(self, settings: EvalSettings, out: Path, store: MediaStore) -> Sequence[Item]:
        """Return the tasks of the run in folder `out`, in the source's order; rows that give none go to its failures.

        Raises:
            RecordError, DataError: the tasks cannot be read.
        """


def of_shard(items: Sequence[T], settings: EvalSettings, chosen: frozenset[int]) -> list[T]:
    """Return the shard's items among the chosen places: every n-th of all places, whatever is chosen."""
    number, shards = settings.shards
    return [item for place, item in enumerate(items) if place in chosen and place % shards == number]


_TURNED = re.compile(rf"/({'|'.join(TURNED)})-\d+\Z")
FOLDER = "tasks"
BROKEN_ROW = "broken_row"
"""Kind of the failure of a row that gives no task."""


_SAYS_NOTHING_OF_TASKS = {"title", "graders", "metric", "settings", "scores", "size", "notes", "splits"}
"""Parts of a card that may change while a run is under way."""


@dataclass(frozen=True)
class CardSource:
    """A benchmark on this disk."""

    benchmark: Benchmark
    note: str = ""

    def unshown(self, dialect: Dialect, frames: FrameSettings) -> Sequence[Unshown]:
        """See `Source`. Rows are read for it only where the card leaves it open."""
        card = self.benchmark.card
        if not card.fields.videos and takes_pictures(dialect):
            return ()
        rows = CardReader(self.benchmark)
        lights = [row[1] for row in rows.scan() if not isinstance(row, RowProblem)]
        return tuple(unshown(OpenSource(SourceSettings(name=rows.label), rows, lights), dialect, frames))

    async def items(self, settings: EvalSettings, out: Path, store: MediaStore) -> Sequence[Item]:
        """See `Source`. Tasks that are not in `out` yet are made now. Raises `DataError` if a file of the data cannot
        be read, `UnavailableError` if what reads it is not installed.
        """
        card = self.benchmark.card
        path = out / FOLDER / f"{card.name}-{_key(card, settings)}.jsonl"
        if not path.exists():
            await self._make(settings, path, store)
        return [_item(task, card.grader_of(task).spec) for task in read_lines(path, Task)]

    async def _make(self, settings: EvalSettings, path: Path, store: MediaStore) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        card = self.benchmark.card
        with atomic_file(path) as partial, partial.open("wb") as file:
            for item in tasks_of_rows(self._rows(settings), card, self.benchmark.folder, store):
                if isinstance(item, RowProblem):
                    add_failure(path.parent.parent, _failure(card, item))
                else:
                    file.write(dumps(_ordered(item, card)).encode() + b"\n")
                await asyncio.sleep(0)  # lets Ctrl-C through
            file.flush()
            os.fsync(file.fileno())

    def _rows(self, settings: EvalSettings) -> Iterator[SourceRow | RowProblem]:
        """Yield the chosen rows of this shard; those that cannot be read go to the first shard."""
        card = self.benchmark.card
        places = [number for number, row in enumerate(self._all()) if not isinstance(row, RowProblem)]
        chosen = drawn([f"{card.id}/{place}" for place in range(len(places))], settings.n, settings.seed)
        taken = set(of_shard(places, settings, chosen))
        for number, row in enumerate(self._all()):
            if number in taken or (isinstance(row, RowProblem) and settings.shards[0] == 0):
                yield row

    def _all(self) -> Iterator[SourceRow | RowProblem]:
        """Yield the rows that the card takes."""
        for row in load_loader(self.benchmark.card.loader.id).rows(self.benchmark.files):
            if isinstance(row, RowProblem) or matches(row.fields, self.benchmark.card.only):
                yield row


def open_card(name: str, settings: EvalSettings) -> CardSource:
    """Open the benchmark of a card, by its id or the path of its file.

    Raises:
        RegistryError: there is no such card, or it names a grader that does not exist.
        SettingsError: the card is wrong, or gives a grader parameters that it lacks.
        DataError: its data are not on this disk; says how to get them.
    """
    card = load_card(name)
    check_graders(card)
    return CardSource(open_benchmark(card, Path(settings.data) if settings.data else None))


def check_graders(card: Card) -> None:
    """Raises `RegistryError` for a grader that does not exist, `SettingsError` for parameters that it has not."""
    for grader in card.graders.values():
        load_grader(grader.spec)


def headline_of(settings: EvalSettings) -> Callable[[Task], Headline]:
    """Return a function from a task to whose verdict counts: the settings', else its own or its card's, else `rule`."""
    if settings.headline:
        said: Headline = settings.headline
        return lambda task: said
    cards = {card.id: card for card in judged_cards(settings)}

    def of(task: Task) -> Headline:
        if task.is_open:
            return "judge"
        card = cards.get(task.source)
        return "rule" if card is None or task.answer_type not in card.graders else card.grader_of(task).headline

    return of


def in_shares(settings: EvalSettings) -> Callable[[Task], bool]:
    """Return a function that tells whether a judge gives the answer to a task a share of the credit, by its card."""
    cards = {card.id: card for card in judged_cards(settings)}

    def of(task: Task) -> bool:
        card = cards.get(task.source)
        return card is not None and task.answer_type in card.graders and card.grader_of(task).judged == "share"

    return of


def judged_cards(settings: EvalSettings) -> tuple[Card, ...]:
    """Return the cards of the run whose authors let a judge grade."""
    return tuple(
        card for card in cards_of(settings) if any(grader.headline == "judge" for grader in card.graders.values())
    )


def cards_of(settings: EvalSettings) -> tuple[Card, ...]:
    """Return the cards of the run that are still there."""
    cards = []
    for name in source_names(settings):
        with suppress(SaccadeError):  # a world, or a file of tasks
            cards.append(recorded_card(name))
    return tuple(cards)


def source_names(settings: EvalSettings) -> tuple[str, ...]:
    """Return the sources of the run without weights, those of a file of sources one by one."""
    return tuple(str(source) for source in expanded(settings.sources))


def _item(task: Task, grader: str) -> Item:
    return Item(task.id, lambda store: task, grader, 1 if _TURNED.search(task.id) else rotations(task.choices))


def _ordered(task: Task, card: Card) -> Task:
    return shuffled(task, card.choices.seed) if card.choices.order == "shuffle" else task


def _key(card: Card, settings: EvalSettings) -> str:
    named = [card.model_dump_json(exclude=_SAYS_NOTHING_OF_TASKS), settings.n, settings.seed, settings.shard]
    return sha256(json.dumps(named).encode()).hexdigest()[:12]


def _failure(card: Card, problem: RowProblem) -> SampleFailure:
    return SampleFailure(
        id=f"{card.id}/{problem.file}:{problem.row}"[:200], kind=BROKEN_ROW, detail=clean_text(str(problem))
    )
