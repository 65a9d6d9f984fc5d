"""The reward presets by id: `name`, `name@version` or either with `:preset`, as in `codedance@1:repo`.

An entry's target is a mapping from preset names to ready presets, the first of which is the default. Further packages
add entries by the entry point group `saccade.rewards`. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import BaseModel, ValidationError

from saccade.errors import RegistryError, SettingsError
from saccade.record.registry import Registry
from saccade.record.suggest import did_you_mean
from saccade.rewards.reward import RewardPreset

REWARDS = Registry(
    "rewards",
    {
        "pyvision-rl@1": "saccade.rewards.pyvision_rl:PRESETS",
        "codedance@1": "saccade.rewards.codedance:PRESETS",
        "vista-r1@1": "saccade.rewards.vista:PRESETS",
        "codev@1": "saccade.rewards.codev:PRESETS",
        "deepeyes@1": "saccade.rewards.deepeyes:PRESETS",
        "thyme@1": "saccade.rewards.thyme:PRESETS",
        "pixel-reasoner@1": "saccade.rewards.pixel_reasoner:PRESETS",
    },
)


def load_reward(wanted: str, parameters: Mapping[str, object] | None = None) -> RewardPreset:
    """The preset that `wanted` names, with `parameters` in the place of its own.

    Raises:
        RegistryError: nothing has that id or preset (suggests the nearest), or it cannot be imported.
        SettingsError: a parameter is unknown or wrong; names every mistake.
    """
    entry, _, name = wanted.partition(":")
    presets = REWARDS.load(entry)
    if not isinstance(presets, Mapping) or not presets:
        raise RegistryError(f"{entry} of rewards is no mapping from preset names to presets; correct its target")
    name = name if ":" in wanted else next(iter(presets))
    if name not in presets:
        raise RegistryError(f"{entry} has no preset {name!r}. {did_you_mean(name, presets)}".rstrip())
    preset = presets[name]
    return cast(RewardPreset, _changed(wanted, preset, parameters) if parameters else preset)


def presets(wanted: str) -> tuple[str, ...]:
    """The names of the presets of a family, its default first. Raises `RegistryError`."""
    found = REWARDS.load(wanted)
    return tuple(found) if isinstance(found, Mapping) else ()


def _changed(wanted: str, preset: object, parameters: Mapping[str, object]) -> object:
    if not isinstance(preset, BaseModel):
        raise SettingsError(f"{wanted} takes no parameters; leave out {', '.join(parameters)}")
    try:
        return type(preset).model_validate({**preset.model_dump(), **parameters})
    except ValidationError as error:
        known = type(preset).model_fields
        lines = []
        for problem in error.errors(include_url=False):
            key = ".".join(map(str, problem["loc"])) or "(all parameters)"
            hint = did_you_mean(key, known) if problem["type"] == "extra_forbidden" else ""
            lines.append(f"  {key}: {problem['msg']}. {hint}".rstrip())
        raise SettingsError(f"parameters of {wanted}:\n" + "\n".join(lines)) from error
