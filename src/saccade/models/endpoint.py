"""Where a model behind HTTP is, and how patient its client is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from saccade.core.retry import DEFAULT_RETRY, Clock, RetryPolicy
from saccade.errors import SettingsError
from saccade.models.endpoint_file import read_endpoint_file
from saccade.models.keys import ApiKey
from saccade.models.prices import Prices, default_prices

_ADDRESS = re.compile(r"(?P<model>.+)@(?P<url>https?://\S+)")
_BARE_ADDRESS = re.compile(r"(?P<model>.+)@(?P<host>[\w.-]+:\d+|localhost|\[[0-9a-fA-F:]+\](?::\d+)?)(?P<path>(/\S*)?)")
"""An address without its scheme. A name with an @ alone may be a provider's own."""
_FILE = ".json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which model where, and how patient the client is."""

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
    """The endpoint that `NAME`, `NAME@http://address` or `NAME@FILE.json` means, behind `provider:`.

    Raises:
        SettingsError: the address has no scheme, or the file says none; see `saccade.models.endpoint_file`.
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
