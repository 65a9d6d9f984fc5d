"""Resolve the name of a source to its reader.

A name means the first of these: a `.toml` file (a card; files of `[[source]]` tables were expanded before), a card, a
path, the user's own code, a world. `./vstar` is a folder where `vstar` is a card. A split follows a colon. Readers are
imported late: a run on a world needs neither benchmarks nor tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal, NamedTuple

from saccade.core.registry import did_you_mean, missing_plugin
from saccade.core.settings import load_settings
from saccade.errors import DataError, MissingPluginError, SettingsError
from saccade.media.decode import broken_link
from saccade.media.store import MediaStore
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.benchmark import CIRCULAR, TURNED, Benchmark, turned, turns
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.rows import RowLoader, load_loader
from saccade.tasks.benchmarks.make_task import draft, make_task, tags_of
from saccade.tasks.benchmarks.registry import cards, load_card, split_of
from saccade.tasks.benchmarks.row_files import (
    FieldError,
    MediaFiles,
    RowMediaReader,
    RowProblem,
    SourceRow,
    first_value,
    items,
    matches,
)
from saccade.tasks.sources.folder import (
    VIDEOS,
    WORLD_TASKS,
    SourceReader,
    TaskSummary,
    WorldReader,
    as_split,
    content_of,
    open_table,
)
from saccade.tasks.sources.row_tasks import with_open
from saccade.tasks.sources.settings import SourceSettings, rotations, shuffled
from saccade.tasks.sources.tables import UNREAD, RowPlace
from saccade.tasks.worlds import WORLDS, Split, chosen_knobs, load_world

# Read a benchmark by its card. Rows are read again when their task is made, where their file allows it.
#
# Tasks get their card's grader; if the benchmark's authors let a model grade, the answer is open. Choices are shuffled
# or cycled as the card says.


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


_WORLD: Final = "world:"
_NO_NAMES: Final = frozenset(
    "tasks questions rows data train test validation val metadata problems index".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class SourceDefaults:
    """A command's defaults for sources that do not set these themselves."""

    split: Split = "train"
    """Split of generated worlds."""
    data: Path | None = None
    """Folder of the data of cards, and of media stored apart from their records."""
    most: int | None = None
    """Largest number of tasks of each source."""
    start: int = 0
    """Number of the first task of a world."""
    world_tasks: int | None = WORLD_TASKS
    """Number of tasks of a world without a number; None: refuse it."""
    world_tags: bool = False
    """Whether worlds are drawn when they are opened, so that their tags are known."""


def kind_of(name: str) -> Literal["card", "path", "world"]:
    """Tell what a name means; an unknown name counts as a world."""
    name, _ = split_of(name)
    if name.endswith(".toml") or cards().has(name) or _is_card_code(name):
        return "card"
    return "world" if _path_of(name)[0] is None else "path"


def bare_name(name: str) -> str:
    """Return the name of a world without its split. Raises `SettingsError` if there is no such world."""
    bare, _ = WORLDS.split(name.removeprefix(_WORLD))
    if not WORLDS.has(bare) and WORLDS.code(bare) is None:
        raise _no_such(name)
    return bare


def open_reader(source: SourceSettings, defaults: SourceDefaults) -> SourceReader:
    """Return the reader of a source; its rows are not read yet.

    Raises:
        SettingsError: nothing has that name (suggests the nearest), or a setting of the source means nothing for it.
        RegistryError: code of the user's own cannot be loaded.
        DataError: the data of a benchmark are not on this disk; says how to get them.
    """
    kind = kind_of(source.name)
    if kind == "card":
        return _card(replace_split(source, *split_of(source.name)), defaults)
    path, split = _path_of(source.name)
    if path is not None:
        return _path(replace_split(source, str(path), split), path, defaults)
    return _world(source, defaults)


def with_knobs(sources: Sequence[SourceSettings], knobs: Mapping[str, Mapping[str, Any]]) -> tuple[SourceSettings, ...]:
    """Put knobs (world without its version -> knob -> value) into the sources that are worlds. Raises `SettingsError`
    if a knob is unknown or wrong, or belongs to a world that is no source.
    """
    names = [bare_name(source.name) if kind_of(source.name) == "world" else "" for source in sources]
    chosen_knobs([load_world(name) for name in names if name], knobs)
    return tuple(
        source.model_copy(update={"knobs": {**knobs.get(name.partition("@")[0], {}), **source.knobs}})
        if name
        else source
        for source, name in zip(sources, names, strict=True)
    )


def replace_split(source: SourceSettings, name: str, split: str) -> SourceSettings:
    """Set name and split of a source. Raises `SettingsError` if it has another split already."""
    if split and source.split not in ("", split):
        raise SettingsError(f"{source.name} and split = {source.split!r} contradict each other. Leave one out.")
    return source.model_copy(update={"name": name, "split": split or source.split})


def _card(source: SourceSettings, defaults: SourceDefaults) -> SourceReader:
    from saccade.tasks.benchmarks.benchmark import open_benchmark

    _refuse(source, "a card", ("knobs", "question", "media", "encoding"))
    card = load_card(f"{source.name}:{source.split}" if source.split else source.name)
    data = Path(source.data) if source.data else defaults.data
    return CardReader(open_benchmark(card, data))


