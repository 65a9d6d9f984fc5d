"""The claims by name. Nothing is imported before it is asked for."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import Final

from saccade.errors import SettingsError
from saccade.record.suggest import did_you_mean
from saccade.reproduce.claim import Claim

CLAIMS: Final = MappingProxyType(
    {
        "lift": "lift",
        "tool-reward": "tool_reward",
        "std-sorting": "std_sorting",
        "adaptive": "adaptive",
        "faithful": "faithful",
        "tail-patch": "tail_patch",
        "tools": "tools",
    }
)
"""Module of `saccade.reproduce.claims` for each name."""


def load_claim(name: str) -> Claim:
    """The claim of that name.

    Raises:
        SettingsError: there is none; suggests the nearest.
    """
    if name not in CLAIMS:
        hint = did_you_mean(name, CLAIMS) or f"They are: {', '.join(CLAIMS)}."
        raise SettingsError(f"there is no claim {name!r}. {hint}")
    claim = import_module(f"saccade.reproduce.claims.{CLAIMS[name]}").CLAIM
    assert isinstance(claim, Claim)
    return claim
