"""Sample at one server: check it once, load new weights, and load them again when its process was replaced.

A server that was killed and started again has the weights of its command line, not those of the last update. Weights
are loaded under a label, which each answer repeats: an answer with another label is thrown away, and the server is
checked anew and loads the last weights before it is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Literal
from uuid import uuid4

from saccade.errors import ModelRefusedError
from saccade.training.rl.engines.server_http import Connection
from saccade.training.rl.engines.wire import CheckedServer, EncodedPolicy, SampleOutput, SampleRequest, check_server

# vLLM's `/sleep` and `/wake_up`, read in version 0.32.0. Level 2 discards the weights, as new ones follow. Waking gives
# room to weights first, and to keys and values once they are read. On a CPU vLLM keeps its memory; not tried on a GPU.


async def put_to_sleep(connection: Connection) -> None:
    """Release the GPU's memory.

    Raises:
        ModelRefusedError: the server cannot sleep or did not.
        ModelLostError: it is not there.
    """
    try:
        await connection.post("/sleep?level=2")
        answer = await connection.get("/is_sleeping")
    except ModelRefusedError as error:
        raise ModelRefusedError(f"{error} {_NEEDS}") from error
    if not isinstance(answer, dict) or answer.get("is_sleeping") is not True:
        raise ModelRefusedError(f"{connection.address} was told to sleep and did not. {_NEEDS}")


async def wake_up(connection: Connection, part: Literal["weights", "kv_cache"]) -> None:
    """Give a part its memory again, weights first. Raises as `put_to_sleep`."""
    answer = await connection.post(f"/wake_up?tags={part}")
    expected = "sleeping" if part == "weights" else "awake"
    if not isinstance(answer, dict) or answer.get("status") != expected:
        raise ModelRefusedError(f"{connection.address} did not wake: {answer!r}. {_NEEDS}")


_NEEDS = (
    "engine.shared needs vLLM servers on GPUs with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1, as the run starts "
    "them."
)


_log = logging.getLogger(__name__)

_RESTORED = 3
"""How often one turn may find a restarted server."""
_LOOK = 0.05
"""Seconds between two checks whether other turns have ended."""


class SamplingServer:
    """One server of a pool."""

    def __init__(self, connection: Connection, policy: EncodedPolicy) -> None:
        """Contact nothing yet; the connection is closed with the server."""
        self.address = connection.address
        self.queue = 0
        """Turns at the server now."""
        self.lost = False
        """Whether it could not be reached, after all tries."""
        self._connection = connection
        self._policy = policy
        self._checked: asyncio.Task[CheckedServer] | None = None
        self._weights: Path | None = None
        self._version = ""
        self._asking = 0
        """Turns sampled now, without those that wait for weights."""
        self._loading = asyncio.Lock()
        self._asleep = False

    async def checked(self) -> CheckedServer:
        """Check the server once; concurrent calls share the outcome.

        Raises:
            ModelError: it cannot be reached, or its log-probabilities are of no use.
        """
        if self._checked is None or (self._checked.done() and self._checked.exception() is not None):
            self._checked = asyncio.create_task(check_server(self._connection, self._policy))
        return await asyncio.shield(self._checked)

    async def sample(self, request: SampleRequest) -> SampleOutput:
        """Sample `request` with the weights that were loaded last.

        Raises:
            ModelError: it failed, or has other weights again and again.
        """
        self.queue += 1
        try:
            for _ in range(_RESTORED):
                async with self._loading:
                    version = self._version
                output = await self._ask(request)
                if not version or not output.versions or output.versions == {version}:
                    return output
                await self._restore(version)
        finally:
            self.queue -= 1
        raise ModelRefusedError(
            f"{self.address} samples with other weights than it was given. It must serve this run alone."
        )

    async def load(self, folder: Path) -> None:
        """Sample with the weights of the checkpoint in `folder`.

        Raises:
            ModelError: the server cannot.
        """
        async with self._loading:
            self._weights = folder
            await self._reload(folder)

    async def sleep(self) -> None:
        """Release the GPU's memory until the next `load`.

        Raises:
            ModelError: the server cannot.
        """
        async with self._loading:
            await self.checked()  # it cannot be while it sleeps
            await put_to_sleep(self._connection)
            self._asleep = True

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def _ask(self, request: SampleRequest) -> SampleOutput:
        wire = (await self.checked()).wire
        self._asking += 1
        try:
            return await self._connection.ask(wire.path, wire.body(request), wire.read, request.pictures)
        finally:
            self._asking -= 1

    async def _restore(self, version: str) -> None:
        """Load the last weights, labelled `version`, into a process that replaced another."""
        async with self._loading:
            if self._version != version or self._weights is None:
                return  # another turn has
            while self._asking:  # their answers will be discarded too
                await asyncio.sleep(_LOOK)
            self._checked = None
            await self._reload(self._weights)
            _log.warning("%s was started anew; it has read the weights of the last update.", self.address)

    async def _reload(self, folder: Path) -> None:
        version = uuid4().hex
        wire = (await self.checked()).wire
        if self._asleep:
            await wake_up(self._connection, "weights")
        await wire.reload(self._connection, folder, version)
        if self._asleep:
            await wake_up(self._connection, "kv_cache")
            self._asleep = False
        self._version = version