def _path(source: SourceSettings, path: Path, defaults: SourceDefaults) -> SourceReader:
    from saccade.tasks.sources.folder import TRAJECTORIES, RecordReader, files_in, open_table
    from saccade.tasks.sources.row_tasks import RowReader, RowTasks

    _refuse(source, "a file or folder", ("knobs",))
    if path.is_dir():
        listing = files_in(path, source.split)
        if listing.media:
            return _of_media(source, path, listing.media)
        files = listing.files
    else:
        if source.split:
            raise SettingsError(f"{path} is a file and has no split {source.split!r}. Name the file of that split.")
        files = (path,)
    label = _label(path)
    further = tuple(Path(place) for place in (source.data, *source.media) if place)
    further += () if defaults.data is None else (defaults.data,)
    if files[0].name == TRAJECTORIES or _is_records(files[0]):
        return RecordReader(label, files[0], further, of_run=files[0].name == TRAJECTORIES)
    if source.question:
        raise SettingsError(f"{source.name} holds questions of its own; `question` is for a folder of media alone.")
    folder = path if path.is_dir() else path.parent
    rows = RowTasks(label, source.model_copy(update={"media": tuple(map(str, further))}))
    return RowReader(rows, tuple(open_table(file, source.encoding) for file in files), folder)


def _of_media(source: SourceSettings, folder: Path, files: tuple[Path, ...]) -> SourceReader:
    if not source.question:
        raise SettingsError(
            f"{folder} holds {len(files)} pictures and videos and no questions. Put a file of questions beside them "
            '(docs/your-data.md), or ask one about each: question = "..." in its [[source]] table.'
        )
    from saccade.tasks.sources.row_tasks import RowReader, RowTasks

    return RowReader(RowTasks(_label(folder), source), (MediaTable(folder, files),), folder)


def _world(source: SourceSettings, defaults: SourceDefaults) -> SourceReader:
    name, split = bare_name(source.name), WORLDS.split(source.name.removeprefix(_WORLD))[1]
    world = load_world(name)
    _refuse(source, "a world", ("data", "media", "question", "encoding"))
    source = replace_split(source, name, split or "")
    knobs = load_settings(world.knobs, overrides=[f"{key}={json.dumps(value)}" for key, value in source.knobs.items()])
    count = min((most for most in (source.most, defaults.most) if most), default=defaults.world_tasks)
    if count is None:
        raise SettingsError(f"{source} has no end: say how many tasks of it with --n, as in --n 100.")
    filtered = bool(source.tags or source.without or defaults.world_tags)
    chosen = as_split(source.split) if source.split else defaults.split
    return WorldReader(world, chosen, knobs, count, defaults.start, filtered)


def _path_of(name: str) -> tuple[Path | None, str]:
    if Path(name).exists():
        return Path(name), ""
    before, colon, split = name.rpartition(":")
    return (Path(before), split) if colon and before and Path(before).is_dir() else (None, "")


def _label(path: Path) -> str:
    """Return the label of a file's or folder's tasks."""
    resolved = path.resolve()
    if path.is_dir():
        return resolved.name or "tasks"
    return resolved.parent.name if resolved.stem.lower() in _NO_NAMES and resolved.parent.name else resolved.stem


def _is_records(file: Path) -> bool:
    """Tell whether the first line of a file is a task record, and no row of another form."""
    from saccade.tasks.sources.folder import TASKS

    if file.suffix != ".jsonl":
        return False
    with file.open("rb") as lines:
        line = next((line for line in lines if line.strip()), b"")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return file.name == TASKS
    media = row.get("media") if isinstance(row, dict) else None
    return isinstance(media, list) and {"id", "question", "answer_type"} <= row.keys() <= Task.model_fields.keys()


def _is_card_code(name: str) -> bool:
    """Tell whether `name` is the user's own code that holds a card; the same form may name a world."""
    return cards().code(name) is not None and WORLDS.code(name) is not None and isinstance(cards().find(name), Card)


def _refuse(source: SourceSettings, kind: str, names: tuple[str, ...]) -> None:
    given = [name for name in names if getattr(source, name)]
    if given:
        raise SettingsError(f"{source.name} is {kind}, and {', '.join(given)} would change nothing. Leave it out.")


def _no_such(name: str) -> SettingsError | MissingPluginError:
    bare = name.removeprefix(_WORLD).partition(":")[0]
    if why := broken_link(Path(bare)):
        return SettingsError(f"{name} {why}. Name a file or a folder.")
    here = [path.name for path in Path().iterdir()] if "/" not in name else []
    known = {*cards().ids(), *cards().names(), *WORLDS.ids(), *WORLDS.names(), *here}
    missing = missing_plugin(WORLDS.kind, bare, WORLDS.entries)
    hint = f"{did_you_mean(bare, known)} {missing}".strip() or "See: saccade cards list, saccade worlds list."
    error = MissingPluginError if missing else SettingsError
    return error(f"{name!r} is no benchmark, no file or folder of tasks and no generated world. {hint}")


@dataclass(frozen=True, slots=True)
class MediaTable:
    """Pictures and videos of a folder, one row each, for one question about all of them."""

    folder: Path
    files: tuple[Path, ...]

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        for number in range(len(self.files)):
            yield RowPlace(number, number), self.read(RowPlace(number, number))

    def read(self, place: RowPlace) -> SourceRow:
        file = self.files[place.at]
        name = str(file.relative_to(self.folder))
        field = "videos" if file.suffix.lower() in VIDEOS else "images"
        return SourceRow(name, place.number, {"_row": place.number, "id": name, field: name})
