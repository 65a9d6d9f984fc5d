"""Check of session options against what the guest really knows."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from saccade.errors import SandboxError
from saccade.guest.preload import PRELOAD
from saccade.sandbox.base import SessionOptions
from saccade.sandbox.repairs import REPAIRS


def check_options(options: SessionOptions) -> None:
    """Raise `SandboxError` for a repair or a preloaded name that does not exist, naming those that do."""
    _check("repair", options.repairs, REPAIRS)
    _check("name to preload", options.preload, PRELOAD)


def _check(what: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise SandboxError(f"there is no {what} {name!r}.{hint} Known: {', '.join(sorted(known))}.")
