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
from saccade.core.registry import did_you_mean
from saccade.dialects.base import Dialect
from saccade.episode.task_media import Unshown, takes_pictures, unshown
from saccade.errors import RegistryError, SaccadeError, SettingsError
from saccade.evals.grades import Headline, SampleFailure, add_failure
from saccade.evals.settings import EvalSettings
from saccade.grading.registry import load_grader
from saccade.media.store import MediaStore
from saccade.record.codec import dumps, read_lines
from saccade.record.content import clean_text
from saccade.record.task import Task
from saccade.tasks.benchmarks.card import Card, PaperSettings
from saccade.tasks.benchmarks.loaders.rows import load_loader
from saccade.tasks.benchmarks.registry import (
    CIRCULAR,
    TURNED,
    Benchmark,
    load_card,
    open_benchmark,
    recorded_card,
    tasks_of_rows,
)
from saccade.tasks.benchmarks.row_files import RowProblem, SourceRow, matches
from saccade.tasks.media import FrameSettings
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


# Applies the settings with which a paper ran a benchmark to a run, and compares them with a run's.
#
#     saccade eval vstar --as pyvision-rl
#
# What a user sets wins over the paper, with a notice. Prompts and graders of a paper are not included: equal settings
# do not promise an equal figure.


@dataclass(frozen=True, slots=True)
class _Knob:
    """One setting of a paper, and where a run has it."""

    name: str
    """As a person reads it."""
    field: str
    """Of `PaperSettings`."""
    group: str
    """Of `EvalSettings`, or empty."""
    setting: str
    """Within the group."""

    def of_paper(self, paper: PaperSettings) -> object:
        return getattr(paper, self.field)

    def of_run(self, settings: EvalSettings) -> object:
        return getattr(getattr(settings, self.group) if self.group else settings, self.setting)

    def chosen(self, settings: EvalSettings) -> bool:
        """Return whether the user has set it, in a file or on the command line."""
        holder = getattr(settings, self.group) if self.group else settings
        return self.setting in holder.model_fields_set


_KNOBS = (
    _Knob("dialect", "dialect", "", "dialect"),
    _Knob("temperature", "temperature", "sampling", "temperature"),
    _Knob("top-k", "top_k", "sampling", "top_k"),
    _Knob("turns", "turns", "limits", "turns"),
    _Knob("context tokens", "context_tokens", "limits", "context_tokens"),
    _Knob("pixels shown", "shown_pixels", "media", "shown_pixels"),
    _Knob("samples of each task", "samples", "", "k"),
)


@dataclass(frozen=True, slots=True)
class Applied:
    """Settings with a paper's in them, and the notices about it."""

    settings: EvalSettings
    says: tuple[str, ...]


def as_published(settings: EvalSettings) -> Applied:
    """Return the settings with those of the paper that they name (`EvalSettings.published`) where the user set nothing
    else.

    Raises `SettingsError`: a source is no benchmark, its card has no settings of that name, or two cards differ in
    them; `RegistryError`: there is no such card.
    """
    if not settings.published:
        return Applied(settings, ())
    papers = {name: _paper(name, settings.published) for name in source_names(settings)}
    paper = _agreed(papers, settings.published)
    changed, says = settings, []
    for knob in _KNOBS:
        value = knob.of_paper(paper)
        if value is None:
            continue
        if not knob.chosen(settings):
            changed = _with(changed, knob, value)
            says.append(f"{knob.name} {value}")
        elif knob.of_run(settings) != value:
            says.append(f"{knob.name} {knob.of_run(settings)} as you set it (the paper: {value})")
    return Applied(changed, (f"As in {paper.source}: {', '.join(says)}.",))


def differing(settings: EvalSettings, paper: PaperSettings) -> tuple[str, ...]:
    """Return the settings that a run and a paper do not share, in words; of those that the paper gives."""
    given = ((knob, knob.of_paper(paper), knob.of_run(settings)) for knob in _KNOBS)
    return tuple(
        f"{knob.name} {'not set' if ours is None else ours} (there {theirs})"
        for knob, theirs, ours in given
        if theirs is not None and theirs != ours
    )


def beside_published(settings: EvalSettings, card: Card) -> tuple[str, ...]:
    """Write a line for each paper with a score in the card: whether its settings are known, and which differ here."""
    lines = []
    for name in dict.fromkeys(_paper_of(score.source) for score in card.scores):
        paper = next((known for known in card.settings if _paper_of(known.source) == name), None)
        if paper is None:
            lines.append(f"{name}: its settings for {card.title} are not known here")
        elif differ := differing(settings, paper):
            lines.append(f"{name}: other settings there: {', '.join(differ)}")
        else:
            lines.append(f"{name}: all settings that it gives are the same here")
    return tuple(lines)


def _paper_of(source: str) -> str:
    return source.partition(",")[0]


def _paper(source: str, name: str) -> PaperSettings:
    try:
        card = load_card(source)
    except RegistryError as error:
        raise SettingsError(
            f"--as {name}: {source} is no benchmark, so no paper gives settings for it. Leave --as out, or name "
            "benchmarks alone (saccade cards list)."
        ) from error
    known = {settings.name: settings for settings in card.settings}
    if name not in known:
        hint = did_you_mean(name, known) if known else "The card gives none."
        raise SettingsError(f"--as {name}: the card {card.id} has no settings of that name. {hint}")
    return known[name]


def _agreed(papers: dict[str, PaperSettings], name: str) -> PaperSettings:
    first, *_ = papers.values()
    for knob in _KNOBS:
        values = {source: knob.of_paper(paper) for source, paper in papers.items()}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{source}: {_shown(value)}" for source, value in values.items())
            raise SettingsError(
                f"--as {name}: the paper's {knob.name} differs between these benchmarks ({listed}). Evaluate them in "
                "runs of their own."
            )
    return first


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)


def _with(settings: EvalSettings, knob: _Knob, value: object) -> EvalSettings:
    if not knob.group:
        return settings.model_copy(update={knob.setting: value})
    group = getattr(settings, knob.group).model_copy(update={knob.setting: value})
    return settings.model_copy(update={knob.group: group})
