"""Names of the repairs that a session can be asked to make, for settings and help texts."""

from __future__ import annotations

from saccade.guest.repairs import PASSES

REPAIRS: dict[str, str] = {name: item.summary for name, item in PASSES.items()}
"""Name -> what the repair does, in one sentence."""
