"""Sandbox providers by name, as the setting `sandbox` and the option `--sandbox` write them.

    local                                          processes of this machine
    http://host:8765                               a `saccade sandbox serve`; several with commas between them
    remote:http://host:8765                        the same
    scripted:FILE.json                             answers from a file, for tests
    my_sandbox.py:open_container@IMAGE             a provider of the user's own

A provider is a function or class that is called with the text after the name (empty for none), the limits of a
session, and `wait`: how many seconds to wait for a session where all are taken, None for the provider's own default.
It returns a `saccade.sandbox.base.Sandbox` that is not entered yet. Other packages add providers by the entry point
group `saccade.sandboxes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from saccade.errors import RegistryError
from saccade.record.registry import Registry, described, has_members
from saccade.sandbox.base import Sandbox
from saccade.sandbox.limits import Limits

SandboxProvider = Callable[[str, Limits, float | None], Sandbox]


def _lacks(value: object) -> str:
    return "" if callable(value) else f"it is {described(value)}, which cannot be called"


SANDBOXES: Final = Registry[SandboxProvider](
    "sandboxes",
    {
        "local@1": "saccade.sandbox.providers:local",
        "remote@1": "saccade.sandbox.providers:remote",
        "scripted@1": "saccade.sandbox.providers:scripted",
    },
    _lacks,
)

_lacks_of_sandbox = has_members(("open", "isolation", "close", "__aenter__", "__aexit__"))


def sandbox_at(where: str, limits: Limits, *, wait: float | None = None) -> Sandbox:
    """Make the sandbox that `where` names, with sessions of these limits; those of a remote one are its server's.

    Raises:
        RegistryError: no provider has that name (suggests the nearest), or what it makes is no sandbox.
        SettingsError: the provider cannot use what follows its name.
    """
    name, rest = _split(where)
    sandbox = SANDBOXES.load(name)(rest, limits, wait)
    lack = _lacks_of_sandbox(sandbox)
    if lack:
        raise RegistryError(f"{where} gives no sandbox: {lack}. docs/extending.md shows a provider of sandboxes.")
    return sandbox


def is_local(where: str) -> bool:
    """Whether `where` names the sandbox of this machine."""
    return _split(where)[0] in ("local", "local@1")


def has_own_limits(where: str) -> bool:
    """Whether the sandbox at `where` has the limits of its server, whatever the settings say."""
    return _split(where)[0] in ("remote", "remote@1")


def _split(where: str) -> tuple[str, str]:
    if where.startswith(("http://", "https://")):
        return "remote", where
    name, rest = SANDBOXES.split(where)
    return name, rest or ""
