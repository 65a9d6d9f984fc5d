"""Limits of the sandbox's sessions that a user sets in place of a dialect's, as `session.wall_seconds=60`.

Those of a remote sandbox are its server's; of these only the wall time holds there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeVar, cast

from pydantic import Field

from saccade.dialects.base import Dialect
from saccade.errors import SettingsError
from saccade.record.settings import Settings
from saccade.sandbox.limits import MIB, Limits
from saccade.sandbox.registry import has_own_limits

D = TypeVar("D", bound=Dialect)


class SessionLimits(Settings):
    """Those that are set stand in place of the dialect's; see `saccade.sandbox.limits.Limits`."""

    wall_seconds: float | None = Field(None, gt=0, le=86_400)
    """Longest time of one call. Unless it is set too, `cpu_seconds` is at least as long."""
    cpu_seconds: int | None = Field(None, gt=0, le=86_400)
    memory_bytes: int | None = Field(None, ge=64 * MIB)
    file_bytes: int | None = Field(None, ge=0)
    """Largest file, a video among them. Unless it is set too, `workspace_bytes` has room for one, and as much as ever
    beside it."""
    workspace_bytes: int | None = Field(None, ge=MIB)

    def applied(self, dialect: D, sandbox: str = "local") -> D:
        """The dialect with these limits for its sessions in `sandbox`.

        Raises:
            SettingsError: a limit is set that a remote sandbox decides itself, or the dialect's cannot be replaced.
        """
        overrides = {name: value for name, value in self.model_dump().items() if value is not None}
        if not overrides:
            return dialect
        if has_own_limits(sandbox) and overrides.keys() != {"wall_seconds"}:
            name = min(overrides.keys() - {"wall_seconds"})
            raise SettingsError(
                f"session.{name} cannot be set for the sandbox at {sandbox}: its limits are its server's. "
                "Start `saccade sandbox serve` with --settings that say so."
            )
        if "sandbox" not in getattr(dialect, "__dataclass_fields__", {}):
            raise SettingsError(f"dialect {dialect.id} fixes the limits of its sessions. Leave out session.*.")
        changed: D = replace(cast(Any, dialect), sandbox=self.over(dialect.sandbox))
        return changed

    def over(self, limits: Limits) -> Limits:
        """`limits` with these in place of its own."""
        overrides = {name: value for name, value in self.model_dump().items() if value is not None}
        if self.wall_seconds is not None:
            overrides.setdefault("cpu_seconds", max(limits.cpu_seconds, math.ceil(self.wall_seconds)))
        if self.file_bytes is not None:
            overrides.setdefault("workspace_bytes", max(limits.workspace_bytes, self.file_bytes + 128 * MIB))
        return Limits.model_validate({**limits.model_dump(), **overrides})
