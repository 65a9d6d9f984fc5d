"""What tokens cost, from a small dated table that a user can replace. A model that is not in it costs None.

Prices change without notice and discounts of a contract are unknown here: the sum is an estimate to plan with, not a
bill.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveInt, ValidationError

from saccade.core.registry import did_you_mean
from saccade.errors import SettingsError
from saccade.models.base import Usage
from saccade.models.registry import PROVIDERS

_DATED = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
_MILLION = 1_000_000


class Price(BaseModel):
    """US dollars per million tokens of one model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: NonNegativeFloat
    cached: NonNegativeFloat | None = None
    """Input read from the provider's cache; None if it has no price of its own."""
    cache_write: NonNegativeFloat | None = None
    """Input written to the provider's cache."""
    output: NonNegativeFloat
    most_prompt_tokens: PositiveInt | None = None
    """Longest prompt that these prices hold for."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, dict[str, Price]]

    date: str
    source: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices."""

    date: str
    """When it was written, as ISO date."""
    table: Mapping[str, Mapping[str, Price]]
    """Provider -> model -> price."""

    def price(self, provider: str, model: str) -> Price | None:
        """Return the price of a model by its name, or by its name without the date of a snapshot; None if unknown."""
        prices = self.table.get(provider, {})
        return prices.get(model) or prices.get(_DATED.sub("", model))

    def priced(self, usage: Usage, provider: str, model: str, cache_written: int = 0) -> Usage:
        """Return `usage` with its dollars where tokens and price are known; `cache_written` is a part of the prompt."""
        price = self.price(provider, model)
        prompt, sampled = usage.prompt_tokens, usage.sampled_tokens
        if price is None or prompt is None or sampled is None:
            return usage
        if price.most_prompt_tokens is not None and prompt > price.most_prompt_tokens:
            return usage
        cached = usage.cached_tokens or 0
        if (cached and price.cached is None) or (cache_written and price.cache_write is None):
            return usage
        dollars = (
            (prompt - cached - cache_written) * price.input
            + cached * (price.cached or 0.0)
            + cache_written * (price.cache_write or 0.0)
            + sampled * price.output
        )
        return replace(usage, dollars=dollars / _MILLION)


def load_prices(path: str | os.PathLike[str]) -> Prices:
    """Return the table in a TOML file; docs/models.md gives its form. Raises `SettingsError` if it cannot be read, or a
    field is unknown, missing or wrong.
    """
    try:
        return _checked(_parsed(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(
            f"{path} is no table of prices: {why}. Write it like saccade/models/prices.toml (docs/models.md)."
        ) from error


@cache
def default_prices() -> Prices:
    """Return the table that comes with Saccade."""
    return _parsed((files("saccade.models") / "prices.toml").read_text(encoding="utf-8"))


def _checked(prices: Prices) -> Prices:
    """Raises ValueError for a table of no provider: its prices would be silently unused."""
    for name in prices.table:
        if not PROVIDERS.has(name):
            hint = did_you_mean(name, PROVIDERS.names())
            raise ValueError(f"there is no provider {name!r}. {hint}".rstrip())
    return prices


def _parsed(text: str) -> Prices:
    table = _Table.model_validate(tomllib.loads(text))
    return Prices(table.date, dict(table.__pydantic_extra__))
