"""Parse the address of a model behind HTTP (`NAME`, `NAME@http://address`, `NAME@FILE.json`); what tokens cost."""

from __future__ import annotations

import json
import logging
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NoReturn

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveInt, ValidationError

from saccade.core.registry import did_you_mean
from saccade.core.retry import DEFAULT_RETRY, Clock, RetryPolicy
from saccade.errors import SettingsError
from saccade.models.base import Usage
from saccade.models.failures import ApiKey
from saccade.models.registry import PROVIDERS

# What tokens cost, from a small dated table that a user can replace. A model that is not in it costs None.
#
# Prices change without notice and discounts of a contract are unknown here: the sum is an estimate to plan with, not a
# bill.

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


# Files of address and key, in the two forms of PyVision's `api_config_*.json`:
#
#     {"api_key": ["sk-…"], "base_url": "https://…/v1"}
#     {"azure_openai_api_key": ["…"], "azure_openai_endpoint": "https://NAME.openai.azure.com"}
#
# `openai:gpt-4.1@FILE.json` names one; its field `model` is used for `openai:@FILE.json`. No message holds any part of
# a key, nor does a cause of one.


_log = logging.getLogger(__name__)

_PLAIN: Final = ("api_key", "base_url")
_AZURE: Final = ("azure_openai_api_key", "azure_openai_endpoint")
_MODEL: Final = "model"
_AZURE_PATH: Final = "/openai/v1/"
"""Where a resource of Azure's speaks the same protocol as OpenAI."""
_MOST_BYTES: Final = 65_536
_URL: Final = re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?")
"""Without a user and a password, which errors would show."""
_KEY: Final = re.compile(r"[!-~]+")
"""What a header may hold."""
_EXAMPLE: Final = '{"api_key": ["sk-…"], "base_url": "https://…/v1"}'


@dataclass(frozen=True, slots=True)
class EndpointFile:
    """The contents of such a file."""

    key: ApiKey
    base_url: str | None
    """None for the provider's own address."""
    model: str
    """Empty where it names none."""


def read_endpoint_file(name: str, *, azure: bool) -> EndpointFile:
    """Read the file at the path `name`, in Azure's form if `azure`, else in the plain one. Raises `SettingsError` if it
    cannot be read, is of neither form or of the other one, or holds no usable key or address.
    """
    fields = _fields(name)
    forms = [form for form in (_PLAIN, _AZURE) if any(field in fields for field in form)]
    if len(forms) != 1:
        both = "fields of Azure's form and of the other one" if forms else "neither api_key nor azure_openai_api_key"
        _refuse(name, f"it has {both}. Write {_EXAMPLE}, or both fields with azure_openai_ before them")
    form = forms[0]
    if form is _AZURE and not azure:
        _refuse(name, f"it is for Azure's service. Write azure:DEPLOYMENT@{name}")
    left = sorted(set(fields) - {*form, _MODEL})
    if left:
        _log.warning("%s: %s means nothing here and is left aside.", name, " and ".join(map(_named, left)))
    model = fields.get(_MODEL) or ""
    if not isinstance(model, str):
        _refuse(name, f"`{_MODEL}` is no text. Write the name of a model, or leave it out")
    return EndpointFile(_key(name, fields, form[0]), _address(name, fields, form), model.strip())


def _fields(name: str) -> Mapping[str, Any]:
    path = Path(name).expanduser()
    try:
        if not path.is_file():  # a pipe could be waited for without an end
            _refuse(name, f"there is no such file ({os.path.abspath(path)}). Check the path")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        _refuse(name, f"it cannot be read: {error.strerror}")
    if len(data) > _MOST_BYTES:
        _refuse(name, f"it has more than {_MOST_BYTES} bytes, so it is something else. Write {_EXAMPLE}")
    try:
        fields = json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:  # the exception itself holds the whole text
        where = f"{error.msg}, line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError):
        where = "it is no text in UTF-8, or no plain JSON"
    else:
        if isinstance(fields, dict):
            return fields
        where = "it holds no object"
    _refuse(name, f"it is no JSON object: {where}. Write {_EXAMPLE}")


