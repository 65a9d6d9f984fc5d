"""Audits of a sandbox, which `saccade doctor` runs; they are no part of the core and come by entry point.

An audit runs programs in a sandbox and judges each. The plug-in `audit` registers its hostile programs as `attacks` in
the group `saccade.audits`; other packages may add theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from saccade.errors import UnavailableError
from saccade.record.registry import Registry, is_a
from saccade.sandbox.limits import Limits
from saccade.sandbox.promises import Promise


class AuditedAttack(Protocol):
    """A program that tries to break a promise of the sandbox."""

    @property
    def name(self) -> str: ...

    @property
    def group(self) -> str: ...

    @property
    def promise(self) -> Promise: ...

    @property
    def tries(self) -> str:
        """Say what the program tries, in a few words."""

    @property
    def may_lose_session(self) -> bool:
        """Tell whether the attacker may lose its own session."""


class AuditOutcome(Protocol):
    """The result of one attack."""

    @property
    def attack(self) -> AuditedAttack: ...

    @property
    def passed(self) -> bool: ...

    @property
    def held(self) -> bool:
        """Tell whether the promise was kept."""

    @property
    def session_survived(self) -> bool: ...

    @property
    def neighbour_ok(self) -> bool: ...

    @property
    def seconds(self) -> float: ...

    @property
    def evidence(self) -> str: ...


class RunsAudit(Protocol):
    """Runs the attacks of these names, or all, each against sandboxes that `open_sandbox` makes."""

    async def __call__(
        self, open_sandbox: Any, names: Collection[str] | None = None, *, on_outcome: Any = None
    ) -> Sequence[AuditOutcome]: ...


class Chooses(Protocol):
    """Returns the attacks of these names, or all. Raises `SettingsError` for an unknown name."""

    def __call__(self, names: Collection[str] | None) -> Sequence[AuditedAttack]: ...


@dataclass(frozen=True, slots=True)
class Audit:
    """A set of attacks, and the limits that a sandbox should have for them."""

    limits: Limits
    choose: Chooses
    run: RunsAudit


AUDITS: Final = Registry[Audit]("audits", {}, is_a(Audit, "a saccade.sandbox.audit.Audit"))


def load_audit(name: str) -> Audit:
    """Load an audit by its name. Raises `UnavailableError` if no installed package has it."""
    if not AUDITS.has(name):
        raise UnavailableError(
            f"the audit {name!r} is in the plug-in `audit` of Saccade, which is not installed here: no package "
            f"registers {name!r} in the entry point group saccade.audits. Install the whole package saccade."
        )
    return AUDITS.load(name)
