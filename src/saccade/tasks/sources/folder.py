"""Find the tasks in a folder: records, trajectories, files of rows, or only media.

tasks.jsonl                        records with `media/`, or rows
trajectories.jsonl                 a run folder: the tasks of its episodes
dataset_dict.json, state.json      what `datasets` saved to the disk
data/train-00000-of-00002.parquet  a snapshot of the hub; any other files of rows, here, in `data/` or one below
*.jpg, *.mp4                       only media, all with one question

A source is read in two steps: a scan summarises all tasks, then any task is made from its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from saccade.core.registry import did_you_mean
from saccade.errors import DataError, MissingMediaError, RecordError, SettingsError
from saccade.media.decode import suffixes_of
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.content import ImagePart, VideoPart, clean_text
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.row_files import FieldError, RowProblem, reading
from saccade.tasks.sources.settings import rotations
from saccade.tasks.sources.tables import (
    ArrowTable,
    DelimitedTable,
    HeldTable,
    LineTable,
    ParquetTable,
    RowTable,
    line_at,
)
from saccade.tasks.worlds import SPLITS, Clip, Knobs, Split, World, draw_sample, make_task

TASKS: Final = "tasks.jsonl"
TRAJECTORIES: Final = "trajectories.jsonl"
VIDEOS: Final = suffixes_of("video")
PICTURES: Final = suffixes_of("image")
SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".tsv", ".csv", ".parquet", ".arrow")
"""Of files whose rows are read."""
_NO_ROWS = ("dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json", "report.json", "summary.json")
_REFUSED: Final = "refused.jsonl"
"""Rows that `saccade convert` refused; ignored where there are other rows."""
_SHARD = re.compile(r"[-_.]\d+-of-\d+$")
_PLACES = ("", "data/", "*/")


@dataclass(frozen=True, slots=True)
class FolderContent:
    """The files of rows or records to read in a folder, or else its media."""

    files: tuple[Path, ...] = ()
    media: tuple[Path, ...] = ()


def files_in(folder: Path, split: str = "") -> FolderContent:
    """List the files of the folder, or of one of its splits. Raises `SettingsError` if there is nothing that could be
    read, no such split, or several of which none is named.
    """
    own = next((folder / name for name in (TASKS, TRAJECTORIES) if (folder / name).is_file()), None)
    if own is not None and not split:
        return FolderContent((own,))
    if (folder / "dataset_dict.json").is_file():
        names = _names(folder / "dataset_dict.json", "splits")
        return files_in(folder / _chosen(folder, {name: name for name in names}, split))
    if (folder / "state.json").is_file():
        data = json.loads((folder / "state.json").read_bytes()).get("_data_files", [])
        return FolderContent(tuple(folder / item["filename"] for item in data))
    groups = _grouped(folder)
    if groups:
        return FolderContent(tuple(groups[_chosen(folder, _split_names(groups), split)]))
    media = tuple(sorted(path for path in _walked(folder) if path.suffix.lower() in (*PICTURES, *VIDEOS)))
    if not media or split:
        raise SettingsError(
            f"{folder} holds no tasks: no {TASKS}, no run, no file of rows ({', '.join(SUFFIXES)}) and no pictures or "
            f"videos{f' with a split {split!r}' if split else ''}. docs/your-data.md shows what a folder may hold."
        )
    return FolderContent(media=media)


def _grouped(folder: Path) -> dict[str, list[Path]]:
    """Group the files of rows by name without the shard number, in the first place that has any."""
    for place in _PLACES:
        files = [path for path in sorted(folder.glob(f"{place}*")) if _has_rows(path)]
        files = [path for path in files if path.name != _REFUSED] or files
        if strong := [path for path in files if path.suffix.lower() != ".json"]:
            files = strong  # a JSON file next to them may be anything
        groups: dict[str, list[Path]] = {}
        for path in files:
            name = _SHARD.sub("", str(path.relative_to(folder).with_suffix("")))
            groups.setdefault(name, []).append(path)
        if groups:
            return groups
    return {}


def _has_rows(path: Path) -> bool:
    hidden = path.name.startswith(".") or path.name in _NO_ROWS or _is_annotation(path)
    return not hidden and path.suffix.lower() in SUFFIXES and path.is_file()


def _is_annotation(path: Path) -> bool:
    """Tell whether a JSON file annotates the picture of the same name, as in SA-1B."""
    return path.suffix.lower() == ".json" and any(path.with_suffix(suffix).is_file() for suffix in PICTURES)


def _split_names(groups: dict[str, list[Path]]) -> dict[str, str]:
    """Map names of splits to groups: the last word of the group's name if that is unique, else all of it."""
    words = {name: re.split(r"[^A-Za-z0-9]+", name)[-1] for name in groups}
    alone = len(set(words.values())) == len(words)
    return {words[name] if alone else name: name for name in groups}


