"""Which sampling settings a provider's API does not know, so that they are refused before anything is asked.

What a single model of a provider refuses only shows when it is asked.
"""

from __future__ import annotations

from typing import Final

from saccade.errors import SettingsError
from saccade.models.openai_wire import SERVERS
from saccade.record.trajectory import Sampling

_NOT_SAMPLED: Final = frozenset({"scripted", "replay", "solver"})
"""They write what is written down or computed."""


def unknown_sampling(model: str) -> frozenset[str]:
    """Names of the sampling settings that the provider of `model` (`provider:name`) cannot be given."""
    provider = model.partition(":")[0]
    if provider == "anthropic":
        return frozenset({"seed"})
    server = SERVERS.get(provider)
    return frozenset() if server is None or server.own_sampling else frozenset({"top_k"})


def unheard_sampling(model: str, sampling: Sampling) -> str:
    """A sentence that names the settings of `sampling` that change nothing, for what does not sample; else empty."""
    provider = model.partition(":")[0]
    given = [f"sampling.{name}" for name, value in sampling.model_dump().items() if value is not None]
    if provider not in _NOT_SAMPLED or not given:
        return ""
    return f"{provider} does not sample: {' and '.join(given)} change{'s' * (len(given) == 1)} nothing."


def check_sampling(model: str, sampling: Sampling) -> None:
    """Raises `SettingsError` for what would change nothing, or be refused by every request."""
    given = {name for name in unknown_sampling(model) if getattr(sampling, name) is not None}
    if given:
        names = " and ".join(f"sampling.{name}" for name in sorted(given))
        raise SettingsError(f"{model.partition(':')[0]} does not know {names}. Leave it out, or use another model.")