def _key(name: str, fields: Mapping[str, Any], field: str) -> ApiKey:
    value = fields.get(field)
    listed = value if isinstance(value, list) else [value]
    keys = [key.strip() for key in listed if isinstance(key, str) and key.strip()]
    if not keys or len(keys) < len(listed):
        _refuse(name, f"`{field}` holds no key. Write a key as a text in a list")
    key = keys[0]
    if not _KEY.fullmatch(key):
        _refuse(name, f"the key under `{field}` holds a blank or a sign that no key has. Copy it again")
    if len(keys) > 1:
        _log.warning("%s holds %d keys; the first is used.", name, len(keys))
    return ApiKey(key, f"Check the key in {name}.")


def _address(name: str, fields: Mapping[str, Any], form: tuple[str, str]) -> str | None:
    field = form[1]
    value = fields.get(field)
    if value is None and form is _PLAIN:
        return None
    if not isinstance(value, str) or not _URL.fullmatch(value.strip()):
        todo = "" if form is _AZURE else ", or leave it out for the provider's own"
        _refuse(name, f"`{field}` is no address. Write one that begins with https:// or http://{todo}")
    url = value.strip()
    if form is _AZURE and "/openai" not in url:
        url = url.rstrip("/") + _AZURE_PATH
    return url


def _named(field: str) -> str:
    return f"`{field[:40]}`"


def _refuse(name: str, why: str) -> NoReturn:
    raise SettingsError(f"{name} gives no model an address and a key: {why}.") from None


_ADDRESS = re.compile(r"(?P<model>.+)@(?P<url>https?://\S+)")
_BARE_ADDRESS = re.compile(r"(?P<model>.+)@(?P<host>[\w.-]+:\d+|localhost|\[[0-9a-fA-F:]+\](?::\d+)?)(?P<path>(/\S*)?)")
"""An address without its scheme. A name with an @ alone may be a provider's own."""
_FILE = ".json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model, its address and key, and the client's retry policy."""

    model: str
    """The provider's name for it; of Azure the deployment."""
    base_url: str | None = None
    """Address up to and with the version (`…/v1`); None for the provider's own."""
    key: ApiKey | None = None
    """Comes before those of the environment."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request is tried, and for how long."""
    prices: Prices = field(default_factory=default_prices)
    clock: Clock = field(default_factory=Clock)


def endpoint_of(name: str, provider: str) -> Endpoint:
    """Parse `NAME`, `NAME@http://address` or `NAME@FILE.json`, the text behind `provider:`.

    Raises `SettingsError`: the address has no scheme, or the file says none; see `saccade.models.endpoint`.
    """
    match = _ADDRESS.fullmatch(name)
    if match is not None:
        return Endpoint(match["model"], base_url=match["url"])
    if bare := _BARE_ADDRESS.fullmatch(name):
        right = f"{bare['model']}@http://{bare['host']}{bare['path'] or '/v1'}"
        raise SettingsError(f"{provider}:{name} names an address without http:// or https://. Write {provider}:{right}")
    if name.endswith(_FILE) and "@" in name:
        return _of_file(name, provider)
    return Endpoint(name)


def _of_file(name: str, provider: str) -> Endpoint:
    ats = [at for at, sign in enumerate(name) if sign == "@"]
    at = next((at for at in ats if Path(name[at + 1 :]).is_file()), ats[-1])  # names and folders may hold one too
    model, path = name[:at], name[at + 1 :]
    said = read_endpoint_file(path, azure=provider == "azure")
    if not (model or said.model):
        raise SettingsError(f"{path} names no model. Write {provider}:NAME@{path}, or give the file a field `model`.")
    return Endpoint(model or said.model, base_url=said.base_url, key=said.key)
