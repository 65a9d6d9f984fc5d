"""Check of session options against what the guest really knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from saccade.errors import SandboxError
from saccade.guest.preload import PRELOAD
from saccade.record.suggest import did_you_mean
from saccade.sandbox.base import SessionOptions
from saccade.sandbox.repairs import REPAIRS


def check_options(options: SessionOptions) -> None:
    """Raise `SandboxError` for a repair or a preloaded name that does not exist, naming those that do."""
    _check("repair", options.repairs, REPAIRS)
    _check("name to preload", options.preload, PRELOAD)


def _check(what: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"Known: {', '.join(sorted(known))}."
            raise SandboxError(f"there is no {what} {name!r}. {hint}")
