"""Where the tasks of an evaluation come from, by what a user writes on the command line.

    tasks.jsonl, FOLDER       records of tasks, with their media store beside them (as `saccade worlds sample` writes)
    visual-search, world:maze a generated world

A source lists its tasks by id without touching a picture; a task is made, its media put into the run's store, when it
is played. So a long run is continued at once, and a run folder holds the pictures of what was played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from heapq import nsmallest
from itertools import count, islice
from pathlib import Path
from typing import Protocol

from saccade.episode.run_folder import MEDIA
from saccade.errors import RecordError, RegistryError, SettingsError
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.suggest import did_you_mean
from saccade.record.task import Task
from saccade.tasks.worlds.base import Split, make_task
from saccade.tasks.worlds.registry import WORLDS, load_world

TASKS = "tasks.jsonl"
_WORLD = "world:"


@dataclass(frozen=True, slots=True)
class Item:
    """One task that can be made."""

    id: str
    make: Callable[[MediaStore], Task]
    """Makes the task and puts its media into a store; may be called in any thread."""
    grader: str = ""
    """Id of the grader that the source wants; empty: that of the answer's type."""


class Source(Protocol):
    """A list of tasks."""

    @property
    def endless(self) -> bool:
        """Whether it has as many tasks as are asked for."""

    def items(self) -> Iterator[Item]:
        """All tasks, in their order.

        Raises:
            RecordError: the list cannot be read.
        """


@dataclass(frozen=True)
class WorldSource:
    """A generated world with its knobs at their defaults."""

    name: str
    split: Split
    endless: bool = True

    def items(self) -> Iterator[Item]:
        """See `Source`."""
        world = load_world(self.name)
        for index in count():

            def make(store: MediaStore, index: int = index) -> Task:
                return make_task(world, self.split, index, store)

            yield Item(f"{world.id}/{self.split}/{index}", make)


@dataclass(frozen=True)
class FileSource:
    """Records of tasks and the store that their media lie in."""

    file: Path
    store: MediaStore
    endless: bool = False

    def items(self) -> Iterator[Item]:
        """See `Source`."""
        for task in read_lines(self.file, Task):

            def make(store: MediaStore, task: Task = task) -> Task:
                for item in task.media:
                    if item.part not in store:
                        store.put_blob(self.store.get_bytes(item.part.sha256))
                return task

            yield Item(task.id, make)


def open_source(name: str, settings: EvalSettings) -> Source:
    """The source that `name` names.

    Raises:
        SettingsError: nothing has that name.
    """
    if name.startswith(_WORLD):
        return WorldSource(load_world(name.removeprefix(_WORLD)).id, settings.split)
    path = Path(name)
    file = path / TASKS if path.is_dir() else path
    if file.is_file():
        return FileSource(file, MediaStore(Path(settings.data) if settings.data else file.parent / MEDIA))
    if path.is_dir():
        raise SettingsError(f"{path} holds no {TASKS}. `saccade worlds sample` writes such folders.")
    try:
        return WorldSource(load_world(name).id, settings.split)
    except RegistryError:
        known = {entry.partition("@")[0] for entry in WORLDS.ids()}
        raise SettingsError(
            f"{name!r} is neither a file of tasks nor a generated world. {did_you_mean(name, known)}".rstrip()
        ) from None


def chosen(settings: EvalSettings) -> tuple[Item, ...]:
    """The tasks of a run: `n` of each source in the source's order, and of them this shard's.

    Which ones are chosen depends on the seed and their ids alone; a larger `n` adds to those of a smaller one. Of an
    endless source they are the first.

    Raises:
        SettingsError: a source is unknown, two tasks share an id, or an endless source is asked for all its tasks.
        RecordError: a list of tasks cannot be read.
    """
    number, shards = settings.shards
    found: dict[str, Item] = {}
    for name in dict.fromkeys(settings.sources):
        source = open_source(name, settings)
        if settings.n is None and source.endless:
            raise SettingsError(f"{name} has no end: say how many tasks of it with --n, as in --n 100.")
        items = tuple(islice(source.items(), settings.n if source.endless else None))
        if not items:
            raise RecordError(f"{name} holds no tasks.")
        wanted = _drawn(items, settings)
        for place, item in enumerate(items):
            if item.id not in wanted or place % shards != number:
                continue
            if item.id in found:
                raise SettingsError(f"two tasks have the id {item.id} ({name}). Ids must differ; name a source once.")
            found[item.id] = item
    return tuple(found.values())


def _drawn(items: tuple[Item, ...], settings: EvalSettings) -> set[str]:
    if settings.n is None or settings.n >= len(items):
        return {item.id for item in items}
    ranks = nsmallest(settings.n, ((sha256(f"{settings.seed}:{item.id}".encode()).digest(), item.id) for item in items))
    return {name for _, name in ranks}
