"""One server that samples: checked once, given new weights, and given them again when its process was replaced.

A server that was killed and started again has the weights of its command line, not those of the last update. So after
a connection broke, the server is asked when it was started; a new process is checked anew and loads the last weights
before it samples.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from saccade.rl.engines.sequences import Policy
from saccade.rl.engines.server_check import CheckedServer, check_server
from saccade.rl.engines.server_http import Connection
from saccade.rl.engines.wire import SampleOutput, SampleRequest

_log = logging.getLogger(__name__)


class SamplingServer:
    """One server of a pool."""

    def __init__(self, connection: Connection, policy: Policy) -> None:
        """Reaches for nothing yet; the connection is closed with the server."""
        self.address = connection.address
        self.queue = 0
        """Turns that are there now."""
        self.lost = False
        """Whether it could not be reached, after all tries."""
        self._connection = connection
        self._policy = policy
        self._checked: asyncio.Task[CheckedServer] | None = None
        self._weights: Path | None = None
        self._started = ""
        self._broken = 0
        """How often the connection had broken when the process was last known."""
        self._lock = asyncio.Lock()

    async def checked(self) -> CheckedServer:
        """What the server is, asked and checked once; all that ask at the same time share the outcome.

        Raises:
            ModelError: it cannot be reached, or its log-probabilities are of no use.
        """
        if self._checked is None or (self._checked.done() and self._checked.exception() is not None):
            self._checked = asyncio.create_task(check_server(self._connection, self._policy))
        return await asyncio.shield(self._checked)

    async def sample(self, request: SampleRequest) -> SampleOutput:
        """`request`, sampled by the weights that were loaded last.

        Raises:
            ModelError: it failed.
        """
        wire = (await self.checked()).wire
        self.queue += 1
        try:
            return await self._connection.ask(wire.path, wire.body(request), wire.read, self._restore)
        finally:
            self.queue -= 1

    async def load(self, folder: Path) -> None:
        """Sample with the weights of the checkpoint in `folder`.

        Raises:
            ModelError: the server cannot.
        """
        async with self._lock:
            self._weights, broken = folder, self._connection.broken
            wire = (await self.checked()).wire
            await wire.reload(self._connection, folder)
            self._started, self._broken = await wire.started(self._connection), broken

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def _restore(self) -> None:
        """Give the last weights to a process that has come in the place of another."""
        if self._weights is None or self._broken == self._connection.broken:
            return
        async with self._lock:
            broken = self._connection.broken
            if self._broken == broken:
                return
            wire = (await self.checked()).wire
            started = await wire.started(self._connection)
            if not started or started != self._started:
                self._checked = None
                wire = (await self.checked()).wire
                await wire.reload(self._connection, self._weights)
                _log.warning("%s was started anew; it has read the weights of the last update.", self.address)
            self._started, self._broken = started, broken
