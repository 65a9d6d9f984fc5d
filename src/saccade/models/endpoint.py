"""Where a model behind HTTP is, and how patient its client is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from saccade.errors import SettingsError
from saccade.models.prices import Prices, default_prices
from saccade.models.retry import DEFAULT_RETRY, Clock, RetryPolicy

_ADDRESS = re.compile(r"(?P<model>.+)@(?P<url>https?://\S+)")
_BARE_ADDRESS = re.compile(r"(?P<model>.+)@(?P<host>[\w.-]+:\d+|localhost|\[[0-9a-fA-F:]+\](?::\d+)?)(?P<path>(/\S*)?)")
"""An address without its scheme. A name with an @ alone may be a provider's own."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which model where, and how patient the client is."""

    model: str
    """The provider's name for it; of Azure the deployment."""
    base_url: str | None = None
    """Address up to and with the version (`…/v1`); None for the provider's own."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request is tried, and for how long."""
    prices: Prices = field(default_factory=default_prices)
    clock: Clock = field(default_factory=Clock)


def endpoint_of(name: str, provider: str) -> Endpoint:
    """The endpoint that `NAME` or `NAME@http://address` means, behind `provider:`.

    Raises:
        SettingsError: the address has no scheme.
    """
    match = _ADDRESS.fullmatch(name)
    if match is None and (bare := _BARE_ADDRESS.fullmatch(name)):
        right = f"{bare['model']}@http://{bare['host']}{bare['path'] or '/v1'}"
        raise SettingsError(f"{provider}:{name} names an address without http:// or https://. Write {provider}:{right}")
    return Endpoint(match["model"], base_url=match["url"]) if match else Endpoint(name)
