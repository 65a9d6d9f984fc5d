"""Where a model behind HTTP is, and how patient its client is."""

from __future__ import annotations

from dataclasses import dataclass, field

from saccade.models.prices import Prices, default_prices
from saccade.models.retry import DEFAULT_RETRY, Clock, RetryPolicy


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
