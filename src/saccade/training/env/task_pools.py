"""Find tasks by name, where they are needed again and again: sources are opened once in a process."""

from __future__ import annotations

from functools import cache

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.tasks.sources.task_set import TaskPool, open_tasks


@cache
def opened_pool(sources: tuple[str, ...]) -> TaskPool:
    """Return the tasks of `sources`; they are taken as they are at the first call. Raises as `open_tasks` does."""
    return open_tasks(sources)


def names_of(sources: tuple[str, ...], n: int | None) -> tuple[str, ...]:
    """Return the ids of the first `n` tasks, or of all. Raises `SettingsError` for an `n` below 1."""
    if n is not None and n < 1:
        raise SettingsError(f"n is {n}: at least one task is needed")
    return opened_pool(sources).ordered(n)[:n]


def task_of(sources: tuple[str, ...], name: str | None, store: MediaStore) -> Task:
    """Return one task, its pictures put into `store`. Raises `SettingsError` if the sources do not have it."""
    pool = opened_pool(sources)
    if name is None or name not in pool:
        raise SettingsError(f"the sources {', '.join(sources)} have no task {name!r}")
    return pool.make(name, store)
