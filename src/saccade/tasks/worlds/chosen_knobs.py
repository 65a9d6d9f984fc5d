"""Knobs of several worlds as settings give them: `{"maze": {"size": 9}}`, by names without version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from saccade.errors import SettingsError
from saccade.record.settings import load_settings
from saccade.tasks.worlds.base import Knobs, World


def chosen_knobs(worlds: Iterable[World[Any]], given: Mapping[str, Mapping[str, Any]]) -> dict[str, Knobs]:
    """The knobs of every world, by its id; those that are not `given` at their defaults.

    Raises:
        SettingsError: a knob is unknown or wrong, or belongs to a world that is not drawn.
    """
    by_id = {world.id: world for world in worlds}
    names = {name.partition("@")[0] for name in by_id}
    strange = sorted(given.keys() - names)
    if strange:
        worlds_named = f"the worlds are {', '.join(sorted(names))}" if names else "no world is drawn"
        raise SettingsError(f"knobs are given for {', '.join(strange)}, but {worlds_named}")
    return {
        name: load_settings(world.knobs, overrides=_overrides(given.get(name.partition("@")[0], {})))
        for name, world in by_id.items()
    }


def _overrides(knobs: Mapping[str, object]) -> list[str]:
    # JSON's numbers, texts and lists are TOML's too.
    return [f"{name}={json.dumps(value)}" for name, value in knobs.items()]
