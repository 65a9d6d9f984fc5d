"""The sessions of all clients of an MCP server, each reachable by its name alone.

A name has 128 random bits and only who opened or branched the session is given it, so no client reaches another's, over
whatever connection. What is not used for some time is closed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from saccade.media.settings import OwnMediaSettings
from saccade.sandbox.base import Sandbox
from saccade.sandbox.limits import MIB
from saccade.serve.vision_session import CallRefusedError, MediaFolder, VisionSession
from saccade.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)


class McpSettings(BaseModel):
    """What an MCP server lends out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_sessions: int = Field(default=32, ge=1)
    """Most sessions at once, of all clients together."""
    idle_seconds: float = Field(default=1800.0, gt=0)
    """A session that is not used for so long is closed."""
    max_pictures: int = Field(default=256, ge=1)
    """Most pictures of one session; a call may pass it by the pictures that it shows itself."""
    max_upload_bytes: int = Field(default=64 * MIB, ge=1024)
    """Largest picture or video that is taken."""
    shown_pixels: int = Field(default=1_500_000, ge=28 * 28)
    """A larger picture goes to the client scaled down to it, with a line that says so; code and tools have it whole."""
    folders: tuple[Path, ...] = ()
    """Folders of this machine from which pictures may be uploaded by path; none: by data alone."""

    @property
    def media(self) -> OwnMediaSettings:
        """Limits of what is uploaded."""
        return OwnMediaSettings(max_bytes=self.max_upload_bytes, max_video_bytes=self.max_upload_bytes)


@dataclass
class _Held:
    session: VisionSession
    last_used: float
    calls: int = 0


class VisionSessions:
    """Opens, finds and closes sessions over one provider, which is started already. Use it as an async context."""

    def __init__(self, sandbox: Sandbox, tools: Toolbox, settings: McpSettings) -> None:
        self._sandbox, self._tools, self.settings = sandbox, tools, settings
        self._held: dict[str, _Held] = {}
        self._coming = 0
        """Branches that are being opened."""

    async def __aenter__(self) -> Self:
        self._reaper = asyncio.create_task(self._reap())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._reaper.cancel()
        with suppress(asyncio.CancelledError):
            await self._reaper
        await asyncio.gather(*(self.close(name) for name in list(self._held)), return_exceptions=True)

    def __len__(self) -> int:
        return len(self._held)

    def use(self, name: str | None) -> _Use:
        """A context that gives name and session; None opens a new one, which is closed again if the call fails.

        Raises:
            CallRefusedError: there is no such session, or no room for another.
        """
        return _Use(self, name)

    async def branch(self, name: str, count: int) -> list[str]:
        """Names of `count` new sessions that start from the state of `name`. Raises as `use` does."""
        self._admit(count)
        self._coming += count
        try:
            async with self.use(name) as (_, session):
                made = await session.branch(count)
        finally:
            self._coming -= count
        return [self._hold(branch) for branch in made]

    async def close(self, name: str) -> None:
        """Close a session. Raises `CallRefusedError` if there is none."""
        held = self.find(name)
        del self._held[name]
        await held.session.close()

    def open(self) -> str:
        """The name of a new session. Raises `CallRefusedError` if there is no room for it."""
        self._admit(1)
        settings = self.settings
        return self._hold(VisionSession(self._sandbox, self._tools, MediaFolder(), most=settings.max_pictures))

    def find(self, name: str) -> _Held:
        """What is held under a name. Raises `CallRefusedError` if nothing is."""
        held = self._held.get(name)
        if held is None:
            raise CallRefusedError(
                "There is no such session: it was closed, or not used for "
                f"{self.settings.idle_seconds:.0f} s. Call again without `session`, which opens a new one."
            )
        return held

    def _hold(self, session: VisionSession) -> str:
        name = secrets.token_hex(16)
        self._held[name] = _Held(session, asyncio.get_running_loop().time())
        return name

    def _admit(self, count: int) -> None:
        held = len(self._held) + self._coming
        if held + count > self.settings.max_sessions:
            raise CallRefusedError(
                f"{held} sessions are open, and {self.settings.max_sessions} are allowed. Continue in one "
                "by its name, or end those that are not needed with close_session."
            )

    async def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(5.0, self.settings.idle_seconds / 4))
            oldest = loop.time() - self.settings.idle_seconds
            idle = [name for name, held in self._held.items() if not held.calls and held.last_used < oldest]
            if idle:
                _log.info("%d sessions are closed: not used for %.0f s.", len(idle), self.settings.idle_seconds)
            await asyncio.gather(*(self.close(name) for name in idle), return_exceptions=True)


class _Use:
    """A session while a call uses it."""

    def __init__(self, sessions: VisionSessions, name: str | None) -> None:
        self._sessions, self._new = sessions, name is None
        self._name = sessions.open() if name is None else name

    async def __aenter__(self) -> tuple[str, VisionSession]:
        self._held = self._sessions.find(self._name)
        self._held.calls += 1
        return self._name, self._held.session

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._held.calls -= 1
        self._held.last_used = asyncio.get_running_loop().time()
        if self._new and kind is not None:
            with suppress(CallRefusedError):
                await self._sessions.close(self._name)


def inside(path: str, folders: Sequence[Path]) -> Path:
    """The file at `path`, links followed, if it lies in one of `folders`.

    Raises:
        CallRefusedError: it does not, or there is no such file.
    """
    if not folders:
        raise CallRefusedError(
            "This server takes no paths: it was started without --folder. Upload the picture as `data` (base64)."
        )
    roots = [folder.resolve() for folder in folders]
    with suppress(OSError, RuntimeError, ValueError):  # names that no file has: of nobody's home, too long, with a NUL
        full = Path(path).expanduser()
        real = (full if full.is_absolute() else roots[0] / full).resolve()
        if any(real.is_relative_to(root) for root in roots) and real.is_file():
            return real
    listed = ", ".join(map(str, roots))
    raise CallRefusedError(f"There is no file {path[:200]!r} in the folders that may be read: {listed}.")
