"""The servers of a run: turns go where few wait, new weights go to all.

An episode stays with the server that has its prefix in the cache, until the queue there is more than twice that of
another. A server that is lost gets no more turns until the next update of the weights, when it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from saccade.errors import ModelLostError
from saccade.rl.engines.sampling_server import SamplingServer
from saccade.rl.engines.wire import SampleOutput, SampleRequest

_log = logging.getLogger(__name__)


class ServerPool:
    """One server or several that serve the same checkpoint."""

    def __init__(self, servers: Sequence[SamplingServer]) -> None:
        """At least one."""
        self._servers = tuple(servers)

    @property
    def addresses(self) -> str:
        """All of them."""
        return ",".join(server.address for server in self._servers)

    async def context(self) -> int | None:
        """Most tokens of a sequence that every server takes, once all are checked; None where none tells.

        Raises:
            ModelError: one cannot be reached, or is of no use.
        """
        checked = await asyncio.gather(*(server.checked() for server in self._servers if not server.lost))
        return min((each.context for each in checked if each.context is not None), default=None)

    async def sample(self, request: SampleRequest, home: SamplingServer | None) -> tuple[SampleOutput, SamplingServer]:
        """`request`, sampled by `home` or one that has less to do, and which one that was.

        Raises:
            ModelError: it was refused, or every server is lost.
        """
        while True:
            server = self._choose(home)
            try:
                return await server.sample(request), server
            except ModelLostError as error:
                server.lost = True
                if all(each.lost for each in self._servers):
                    server.lost = False  # whoever comes next may find it again
                    raise
                _log.warning("%s Its turns go to the other servers until the next update.", error)

    async def load(self, folder: Path) -> None:
        """Let every server sample with the weights in `folder`.

        Raises:
            ModelError: one refuses, or every server is lost.
        """
        await self._each(lambda server: server.load(folder))

    async def sleep(self) -> None:
        """Let every server give its GPU's memory back until the next `load`.

        Raises:
            ModelError: one cannot, or every server is lost.
        """
        await self._each(SamplingServer.sleep)

    def look_again(self) -> None:
        """Somebody else has let every server load new weights: those that were lost are tried again."""
        for server in self._servers:
            server.lost = False

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(server.close() for server in self._servers))

    async def _each(self, change: Callable[[SamplingServer], Awaitable[None]]) -> None:
        """Change every server; those that are lost get no turns."""
        outcomes = await asyncio.gather(*map(change, self._servers), return_exceptions=True)
        for server, outcome in zip(self._servers, outcomes, strict=True):
            server.lost = isinstance(outcome, ModelLostError)
        failures = [outcome for outcome in outcomes if outcome is not None]
        refusals = [failure for failure in failures if not isinstance(failure, ModelLostError)]
        if refusals or len(failures) == len(self._servers):
            raise (refusals or failures)[0]
        for failure in failures:
            _log.warning("%s It gets no turns until the next update.", failure)

    def _choose(self, home: SamplingServer | None) -> SamplingServer:
        there = [server for server in self._servers if not server.lost] or self._servers
        least = min(there, key=lambda server: server.queue)
        if home is not None and home in there and home.queue <= 2 * least.queue + 1:
            return home
        return least
