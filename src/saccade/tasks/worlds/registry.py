"""The generated worlds by id, `name` or `name@version`, and their knobs as settings give them.

An entry's target is a `World`. Further packages add entries by the entry point group `saccade.worlds`. Nothing is
imported before it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from saccade.errors import RegistryError, SettingsError
from saccade.record.registry import Registry, is_a
from saccade.record.settings import load_settings
from saccade.tasks.worlds.base import Knobs, World

_HOME = "saccade.tasks.worlds"

WORLDS: Final = Registry[World[Any]](
    "worlds",
    {
        "chart-bar@2": f"{_HOME}.chart_bars:WORLD",
        "chart-line@2": f"{_HOME}.chart_lines:WORLD",
        "chart-pie@3": f"{_HOME}.chart_pie:WORLD",
        "chart-scatter@3": f"{_HOME}.chart_scatter:WORLD",
        "circled-letter@1": f"{_HOME}.circled_letter:WORLD",
        "echo@5": f"{_HOME}.echo:WORLD",
        "form-page@1": f"{_HOME}.form_page:WORLD",
        "geometry@1": f"{_HOME}.geometry:WORLD",
        "grid-count@1": f"{_HOME}.grid_count:WORLD",
        "line-crossings@1": f"{_HOME}.line_crossings:WORLD",
        "maze@1": f"{_HOME}.maze:WORLD",
        "nested-squares@1": f"{_HOME}.nested_squares:WORLD",
        "path-follow@1": f"{_HOME}.path_follow:WORLD",
        "pictograph@1": f"{_HOME}.pictograph:WORLD",
        "pixel-colour@1": f"{_HOME}.pixel_colour:WORLD",
        "region-map@1": f"{_HOME}.region_map:WORLD",
        "rotated-dark-text@1": f"{_HOME}.rotated_dark_text:WORLD",
        "shape-count@1": f"{_HOME}.shape_count:WORLD",
        "sign-close-up@1": f"{_HOME}.sign_close_up:WORLD",
        "sign-colours@2": f"{_HOME}.sign_colours:WORLD",
        "solid-scene@1": f"{_HOME}.solid_scene:WORLD",
        "spot-difference@1": f"{_HOME}.spot_difference:WORLD",
        "table-arithmetic@3": f"{_HOME}.table:WORLD",
        "touching-circles@1": f"{_HOME}.touching_circles:WORLD",
        "video-events@3": f"{_HOME}.video:WORLD",
        "visual-search@1": f"{_HOME}.visual_search:WORLD",
    },
    is_a(World, "a saccade.tasks.worlds.base.World"),
)


def load_world(name: str) -> World[Any]:
    """Load the world that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that id (suggests the nearest), it cannot be imported, it is no world, or a world of
            the user's own has an id that is taken.
    """
    world = WORLDS.load(name)
    if WORLDS.code(name) is not None and WORLDS.has(world.id):
        raise RegistryError(f"{name} has the id {world.id}, which is another world's. Give it one of its own.")
    return world


def chosen_knobs(worlds: Iterable[World[Any]], by_world: Mapping[str, Mapping[str, Any]]) -> dict[str, Knobs]:
    """The knobs of every world, by its id; those that are not `given` at their defaults.

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