def _chosen(folder: Path, splits: dict[str, str], split: str) -> str:
    if not split and len(splits) == 1:
        return next(iter(splits.values()))
    if split in splits:
        return splits[split]
    exact = [name for name in splits.values() if name == split]
    if exact:
        return exact[0]
    listed = ", ".join(splits)
    if not split:
        raise SettingsError(
            f"{folder} holds {len(splits)} sets of rows ({listed}), and none is named. "
            f"Name one, as in {folder}:{next(iter(splits))}, or a file."
        )
    raise SettingsError(f"{folder} has no split {split!r}. {did_you_mean(split, splits) or f'It has: {listed}.'}")


def _names(file: Path, key: str) -> Sequence[str]:
    try:
        return [str(name) for name in json.loads(file.read_bytes())[key]]
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{file} names no {key}: {error}. Save the data set again, or name a split's folder."
        ) from error


def _walked(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def open_table(file: Path, encoding: str = "") -> RowTable:
    """Open a file as a table, by its suffix; `encoding` is that of a TSV or CSV which does not tell. Raises `DataError`
    if its suffix is unknown.
    """
    suffix = file.suffix.lower()
    if suffix in (".tsv", ".csv"):
        return DelimitedTable(file, encoding)
    kinds: dict[str, Callable[[Path], RowTable]] = {
        ".jsonl": LineTable,
        ".ndjson": LineTable,
        ".json": HeldTable,
        ".parquet": ParquetTable,
        ".arrow": ArrowTable,
    }
    if kind := kinds.get(suffix):
        return kind(file)
    todo = "Convert it to one of them."
    if suffix in (".xlsx", ".xls", ".ods"):
        todo = "Save the sheet as CSV."
    elif suffix == ".py":
        todo = f"Of code, name what is in it: {file}:NAME."
    raise DataError(f"{file} is of an unknown kind; rows are read from {', '.join(SUFFIXES)}. {todo}")


Spot = Any
"""The place of a task; its meaning is private to the reader."""


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """A task as a scan knows it, without its media."""

    id: str
    tags: tuple[str, ...] = ()
    answer_type: AnswerType = AnswerType.TEXT
    answered: bool = True
    """Whether it has a gold answer."""
    media: int = 1
    """Number of pictures and videos; 1 where they were not counted yet."""
    grader: str = ""
    reward: tuple[tuple[str, object], ...] = ()
    videos: int | None = None
    """How many of the media are videos; None where that is not known yet."""
    content: str = field(default="", compare=False)
    """Tells it from a task with another question, answer or media of the same id; empty where ids do."""
    rotations: int = field(default=1, compare=False)
    """In how many orders its choices can be shown, see `shares.rotations`."""


def content_of(*parts: object) -> str:
    """Return a short digest of what a task says."""
    return sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class SourceReader(Protocol):
    """Reads one source."""

    @property
    def label(self) -> str:
        """Return the name under which the source's tasks are counted."""

    def scan(self) -> Iterator[tuple[Spot, TaskSummary] | RowProblem]:
        """Yield every task in order, or the problem of its row; pictures are not opened.

        Raises:
            DataError, RecordError: the source as a whole cannot be read.
            UnavailableError: what reads it is not installed.
        """

    def make(self, spot: Spot, store: MediaStore) -> Task:
        """Make the task at this place, its media put into `store`; may be called in any thread.

        Raises:
            DataError, RecordError, MediaError: it cannot be made; the message names the row.
        """


def summary_of(task: Task) -> TaskSummary:
    """Summarise a complete task."""
    reward = tuple((parameter.name, parameter.value) for parameter in task.reward)
    videos = sum(isinstance(item.part, VideoPart) for item in task.media)
    content = content_of(task.question, task.choices, task.answer, [item.part.sha256 for item in task.media])
    answered, media = task.answer is not None, len(task.media)
    said = TaskSummary(task.id, task.tags, task.answer_type, answered, media, task.grader, reward, videos, content)
    return replace(said, rotations=rotations(task.choices))


MEDIA = "media"


@dataclass(frozen=True, slots=True)
class RecordReader:
    """A file of task records, as `saccade tasks write` makes it, or the trajectories of a run folder.

    A scan reads every record in full, so that a broken one is found before any is played, and keeps its offset.
    """

    label: str
    file: Path
    further: tuple[Path, ...] = ()
    """More media stores to search after those near the file."""
    of_run: bool = False
    """Whether the lines are trajectories; each of their tasks counts once."""

    def scan(self) -> Iterator[tuple[int, TaskSummary] | RowProblem]:
        at = 0
        seen: set[str] = set()
        with reading(self.file), self.file.open("rb") as lines:
            for number, line in enumerate(lines):
                try:
                    task = self._task(line)
                except RecordError as error:
                    yield RowProblem(self.file.name, number, "record", str(error))
                else:
                    if not self.of_run or task.id not in seen:
                        yield at, summary_of(task)
                    seen.add(task.id)
                at += len(line)

    def make(self, spot: int, store: MediaStore) -> Task:
        task = self._task(line_at(self.file, spot))
        for item in task.media:
            if item.part not in store:
                store.put_blob(self._bytes(item.part.sha256, task.id))
        return task

    def _task(self, line: bytes) -> Task:
        if not self.of_run:
            return loads(line, Task)
        try:
            held = from_json(line)
        except ValueError as error:
            raise RecordError(f"it is no JSON: {error}") from error
        if not isinstance(held, dict) or not isinstance(held.get("task"), dict):
            raise RecordError("it is no trajectory: it holds no task")
        return loads(to_json(held["task"]), Task)

    def _bytes(self, sha256: str, name: str) -> bytes:
        folder = self.file.parent
        places = (folder / MEDIA, folder.parent / MEDIA, *self.further)
        for place in places:
            if sha256 in (store := MediaStore(place)):
                return store.get_bytes(sha256)
        raise MissingMediaError(
            f"the media {sha256} of the task {name} lie in none of {', '.join(map(str, places))}. "
            "Copy the media folder along with the records, or name it with --data."
        )


_FIELD = "extra_info.record"


def recorded_task(row: Mapping[str, Any]) -> Task | None:
    """Read the task that `saccade convert` put into a row for RL trainers; None for a row without one.

        extra_info {id, question, answer, record}, reward_model {ground_truth}

    `record` is the task as JSON, with choices, boxes, grader and tags. Question and gold answer come from the row, so
    that they can be edited there. Raises `FieldError` if its record is no task, or none with that question and answer.
    """
    extra = row.get("extra_info")
    record = extra.get("record") if isinstance(extra, Mapping) else None
    if not isinstance(record, str) or not record or not isinstance(extra, Mapping):
        return None
    reward = row.get("reward_model")
    answer = extra.get("answer")
    if isinstance(reward, Mapping):
        answer = reward.get("ground_truth", answer)
    question = extra.get("question")
    return edited(
        record,
        clean_text(question) if isinstance(question, str) else None,
        None if answer is None else clean_text(str(answer)),
    )


def edited(record: str, question: str | None, answer: str | None) -> Task:
    """Read a record with this question (None: its own) and this answer. Raises `FieldError`."""
    try:
        task = Task.model_validate_json(record)
        changes = {"question": task.question if question is None else question, "answer": answer}
        if any(getattr(task, name) != value for name, value in changes.items()):
            task = Task.model_validate({**task.model_dump(), **changes})
    except ValidationError as error:
        raise FieldError(_FIELD, "; ".join(str(item["msg"]) for item in error.errors())) from error
    return task


def check_media(task: Task, parts: tuple[ImagePart | VideoPart, ...]) -> None:
    """Raise `FieldError` if a record names media that its row does not hold."""
    if lost := [item.name for item in task.media if item.part not in parts]:
        raise FieldError(_FIELD, f"it names media that the row does not hold: {', '.join(lost)}")


# Read tasks of a generated world; each is drawn on demand, or in the scan if tags select.


WORLD_TASKS: Final = 4096
"""Default number of tasks of a world, which has no end."""
_WITHOUT_ONE = 1000
"""Samples without a wanted tag after which a world is taken to have none."""


@dataclass(frozen=True, slots=True)
class WorldReader:
    """The first tasks of a world's split."""

    world: World[Any]
    split: Split
    knobs: Knobs
    count: int
    start: int = 0
    """Number of the first one."""
    drawn: bool = False
    """Whether samples are drawn in a scan, to say which tags they have."""

    @property
    def label(self) -> str:
        return self.world.id

    def scan(self) -> Iterator[tuple[int, TaskSummary] | RowProblem]:
        """See `SourceReader`. Without `drawn` it knows no tags."""
        if not self.drawn:
            for index in range(self.start, self.start + self.count):
                yield index, TaskSummary(self._id(index))
            return
        for index in range(self.start, self.start + self.count * _WITHOUT_ONE):
            sample = draw_sample(self.world, self.split, index, self.knobs)
            videos = sum(isinstance(item, Clip) for item in sample.media.values())
            count = len(sample.media)
            yield index, TaskSummary(self._id(index), sample.tags, sample.answer_type, media=count, videos=videos)

    def make(self, spot: int, store: MediaStore) -> Task:
        return make_task(self.world, self.split, spot, store, self.knobs)

    def _id(self, index: int) -> str:
        return f"{self.world.id}/{self.split}/{index}"


def as_split(name: str) -> Split:
    """Return the split of worlds with this name. Raises `SettingsError`."""
    if name not in SPLITS:
        raise SettingsError(f"generated worlds have no split {name!r}; they have {', '.join(SPLITS)}")
    return SPLITS[SPLITS.index(name)]
