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

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from saccade.core.registry import Registry, described, has_members, is_a
from saccade.errors import RegistryError, UnavailableError
from saccade.sandbox.base import Limits, Sandbox

if TYPE_CHECKING:
    from saccade.sandbox.isolation import Promise

SandboxProvider = Callable[[str, Limits, float | None], Sandbox]

SANDBOXES: Final = Registry[SandboxProvider](
    "sandboxes",
    {
        "local@1": "saccade.sandbox.local:local",
        "remote@1": "saccade.sandbox.pool:remote",
        "scripted@1": "saccade.sandbox.scripted:scripted",
    },
    lambda value: "" if callable(value) else f"it is {described(value)}, which cannot be called",
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
    """Return whether `where` names the sandbox of this machine."""
    return _split(where)[0] in ("local", "local@1")


def has_own_limits(where: str) -> bool:
    """Return whether the sandbox at `where` has the limits of its server, whatever the settings say."""
    return _split(where)[0] in ("remote", "remote@1")


def _split(where: str) -> tuple[str, str]:
    if where.startswith(("http://", "https://")):
        return "remote", where
    name, rest = SANDBOXES.split(where)
    return name, rest or ""


# Audits, which `saccade doctor` runs: the plug-in `audit` registers its hostile programs as `attacks` in the group
# `saccade.audits`; other packages may add theirs.


class AuditedAttack(Protocol):
    """A program that tries to break a promise of the sandbox."""

    @property
    def name(self) -> str:
        """Name of the attack, unique in its audit."""

    @property
    def group(self) -> str:
        """Heading under which it is listed."""

    @property
    def promise(self) -> Promise:
        """The promise of the sandbox that it tries to break."""

    @property
    def tries(self) -> str:
        """Say in a few words what it tries."""

    @property
    def may_lose_session(self) -> bool:
        """Whether the session may end by it."""


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """Result of one attack. `evidence` says how it got through, or what stopped it; `seconds` is wall time.

    `session_survived`: the next call of the attacked session saw its state. `neighbour_ok`: so did another session.
    """

    attack: AuditedAttack
    held: bool
    session_survived: bool
    neighbour_ok: bool
    seconds: float
    evidence: str

    @property
    def passed(self) -> bool:
        """Whether the attack failed and harmed nobody it may not harm."""
        return self.held and self.neighbour_ok and (self.session_survived or self.attack.may_lose_session)


class RunsAudit(Protocol):
    """Runs the attacks of these names, or all, each against sandboxes that `open_sandbox` makes."""

    async def __call__(
        self, open_sandbox: Any, names: Collection[str] | None = None, *, on_outcome: Any = None
    ) -> Sequence[AuditOutcome]: ...


@dataclass(frozen=True, slots=True)
class Audit:
    """A set of attacks, and the limits that a sandbox should have for them."""

    limits: Limits
    choose: Callable[[Collection[str] | None], Sequence[AuditedAttack]]
    """Returns the attacks of these names, or all. Raises `SettingsError` for an unknown name."""
    run: RunsAudit


AUDITS: Final = Registry[Audit]("audits", {}, is_a(Audit, "a saccade.sandbox.registry.Audit"))


def load_audit(name: str) -> Audit:
    """Load an audit by its name. Raises `UnavailableError` if no installed package has it."""
    if not AUDITS.has(name):
        raise UnavailableError(
            f"the audit {name!r} is in the plug-in `audit` of Saccade, which is not installed here: no package "
            f"registers {name!r} in the entry point group saccade.audits. Install the whole package saccade."
        )
    return AUDITS.load(name)
