"""The tasks of a run, and their order: epochs, each a shuffle of its own, without a gap between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from saccade.episode.run_folder import MEDIA
from saccade.errors import RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.suggest import did_you_mean
from saccade.record.task import Task
from saccade.rl.select.curriculum import epoch_order
from saccade.tasks.stored import tasks_file, with_media
from saccade.tasks.worlds.base import Split, make_task
from saccade.tasks.worlds.registry import WORLDS, load_world

WORLD_TASKS = 4096
"""Tasks of a world, where nobody says how many."""

_order = lru_cache(2)(epoch_order)


@dataclass(frozen=True)
class TaskList:
    """Tasks that can be made."""

    ids: tuple[str, ...]
    make: Callable[[str, MediaStore], Task]
    """The task of that id; its media are put into the store."""
    total: int | None = None
    """Tasks of the source; None: it has no end."""

    def at(self, place: int, seed: int) -> str:
        """The id of the task at `place` (from 0) of an endless sequence of epochs."""
        return _order(self.ids, seed, place // len(self.ids))[place % len(self.ids)]


def open_tasks(source: str, split: Split, most: int | None = None) -> TaskList:
    """The first `most` tasks of a world's split, or of a file, which has no splits; see `TaskSettings.most` for None.

    Raises:
        SettingsError: nothing has that name, it holds no task, or two tasks share an id.
        RegistryError: it is code of the user's own that cannot be loaded, or is no world.
        RecordError: the file cannot be read.
    """
    file = tasks_file(source)
    if file is not None:
        return _from_file(file, most)
    try:
        world = load_world(source.removeprefix("world:"))
    except RegistryError:
        if WORLDS.code(source.removeprefix("world:")) is not None:
            raise
        hint = did_you_mean(source, WORLDS.names())
        raise SettingsError(f"{source!r} is neither a file of tasks nor a generated world. {hint}".rstrip()) from None
    numbers = {f"{world.id}/{split}/{number}": number for number in range(most or WORLD_TASKS)}
    return TaskList(tuple(numbers), lambda name, store: make_task(world, split, numbers[name], store))


def is_file(source: str) -> bool:
    """Whether `source` names a file or folder of tasks."""
    return Path(source).exists()


def _from_file(file: Path, most: int | None) -> TaskList:
    tasks: dict[str, Task] = {}
    total = 0
    for total, task in enumerate(read_lines(file, Task), 1):
        if most is not None and total > most:
            continue
        if task.id in tasks:
            raise SettingsError(f"{file} has two tasks with the id {task.id!r}; give each one of its own.")
        tasks[task.id] = task
    if not tasks:
        raise SettingsError(f"{file} holds no tasks")
    media = MediaStore(file.parent / MEDIA)
    return TaskList(tuple(tasks), lambda name, store: with_media(tasks[name], media, store), total)
