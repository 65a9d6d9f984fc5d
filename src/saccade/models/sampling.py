"""Which sampling settings a provider's API does not know, so that they are refused before anything is asked.

What a single model of a provider refuses only shows when it is asked.
"""

from __future__ import annotations

from saccade.errors import SettingsError
from saccade.models.openai_wire import SERVERS
from saccade.record.trajectory import Sampling


def unknown_sampling(model: str) -> frozenset[str]:
    """Names of the sampling settings that the provider of `model` (`provider:name`) cannot be given."""
    provider = model.partition(":")[0]
    if provider == "anthropic":
        return frozenset({"seed"})
    server = SERVERS.get(provider)
    return frozenset() if server is None or server.own_sampling else frozenset({"top_k"})


def check_sampling(model: str, sampling: Sampling) -> None:
    """Raises `SettingsError` for what would change nothing, or be refused by every request."""
    given = {name for name in unknown_sampling(model) if getattr(sampling, name) is not None}
    if given:
        names = " and ".join(f"sampling.{name}" for name in sorted(given))
        raise SettingsError(f"{model.partition(':')[0]} does not know {names}. Leave it out, or use another model.")
