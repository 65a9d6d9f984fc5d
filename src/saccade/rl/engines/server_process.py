"""A server as a process of our own: started with a guard, waited for, ended by its id.

    process = ServerProcess(command, environment, "http://127.0.0.1:8000", Path("runs/rl/servers/0.log"))
    await process.wait_until_ready(600)
    process.stop()

If this process ends without `stop`, even by SIGKILL, the guard ends the server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from saccade.errors import ModelLostError
from saccade.rl.engines.guarded_process import GuardedProcess

_LOOK = 0.5
"""Seconds between two looks whether it is ready."""


class ServerProcess(GuardedProcess):
    """A server that was started here."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], address: str, log: Path) -> None:
        """Start it as `GuardedProcess` does; it will answer at `address`, `http://host:port`."""
        self.address = address
        super().__init__(command, environment, log)

    async def wait_until_ready(self, seconds: float) -> None:
        """Return when it answers `/health`.

        Raises:
            ModelLostError: it ended, or is not ready after `seconds`.
        """
        end = time.monotonic() + seconds
        async with httpx.AsyncClient(base_url=self.address, timeout=5, trust_env=False) as client:
            while time.monotonic() < end:
                if self.ended() is not None:
                    raise ModelLostError(f"the server that was started ended. {self.last_words()}")
                with suppress(httpx.HTTPError):
                    if (await client.get("/health")).is_success:
                        return
                await asyncio.sleep(_LOOK)
        raise ModelLostError(
            f"the server that was started is not ready after {seconds:g} s. {self.last_words()} "
            "Raise engine.ready_seconds if it only needs longer."
        )
