"""Load reward presets by id: `name`, `name@version` or either with `:preset`, as in `codedance@1:repo`.

An entry maps preset names to ready presets (see `PresetRegistry`); packages add entries in the group `saccade.rewards`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from pydantic import BaseModel, ValidationError

from saccade.core.registry import PresetRegistry, described
from saccade.core.seam import misfit
from saccade.core.settings import mistaken, mistakes_of
from saccade.errors import SettingsError
from saccade.rewards.reward import RewardPreset


def _lacks(value: object) -> str:
    if isinstance(value, type) or not callable(value):
        return f"it is {described(value)}, not a function of a Group or an object that is called with one"
    return misfit(value.__call__, RewardPreset.__call__, "__call__")


REWARDS: Final = PresetRegistry[RewardPreset](
    "rewards",
    {
        "pyvision-rl@1": "saccade.rewards.peers:PRESETS",
        "codedance@1": "saccade.rewards.codedance:PRESETS",
        "vista-r1@1": "saccade.rewards.vista:PRESETS",
        "codev@1": "saccade.rewards.codev:PRESETS",
        "deepeyes@1": "saccade.rewards.peers:DEEPEYES_PRESETS",
        "thyme@1": "saccade.rewards.peers:THYME_PRESETS",
        "pixel-reasoner@1": "saccade.rewards.peers:PIXEL_REASONER_PRESETS",
    },
    _lacks,
)


def load_reward(name: str, parameters: Mapping[str, object] | None = None) -> RewardPreset:
    """Load a preset by id or from the user's own code, with some of its parameters replaced.

    Raises:
        RegistryError: nothing has that id or preset (suggests the nearest), it cannot be imported, or it is no reward.
        SettingsError: a parameter is unknown or wrong; names every mistake.
    """
    preset = REWARDS.load(name)
    if not parameters:
        return preset
    if not isinstance(preset, BaseModel):
        raise SettingsError(f"{name} takes no parameters; leave out {', '.join(parameters)}")
    try:
        return cast(RewardPreset, type(preset).model_validate({**preset.model_dump(), **parameters}))
    except ValidationError as error:
        raise mistaken(mistakes_of(type(preset), error), f"the parameters of {name}") from error
