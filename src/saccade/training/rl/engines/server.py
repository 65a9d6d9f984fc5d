"""Sample at vLLM or SGLang servers over HTTP, token ids in and out.

    engine = ServerEngine([Connection("http://127.0.0.1:8000")], policy, store, Path("runs/rl/served"))

Nothing is tokenised twice. Each turn is a request with everything before it, for which servers have a prefix cache. Ids
that may not be sampled get a bias of -1e9. Before the first turn one token is sampled to check that log-probabilities
are those of the distribution sampled from, bias and temperature included; a server with others is refused. Whether the
same seeds give the same tokens depends on the server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Literal
from uuid import uuid4

import torch

from saccade.core.png import quick_png
from saccade.errors import ModelLostError, ModelRefusedError
from saccade.models.base import MediaReader
from saccade.models.pictures import EncodedPicture, decoded_picture
from saccade.record.content import ImagePart
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import PromptPicture, image_parts
from saccade.tokens.turn import ContextFullError, SampledTurn, Slot, TurnRequest, start_turn
from saccade.training.rl.engines.server_http import Connection, PictureFiles
from saccade.training.rl.engines.wire import CheckedServer, EncodedPolicy, SampleOutput, SampleRequest, check_server

# One server: checked once, given new weights, and given them again when its process was replaced (a server that was
# started again has the weights of its command line). Weights are loaded under a label that each answer repeats; an
# answer with another label is thrown away, the server checked anew and the weights loaded again.


# vLLM's `/sleep` and `/wake_up`, read in version 0.32.0. Level 2 discards the weights, as new ones follow. Waking gives
# room to weights first, and to keys and values once they are read. On a CPU vLLM keeps its memory; not tried on a GPU.


async def put_to_sleep(connection: Connection) -> None:
    """Release the GPU's memory.

    Raises `ModelRefusedError`: the server cannot sleep or did not; `ModelLostError`: it is not there.
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

        Raises `ModelError`: it cannot be reached, or its log-probabilities are of no use.
        """
        if self._checked is None or (self._checked.done() and self._checked.exception() is not None):
            self._checked = asyncio.create_task(check_server(self._connection, self._policy))
        return await asyncio.shield(self._checked)

    async def sample(self, request: SampleRequest) -> SampleOutput:
        """Sample `request` with the weights that were loaded last.

        Raises `ModelError`: it failed, or has other weights again and again.
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
        """Sample with the weights of the checkpoint in `folder`. Raises `ModelError`: the server cannot."""
        async with self._loading:
            self._weights = folder
            await self._reload(folder)

    async def sleep(self) -> None:
        """Release the GPU's memory until the next `load`. Raises `ModelError`: the server cannot."""
        async with self._loading:
            await self.checked()  # it cannot be while it sleeps
            await put_to_sleep(self._connection)
            self._asleep = True

    async def close(self) -> None:
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


class ServerPool:
    """One server or several that serve the same checkpoint.

    An episode stays with the server that has its prefix cached until its queue is over twice that of another. A lost
    server gets no turns until the next update of the weights, when it is tried again.
    """

    def __init__(self, servers: Sequence[SamplingServer]) -> None:
        """Needs at least one."""
        self._servers = tuple(servers)

    @property
    def addresses(self) -> str:
        """All addresses, with commas."""
        return ",".join(server.address for server in self._servers)

    async def context(self) -> int | None:
        """Return the most tokens of a sequence that every server takes, once all are checked; None where none tells.

        Raises `ModelError`: one cannot be reached, or is of no use.
        """
        checked = await asyncio.gather(*(server.checked() for server in self._servers if not server.lost))
        return min((each.context for each in checked if each.context is not None), default=None)

    async def sample(self, request: SampleRequest, home: SamplingServer | None) -> tuple[SampleOutput, SamplingServer]:
        """Sample `request` at `home` or a server with a shorter queue; also return which one.

        Raises `ModelError`: it was refused, or every server is lost.
        """
        while True:
            server = self._choose(home)
            try:
                return await server.sample(request), server
            except ModelLostError as error:
                server.lost = True
                if all(each.lost for each in self._servers):
                    server.lost = False  # the next turn tries it again
                    raise
                _log.warning("%s Its turns go to the other servers until the next update.", error)

    async def load(self, folder: Path) -> None:
        """Let every server sample with the weights in `folder`.

        Raises `ModelError`: one refuses, or every server is lost.
        """
        await self._each(lambda server: server.load(folder))

    async def sleep(self) -> None:
        """Let every server give its GPU's memory back until the next `load`.

        Raises `ModelError`: one cannot, or every server is lost.
        """
        await self._each(SamplingServer.sleep)

    def look_again(self) -> None:
        """Try lost servers again, after another process let every server load new weights."""
        for server in self._servers:
            server.lost = False

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers))

    async def _each(self, change: Callable[[SamplingServer], Awaitable[None]]) -> None:
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


