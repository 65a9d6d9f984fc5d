"""Find generated worlds by id, `name` or `name@version`, and read their knobs from settings.

Every world is registered by an entry point of the group `saccade.worlds`, Saccade's own ones too; the target is a
`World`. A world is imported when it is first asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from saccade.errors import RegistryError, SettingsError
from saccade.record.registry import Registry, is_a
from saccade.record.settings import load_settings
from saccade.tasks.worlds.base import Knobs, World

WORLDS: Final = Registry[World[Any]]("worlds", {}, is_a(World, "a saccade.tasks.worlds.base.World"))


def load_world(name: str) -> World[Any]:
    """Load a world by its id, or from the user's own code (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that id (suggests the nearest), it cannot be imported, it is no world, or a world of
            the user's own has an id that is taken.
        UnavailableError: it is in a plug-in that is not installed.
    """
    world = WORLDS.load(name)
    if WORLDS.code(name) is not None and WORLDS.has(world.id):
        raise RegistryError(f"{name} has the id {world.id}, which is another world's. Give it one of its own.")
    return world


def chosen_knobs(worlds: Iterable[World[Any]], by_world: Mapping[str, Mapping[str, Any]]) -> dict[str, Knobs]:
    """The knobs of every world, by its id; those that `by_world` does not give are at their defaults.

    Raises:
        SettingsError: a knob is unknown or wrong, or belongs to a world that is not drawn.
    """
    by_id = {world.id: world for world in worlds}
    names = {name.partition("@")[0] for name in by_id}
    strange = sorted(by_world.keys() - names)
    if strange:
        worlds_named = f"the worlds are {', '.join(sorted(names))}" if names else "no world is drawn"
        raise SettingsError(f"knobs are given for {', '.join(strange)}, but {worlds_named}")
    return {
        name: load_settings(world.knobs, overrides=_overrides(by_world.get(name.partition("@")[0], {})))
        for name, world in by_id.items()
    }


def _overrides(knobs: Mapping[str, object]) -> list[str]:
    # JSON's numbers, texts and lists are TOML's too.
    return [f"{name}={json.dumps(value)}" for name, value in knobs.items()]
