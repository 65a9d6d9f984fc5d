"""The engine of a run, and how it comes by new weights. Imports torch; import this module late."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from saccade.dialects.registry import load_dialect
from saccade.episode.plan import limits_with
from saccade.errors import SettingsError
from saccade.generate.base import Engine
from saccade.generate.in_process import TransformersEngine
from saccade.generate.ragged_cache import row_bytes
from saccade.generate.sequences import cache_bytes_of
from saccade.media.store import MediaStore
from saccade.models.kv_cache import GIB
from saccade.record.trajectory import EpisodeLimits
from saccade.rl.engines.server import ServerEngine
from saccade.rl.engines.server_http import Connection
from saccade.rl.engines.settings import LOCAL, VLLM
from saccade.rl.engines.vllm_process import vllm_servers
from saccade.rl.train.settings import RlSettings
from saccade.training.parallel import Processes
from saccade.training.weights import Trainable, export


@asynccontextmanager
async def open_engine(
    settings: RlSettings, trained: Trainable, media: MediaStore, out: Path, processes: Processes
) -> AsyncIterator[Engine]:
    """What samples for `trained`: itself, or servers that read its weights from the folder `out/served`.

    Servers that the run starts itself, by its first process, have ended when the block is left.

    Raises:
        SettingsError: an address is none, no server can serve this family, or there are too few GPUs.
        UnavailableError: vLLM is to be started and not installed.
        ModelLostError: a server that was started did not come up.
    """
    async with AsyncExitStack() as stack:
        engine: Engine
        if settings.engine.source == LOCAL:
            cache = cache_of_batch(settings, trained)
            engine = TransformersEngine(trained, media, most_tokens=settings.max_tokens_per_batch, cache_bytes=cache)
        else:
            addresses = settings.engine.addresses
            if settings.engine.source == VLLM:
                addresses = await _start(settings, trained, out, processes, stack)
            connections = [Connection(address, retry=settings.retry) for address in addresses]
            engine = ServerEngine(connections, trained, media, out / "served")
        stack.push_async_callback(engine.close)
        yield engine


def most_context(settings: RlSettings, checkpoint: int) -> int:
    """Most tokens of an episode: what the recipe, else the dialect says, and never more than the checkpoint reads."""
    dialect = load_dialect(settings.recipe.dialect)
    own = settings.recipe.rollout.limits or EpisodeLimits()
    most = limits_with(dialect.limits, **own.model_dump()).context_tokens
    return checkpoint if most is None else min(most, checkpoint)


def cache_of_batch(settings: RlSettings, trained: Trainable) -> float:
    """Bytes of the keys and values of each batch that decodes in this process.

    Raises:
        SettingsError: the longest episode does not fit them.
    """
    batches = settings.generation.decoding_batches
    budget = settings.engine.cache * GIB / batches
    longest = most_context(settings, trained.checkpoint.context_tokens)
    needed = row_bytes(longest, cache_bytes_of(trained))
    if needed > budget:
        raise SettingsError(
            f"engine.cache = {settings.engine.cache:g} GiB for {batches} batches (generation.decoding_batches) cannot "
            f"hold one episode of {longest} tokens, which takes {needed / GIB:.3g} GiB. Set engine.cache to at least "
            f"{needed * batches / GIB:.3g}, or bound rollout.limits.context_tokens."
        )
    return budget


async def _start(
    settings: RlSettings, trained: Trainable, out: Path, processes: Processes, stack: AsyncExitStack
) -> tuple[str, ...]:
    """The addresses of servers that were started, the same in every process."""
    started: tuple[str, ...] = ()
    if processes.is_main:
        write_copy(trained, out / "served")  # with the limits of pictures that the run has
        most = most_context(settings, trained.encoder.context_tokens)
        servers = await stack.enter_async_context(
            vllm_servers(settings.engine, out / "served", most, out / "servers", processes.count)
        )
        started = tuple(server.address for server in servers)
    return processes.all_gather(started)[0]


async def sync_weights(engine: Engine, trained: Trainable, processes: Processes) -> None:
    """Let `engine` sample with the weights as they are now; every process calls it, the first one sends.

    Raises:
        ModelError: the engine cannot.
    """
    if processes.is_main:
        await engine.update_weights(partial(write_copy, trained))
    processes.barrier()


def write_copy(trained: Trainable, folder: Path) -> None:
    """Write the checkpoint as `export` does and leave `trained` as it is; takes the memory of its model once more."""
    if trained.adapter is not None:
        snapshot = replace(trained, adapter=copy.deepcopy(trained.adapter))
    else:
        snapshot = replace(trained, checkpoint=replace(trained.checkpoint, model=copy.deepcopy(trained.model)))
    export(snapshot, folder, "auto")
