"""Where an environment's tasks come from: a list, a generated world that never runs out, or any other sources.

A source draws with the environment's seeded generator, so a seed names a task. It puts pictures into the media store
when it draws, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from saccade.dialects.base import Dialect
from saccade.episode.task_media import check_listed, check_media
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.suggest import did_you_mean
from saccade.record.task import Task
from saccade.tasks.sources.task_set import TaskPool, open_tasks
from saccade.tasks.sources.world_reader import WorldReader

_SAMPLES = 2**31
"""Samples of a world that are drawn from; its indices have no end."""


class TaskSource(Protocol):
    """Gives one task for each episode."""

    def draw(self, rng: np.random.Generator) -> Task:
        """A random task."""

    def find(self, wanted: str | int) -> Task:
        """The task of that id or index. Raises `SettingsError` if there is none."""


class ListedTasks:
    """The tasks of a list, each as likely as the others."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        if not tasks:
            raise SettingsError("the list of tasks is empty, so no episode can begin; give at least one task")
        self.tasks = tuple(tasks)
        self._by_id = {task.id: task for task in self.tasks}
        if len(self._by_id) < len(self.tasks):
            raise SettingsError("two of the tasks share an id; give each its own")

    def draw(self, rng: np.random.Generator) -> Task:
        """A random task."""
        return self.tasks[int(rng.integers(len(self.tasks)))]

    def find(self, wanted: str | int) -> Task:
        """The task of that id or index (from 0). Raises `SettingsError` if there is none."""
        if isinstance(wanted, str):
            if wanted not in self._by_id:
                raise SettingsError(f"no task has the id {wanted!r}. {did_you_mean(wanted, self._by_id)}".rstrip())
            return self._by_id[wanted]
        if not 0 <= wanted < len(self.tasks):
            raise SettingsError(f"there is no task {wanted}: there are {len(self.tasks)}, counted from 0")
        return self.tasks[wanted]


@dataclass(frozen=True, slots=True)
class WorldTasks:
    """Samples of a generated world, which never runs out."""

    reader: WorldReader
    store: MediaStore

    def draw(self, rng: np.random.Generator) -> Task:
        """A random sample."""
        return self.find(int(rng.integers(_SAMPLES)))

    def find(self, wanted: str | int) -> Task:
        """The sample of that index, or of an id `world@version/split/index` of this world and split."""
        if isinstance(wanted, str):
            start = f"{self.reader.world.id}/{self.reader.split}/"
            number = wanted.removeprefix(start)
            if not wanted.startswith(start) or not (number.isascii() and number.isdecimal()):
                raise SettingsError(f"no task has the id {wanted!r}; those of this world are {start}0, {start}1, ...")
            wanted = int(number)
        return self.reader.make(wanted, self.store)


class SourceTasks:
    """Tasks of any sources; a source with a weight is drawn from that often, else every task is as likely."""

    def __init__(self, tasks: TaskPool, store: MediaStore) -> None:
        self._tasks, self._store = tasks, store

    def draw(self, rng: np.random.Generator) -> Task:
        """A random task."""
        shares = self._tasks.shares
        if shares is None:
            return self.find(int(rng.integers(len(self._tasks))))
        part = self._tasks.parts[int(rng.choice(len(shares), p=shares))]
        return part.make(int(rng.integers(len(part.lights))), self._store)

    def find(self, wanted: str | int) -> Task:
        """The task of that id or index (from 0). Raises `SettingsError` if there is none."""
        ids = self._tasks.ids
        if isinstance(wanted, int):
            if not 0 <= wanted < len(ids):
                raise SettingsError(f"there is no task {wanted}: there are {len(ids)}, counted from 0")
            wanted = ids[wanted]
        if wanted not in self._tasks:
            raise SettingsError(f"no task has the id {wanted!r}. {did_you_mean(wanted, ids)}".rstrip())
        return self._tasks.make(wanted, self._store)


def task_source(tasks: Sequence[Task] | Sequence[str] | str, store: MediaStore, dialect: Dialect) -> TaskSource:
    """A list of tasks, or sources by their names, as a source; of worlds their training split.

    Raises:
        SettingsError: the list is empty, two tasks share an id, a name means nothing (suggests the nearest), or the
            dialect cannot show a task.
        RegistryError: code of the user's own cannot be loaded.
        DataError, RecordError: the data of a source cannot be read.
    """
    if isinstance(tasks, str):
        tasks = (tasks,)
    named = [task for task in tasks if isinstance(task, str)]
    if not named:
        listed = ListedTasks([task for task in tasks if isinstance(task, Task)])
        check_listed(listed.tasks, dialect)
        return listed
    if len(named) < len(tasks):
        raise SettingsError("tasks and names of sources stand in one list. Give either tasks or names.")
    opened = open_tasks(named)
    check_media(opened.parts, dialect)
    only = opened.parts[0]
    if len(opened.parts) == 1 and isinstance(only.reader, WorldReader) and not only.settings.tags:
        return WorldTasks(only.reader, store)
    return SourceTasks(opened, store)
