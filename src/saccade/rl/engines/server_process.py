"""A server as a process of our own: started with a guard, waited for, ended by its id.

    process = ServerProcess(command, environment, "http://127.0.0.1:8000", Path("runs/rl/servers/0.log"))
    await process.wait_until_ready(600)
    process.stop()

If this process ends without `stop`, even by SIGKILL, the guard ends the server.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from saccade.errors import ModelLostError, UnavailableError
from saccade.rl.engines import guard

_LOOK = 0.5
"""Seconds between two looks whether it is ready."""
_LAST_LINES = 5


class ServerProcess:
    """A server that was started here."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], address: str, log: Path) -> None:
        """Start it.

        Args:
            command: the program and its arguments.
            environment: variables over those of this process.
            address: where it will answer, `http://host:port`.
            log: file for what it prints; what is there already stays.

        Raises:
            UnavailableError: the program cannot be started.
        """
        self.address = address
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as written:
            try:
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", guard.__file__, *command],
                    stdin=subprocess.PIPE,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                    start_new_session=True,  # a Ctrl-C is for us, and we end it
                )
            except OSError as error:
                raise UnavailableError(f"{command[0]} cannot be started: {error}") from error

    async def wait_until_ready(self, seconds: float) -> None:
        """Return when it answers `/health`.

        Raises:
            ModelLostError: it ended, or is not ready after `seconds`.
        """
        end = time.monotonic() + seconds
        async with httpx.AsyncClient(base_url=self.address, timeout=5, trust_env=False) as client:
            while time.monotonic() < end:
                if self._guard.poll() is not None:
                    raise ModelLostError(f"the server that was started ended. {self._last_words()}")
                with suppress(httpx.HTTPError):
                    if (await client.get("/health")).is_success:
                        return
                await asyncio.sleep(_LOOK)
        raise ModelLostError(
            f"the server that was started is not ready after {seconds:g} s. {self._last_words()} "
            "Raise engine.ready_seconds if it only needs longer."
        )

    def stop(self) -> None:
        """End it and wait until it has ended; idempotent."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def _last_words(self) -> str:
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            last = " | ".join(line.strip() for line in deque(lines, _LAST_LINES) if line.strip())
        return f"{self.log} ends with: {last or 'nothing'}."
