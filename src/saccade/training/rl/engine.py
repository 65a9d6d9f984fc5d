"""Open the engine of a run, the policy itself or servers, and give it new weights. Imports torch; import it late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import torch

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.tokens.caches import GIB, row_bytes, state_bytes
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.sequences import cache_bytes_of, cache_dtype
from saccade.tokens.turn import Engine
from saccade.training.learner import Learner
from saccade.training.rl.engines.server import ServerEngine
from saccade.training.rl.engines.server_http import Connection
from saccade.training.rl.engines.settings import LOCAL, VLLM
from saccade.training.rl.engines.vllm_process import memory_folder, vllm_servers
from saccade.training.rl.settings import RlSettings
from saccade.training.weights import export


def most_context(settings: RlSettings, checkpoint: int) -> int:
    """Return the most tokens of an episode: of the recipe, else the dialect, at most what the checkpoint reads."""
    most = settings.recipe.limits.context_tokens
    return checkpoint if most is None else min(most, checkpoint)


def cache_of_batch(settings: RlSettings, longest: int, bytes_per_token: int, state: int = 0) -> float:
    """Return the bytes of cache of each batch that decodes in this process, for episodes of up to `longest` tokens.

    `state`: bytes of an episode besides keys and values. Raises `SettingsError`: the longest episode does not fit them.
    """
    batches = settings.generation.decoding_batches
    budget = settings.generation.cache * GIB / batches
    needed = row_bytes(longest, bytes_per_token) + state * -(-settings.generation.max_concurrency // batches)
    if needed > budget:
        raise SettingsError(
            f"generation.cache = {settings.generation.cache:g} GiB cannot hold an episode of {longest} tokens in each "
            f"of {batches} batches (generation.decoding_batches): it takes {needed / GIB:.3g} GiB. Set "
            f"generation.cache to at least {needed * batches / GIB:.3g}, or bound rollout.limits.context_tokens."
        )
    return budget


async def server_engine(
    settings: RlSettings, learner: Learner, media: MediaStore, out: Path, stack: AsyncExitStack
) -> ServerEngine:
    """Make the engine; servers started for it end with `stack`. Raises as `open_engine`."""
    addresses, folder = settings.engine.addresses, _weights_folder(settings, learner, out, stack)
    if settings.engine.source == VLLM:
        addresses = await _start(settings, learner, folder, out, stack)
    connections = [Connection(address, retry=settings.retry) for address in addresses]
    return ServerEngine(connections, learner.trained, media, folder, shared=settings.engine.shared)


def _weights_folder(settings: RlSettings, learner: Learner, out: Path, stack: AsyncExitStack) -> Path:
    """Return the folder into which the first process writes new weights."""
    if settings.engine.weights == "disk" or not learner.processes.is_main:
        return out / "served"
    trained = learner.trained
    numbers = sum(weight.numel() for weight in trained.checkpoint.model.parameters())
    twice = 2 * numbers * (2 if trained.low_precision else 4)  # those of before stay until the new ones are there
    return stack.enter_context(memory_folder(twice)) / "served"


async def _start(
    settings: RlSettings, learner: Learner, folder: Path, out: Path, stack: AsyncExitStack
) -> tuple[str, ...]:
    started: tuple[str, ...] = ()
    processes, snapshot = learner.processes, learner.snapshot()
    free_gpu(learner)
    if snapshot is not None:
        export(snapshot, folder, "auto")  # with the limits of pictures that the run has
        most = most_context(settings, snapshot.encoder.context_tokens)
        servers = await stack.enter_async_context(
            vllm_servers(settings.engine, folder, most, out / "servers", processes.count, settings.judge.gpus or 0)
        )
        started = tuple(server.address for server in servers)
    return processes.all_gather(started)[0]


def free_gpu(learner: Learner) -> None:
    """Release the GPU memory that torch caches, for a server that wakes there."""
    if learner.processes.device.type == "cuda":
        torch.cuda.empty_cache()
    learner.processes.barrier()


@asynccontextmanager
async def open_engine(settings: RlSettings, learner: Learner, media: MediaStore, out: Path) -> AsyncIterator[Engine]:
    """Open the engine: the policy itself, or servers that read its weights from the folder `out/served`.

    Servers that the run starts itself, by its first process, have ended when the block is left. Raises `SettingsError`:
    an address is none, or there are too few GPUs; `UnavailableError`: vLLM is to be started and not installed;
    `ModelLostError`: a server that was started did not come up.
    """
    trained = learner.trained
    async with AsyncExitStack() as stack:
        engine: Engine
        if settings.engine.source == LOCAL:
            context = most_context(settings, trained.checkpoint.context_tokens)
            state = state_bytes(trained.checkpoint.config, cache_dtype(trained).itemsize)
            cache = cache_of_batch(settings, context, cache_bytes_of(trained), state)
            engine = TransformersEngine(trained, media, most_tokens=settings.max_tokens_per_batch, cache_bytes=cache)
        else:
            engine = await server_engine(settings, learner, media, out, stack)
        stack.push_async_callback(engine.close)
        yield engine


async def sync_weights(engine: Engine, learner: Learner) -> None:
    """Let `engine` sample with the weights as they are now; every process calls it, the first one sends.

    Raises `ModelError`: the engine cannot.
    """
    if not engine.in_process:
        snapshot = await asyncio.to_thread(learner.snapshot)
        free_gpu(learner)
        if snapshot is not None:
            await engine.update_weights(lambda folder: export(snapshot, folder, "auto"))
        elif isinstance(engine, ServerEngine):
            engine.pool.look_again()
    learner.processes.barrier()


async def rest_servers(engine: Engine, learner: Learner) -> None:
    """Let servers on the GPUs that train sleep from before an update to `sync_weights`; every process calls it.

    Raises `ModelError`: one does not sleep.
    """
    if engine.in_process:
        return
    if isinstance(engine, ServerEngine) and engine.shared:
        if learner.processes.is_main:
            await engine.sleep()
        learner.processes.barrier()
