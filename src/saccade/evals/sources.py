"""Where the tasks of an evaluation come from, by what a user writes on the command line.

    blindtest, my-card.toml   a benchmark by its card; its data lie in the folder of --data
    my_code.py:NAME           a card or a world in code of the user's own; module:NAME too
    tasks.jsonl, FOLDER       records of tasks, with their media store beside them (as `saccade worlds sample` writes)
    visual-search, world:maze a generated world

Of worlds and records a task is made, its media put into the run's store, only when it is played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saccade.episode.run_folder import MEDIA
from saccade.errors import RecordError, RegistryError, SettingsError
from saccade.evals.benchmarks import open_card
from saccade.evals.items import Item, ItemSource, drawn, of_shard
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.suggest import did_you_mean
from saccade.record.task import Task
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import cards
from saccade.tasks.stored import TASKS, tasks_file, with_media
from saccade.tasks.worlds.base import Knobs, World, make_task
from saccade.tasks.worlds.registry import WORLDS, chosen_knobs, load_world

_WORLD = "world:"


@dataclass(frozen=True)
class WorldSource:
    """A generated world; of its tasks the first `n`."""

    world: World[Any]
    knobs: Knobs

    async def items(self, settings: EvalSettings, out: Path, store: MediaStore) -> Sequence[Item]:
        places = range(settings.n or 0)
        return of_shard([self._item(index, settings) for index in places], settings, frozenset(places))

    def _item(self, index: int, settings: EvalSettings) -> Item:
        world, knobs = self.world, self.knobs
        return Item(
            f"{world.id}/{settings.split}/{index}", lambda store: make_task(world, settings.split, index, store, knobs)
        )


@dataclass(frozen=True)
class FileSource:
    """Records of tasks and the store that their media lie in."""

    file: Path
    store: MediaStore

    async def items(self, settings: EvalSettings, out: Path, store: MediaStore) -> Sequence[Item]:
        tasks = list(read_lines(self.file, Task))
        if not tasks:
            raise RecordError(f"{self.file} holds no tasks.")
        chosen = drawn([task.id for task in tasks], settings.n, settings.seed)
        return [self._item(task) for task in of_shard(tasks, settings, chosen)]

    def _item(self, task: Task) -> Item:
        return Item(task.id, lambda store: with_media(task, self.store, store))


def open_sources(settings: EvalSettings) -> Mapping[str, ItemSource]:
    """The sources of a run by their names; nothing of their tasks is read yet.

    Raises:
        SettingsError: a name means nothing, a world is asked for all its tasks, or a setting of worlds would change
            nothing.
        RegistryError: a card names a grader that does not exist.
        DataError: the data of a benchmark are not on this disk; says how to get them.
    """
    sources = {name: _open(name, settings) for name in settings.sources}
    worlds = {source.world.id: source.world for source in sources.values() if isinstance(source, WorldSource)}
    knobs = chosen_knobs(worlds.values(), settings.knobs)
    if settings.split != "test" and not worlds:
        raise SettingsError(f"split {settings.split} is one of generated worlds, and no source is one. Leave it out.")
    return {
        name: replace(source, knobs=knobs[source.world.id]) if isinstance(source, WorldSource) else source
        for name, source in sources.items()
    }


async def chosen(
    sources: Mapping[str, ItemSource], settings: EvalSettings, out: Path, store: MediaStore
) -> tuple[Item, ...]:
    """The tasks of a run: of each source `n`, and of them this shard's.

    Raises:
        SettingsError: two tasks share an id.
        RecordError, DataError: the tasks of a source cannot be read.
    """
    found: dict[str, Item] = {}
    for name, source in sources.items():
        for item in await source.items(settings, out, store):
            if item.id in found:
                raise SettingsError(f"two tasks have the id {item.id} ({name}). Ids must differ; name a source once.")
            found[item.id] = item
    return tuple(found.values())


def _open(name: str, settings: EvalSettings) -> ItemSource:
    if name.endswith(".toml") or cards().has(name) or _is_own_card(name):
        return open_card(name, settings)
    file = tasks_file(name)
    if file is not None:
        return FileSource(file, MediaStore(Path(settings.data) if settings.data else file.parent / MEDIA))
    if Path(name).is_dir():
        raise SettingsError(f"{name} holds no {TASKS}. `saccade worlds sample` writes such folders.")
    try:
        world = load_world(name.removeprefix(_WORLD))
    except RegistryError:
        if WORLDS.code(name.removeprefix(_WORLD)) is not None:
            raise
        known = {*cards().ids(), *cards().names(), *WORLDS.ids(), *WORLDS.names()}
        near = did_you_mean(name.removeprefix(_WORLD), known)
        raise SettingsError(
            f"{name!r} is no benchmark, no file of tasks and no generated world. {near or 'See: saccade cards list.'}"
        ) from None
    if settings.n is None:
        raise SettingsError(f"{name} has no end: say how many tasks of it with --n, as in --n 100.")
    return WorldSource(world, world.knobs())


def _is_own_card(name: str) -> bool:
    """Whether `name` is code of the user's own that holds a card: the same form may name a world."""
    return cards().code(name) is not None and WORLDS.code(name) is not None and isinstance(cards().find(name), Card)
