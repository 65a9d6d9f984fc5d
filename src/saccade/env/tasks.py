"""Where an environment's tasks come from: a list, or a generated world that never runs out.

A source draws with the environment's seeded generator, so a seed names a task. It reads pictures of the world into the
media store when it draws, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.suggest import did_you_mean
from saccade.record.task import Task
from saccade.tasks.worlds.base import Split, World, make_task
from saccade.tasks.worlds.registry import load_world

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
        self._tasks = tuple(tasks)
        self._by_id = {task.id: task for task in self._tasks}
        if len(self._by_id) < len(self._tasks):
            raise SettingsError("two of the tasks share an id; give each its own")

    def draw(self, rng: np.random.Generator) -> Task:
        """A random task."""
        return self._tasks[int(rng.integers(len(self._tasks)))]

    def find(self, wanted: str | int) -> Task:
        """The task of that id or index (from 0). Raises `SettingsError` if there is none."""
        if isinstance(wanted, str):
            if wanted not in self._by_id:
                raise SettingsError(f"no task has the id {wanted!r}. {did_you_mean(wanted, self._by_id)}".rstrip())
            return self._by_id[wanted]
        if not 0 <= wanted < len(self._tasks):
            raise SettingsError(f"there is no task {wanted}: there are {len(self._tasks)}, counted from 0")
        return self._tasks[wanted]


@dataclass(frozen=True, slots=True)
class WorldTasks:
    """Samples of a generated world."""

    world: World[Any]
    store: MediaStore
    split: Split = "train"

    def draw(self, rng: np.random.Generator) -> Task:
        """A random sample."""
        return self.find(int(rng.integers(_SAMPLES)))

    def find(self, wanted: str | int) -> Task:
        """The sample of that index, or of an id `world@version/split/index` of this world and split."""
        if isinstance(wanted, str):
            start = f"{self.world.id}/{self.split}/"
            number = wanted.removeprefix(start)
            if not wanted.startswith(start) or not (number.isascii() and number.isdecimal()):
                raise SettingsError(f"no task has the id {wanted!r}; those of this world are {start}0, {start}1, ...")
            wanted = int(number)
        return make_task(self.world, self.split, wanted, self.store)


def task_source(tasks: Sequence[Task] | str, store: MediaStore) -> TaskSource:
    """A list of tasks, or the id of a generated world (its training split), as a source.

    Raises:
        SettingsError: the list is empty, or two tasks share an id.
        RegistryError: there is no such world; suggests the nearest.
    """
    return WorldTasks(load_world(tasks), store) if isinstance(tasks, str) else ListedTasks(tasks)
