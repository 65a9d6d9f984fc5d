"""The ids under which `gymnasium.make` finds the environment: a general one, and one for each published dialect."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import gymnasium
from gymnasium.envs.registration import EnvSpec

ENTRY_POINT: Final = "saccade.training.env.look_again:LookAgainEnv"
DIALECT_OF: Final = MappingProxyType(
    {
        "saccade/LookAgain-v0": "pyvision@1",
        "saccade/PyVision-v0": "pyvision@1",
        "saccade/PyVisionRL-v0": "pyvision-rl-image@1",
        "saccade/PyVisionRLVideo-v0": "pyvision-rl-video@1",
        "saccade/CodeDance-v0": "codedance@1",
        "saccade/CodeV-v0": "codev@1",
        "saccade/Vista-v0": "vista@1",
        "saccade/Thyme-v0": "thyme@1",
        "saccade/DeepEyes-v0": "deepeyes@1",
        "saccade/Native-v0": "native@1",
    }
)
"""Id in Gymnasium's registry -> the dialect that is spoken unless `make` is given another."""


def spec_of(arguments: Mapping[str, Any]) -> EnvSpec:
    """Return the spec of an environment made by hand: nondeterministic, as programs may read the clock."""
    return EnvSpec("saccade/LookAgain-v0", ENTRY_POINT, nondeterministic=True, kwargs=dict(arguments))


def register_envs() -> None:
    """Register every id that is not there yet."""
    for name, dialect in DIALECT_OF.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, ENTRY_POINT, nondeterministic=True, kwargs={"dialect": dialect})
