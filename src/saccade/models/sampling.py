"""Which sampling settings a provider's API does not know, so that they are refused before anything is asked.

What a single model of a provider refuses only shows when it is asked.
"""

from __future__ import annotations

from saccade.errors import SettingsError
from saccade.models.registry import provider_of
from saccade.record.trajectory import Sampling


def unknown_sampling(model: str) -> frozenset[str]:
    """Names of the sampling settings that the provider of `model` (`provider:name`) cannot be given."""
    return provider_of(model).unknown_sampling


def unheard_sampling(model: str, sampling: Sampling) -> str:
    """A sentence that names the settings of `sampling` that change nothing, for what does not sample; else empty."""
    provider = provider_of(model)
    given = [f"sampling.{name}" for name, value in sampling.model_dump().items() if value is not None]
    if not given or provider.samples:
        return ""
    return f"{provider.name} does not sample: {' and '.join(given)} change{'s' * (len(given) == 1)} nothing."


def check_sampling(model: str, sampling: Sampling) -> None:
    """Raises `SettingsError` for what would change nothing, or be refused by every request."""
    provider = provider_of(model)
    given = {name for name in provider.unknown_sampling if getattr(sampling, name) is not None}
    if given:
        names = " and ".join(f"sampling.{name}" for name in sorted(given))
        raise SettingsError(f"{provider.name} does not know {names}. Leave it out, or use another model.")