class BusyClock:
    """Counts the seconds in which anything was running; overlaps count once."""

    def __init__(self) -> None:
        self._running = 0
        self._since = self._spent = 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._spent + (time.perf_counter() - self._since if self._running else 0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time inside the block."""
        if not self._running:
            self._since = time.perf_counter()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._spent += time.perf_counter() - self._since


_BANNED = -1e9


class ServerEngine:
    """An `Engine` over one server or several, which read new weights from a folder."""

    in_process = False

    def __init__(
        self,
        connections: Sequence[Connection],
        policy: EncodedPolicy,
        media: MediaReader,
        weights: Path,
        *,
        shared: bool = False,
    ) -> None:
        """Contact no server yet.

        Args:
            connections: to the servers, at least one; closed with the engine.
            policy: whose tokens are sampled; its weights are not used.
            media: has the pictures.
            weights: folder for new weights, which every server must see under the same path.
            shared: whether the servers are on GPUs that train, and are to `sleep` meanwhile.
        """
        self.pool = ServerPool([SamplingServer(connection, policy) for connection in connections])
        self.name = f"server:{self.pool.addresses}"
        self.policy = policy
        self.shared = shared
        self.bias = {int(token): _BANNED for token in torch.nonzero(policy.checkpoint.forbidden)[:, 0]}
        self._media = media
        self._weights = weights
        self._pictures = PictureFiles(self._encoded)
        self._busy = BusyClock()

    @property
    def busy_seconds(self) -> float:
        """Seconds in which at least one turn was at a server."""
        return self._busy.seconds

    def slots(self, seeds: Sequence[int]) -> list[Slot]:
        """Return independent slots; the server batches their turns."""
        return [ServerSlot(self, seed) for seed in seeds]

    async def sleep(self) -> None:
        """Let every server release its GPU's memory until `update_weights`. No turn may be running.

        Raises `ModelError`: one cannot, or all are lost.
        """
        await self.pool.sleep()

    async def update_weights(self, save: Callable[[Path], object]) -> None:
        """See `Engine.update_weights`. No turn may be running.

        Raises `ModelError`: no server can be reached, or one does not take the weights.
        """
        await self.pool.context()
        began = time.perf_counter()
        self._pictures.clear()
        await asyncio.to_thread(save, self._weights)
        await self.pool.load(self._weights.resolve())
        _log.info("%s has read the new weights, %.1f s.", self.name, time.perf_counter() - began)

    async def close(self) -> None:
        """Close the connections and delete picture files."""
        await self.pool.close()
        self._pictures.clear()

    async def sample(
        self, request: SampleRequest, pictures: Sequence[PromptPicture], home: SamplingServer | None
    ) -> tuple[SampleOutput, SamplingServer]:
        """Sample `request` with `pictures` at `home` or a server with a shorter queue; also return which one.

        Raises `ModelError`: it failed, or there is a video; `MediaError`: a picture cannot be read.
        """
        with self._busy.running():
            parts = image_parts(pictures, self.name)
            async with self._pictures.files_of(parts) as files:
                return await self.pool.sample(replace(request, pictures=files), home)

    def _encoded(self, part: ImagePart) -> EncodedPicture:
        """Encode a picture at the size that the policy sees, so that the server resizes nothing."""
        encoder = self.policy.encoder
        image = encoder.family.prepared(decoded_picture(part, self._media), encoder.image_processor)
        return EncodedPicture("image/png", quick_png(image))


class ServerSlot:
    """A `Slot` that sends its whole context with every turn."""

    def __init__(self, engine: ServerEngine, seed: int) -> None:
        self._engine = engine
        self._seed = seed
        self._turns = 0
        self._home: SamplingServer | None = None
        self._pictures: tuple[PromptPicture, ...] = ()
        self.ids: tuple[int, ...] = ()

    async def generate(self, request: TurnRequest) -> SampledTurn:
        engine, delta = self._engine, request.delta
        context = await engine.pool.context()
        read = (*self.ids[: len(self.ids) - delta.dropped], *delta.ids)
        pictures = (*self._pictures, *delta.pictures)
        turn = start_turn(engine.policy, request, len(read), context)
        digest = sha256(f"{self._seed}:{self._turns}".encode()).digest()
        sample_request = SampleRequest(
            collapse_placeholders(read, pictures, engine.policy.encoder),
            turn.left,
            engine.bias,
            stop=request.stop,
            ends=tuple(sorted(turn.ends)),
            temperature=request.temperature,
            seed=int.from_bytes(digest[:6]),
        )
        output, self._home = await engine.sample(sample_request, pictures, self._home)
        self._check(output, read)
        if not output.ids:
            raise ContextFullError(f"{engine.name} has no room for a token after {len(read)}")
        for token, logprob in zip(output.ids, output.logprobs, strict=True):
            turn.take(token, logprob)
            if turn.finish is not None:
                break
        if turn.finish is None and output.stopped:
            raise ModelRefusedError(
                f"{engine.name} ended a turn at id {output.ids[-1]}, which ends none here. Serve the checkpoint that "
                "is trained, with its own generation_config.json."
            )
        done = turn.done()
        self.ids, self._pictures, self._turns = (*read, *done.ids), pictures, self._turns + 1
        return done

    def release(self) -> None:
        """Do nothing: the server holds nothing for a slot."""

    def _check(self, output: SampleOutput, read: tuple[int, ...]) -> None:
        """Raise `ModelRefusedError` if the server read other tokens, or sampled a forbidden one."""
        count = len(read) if output.read is None else len(output.read)
        if (output.read or read) != read or count != (output.count or count):
            raise ModelRefusedError(
                f"{self._engine.name} read {output.count or count} tokens that are not the {len(read)} of this "
                "episode. Serve the checkpoint that is trained, with its own preprocessor_config.json."
            )
        if banned := [token for token in output.ids if token in self._engine.bias]:
            raise ModelRefusedError(f"{self._engine.name} sampled id {banned[0]} in spite of its bias.")


def collapse_placeholders(ids: Sequence[int], pictures: Sequence[PromptPicture], encoder: Encoder) -> tuple[int, ...]:
    """Replace the placeholders of each picture, one per feature, by one.

    Marks around them are removed where servers write those.
    """
    kept: list[int] = []
    at, marks = 0, int(encoder.family.own_marks)
    left = iter(pictures)
    while at < len(ids):
        if ids[at] == encoder.placeholder_id:
            at += next(left).tokens + marks
            del kept[len(kept) - marks :]
            kept.append(encoder.placeholder_id)
        else:
            kept.append(ids[at])
            at += 1
    return tuple(kept)
