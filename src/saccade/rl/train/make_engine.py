"""The engine of a run, and how it comes by new weights. Imports torch; import this module late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import torch

from saccade.dialects.registry import load_dialect
from saccade.episode.plan import limits_with
from saccade.errors import SettingsError
from saccade.generate.base import Engine
from saccade.generate.in_process import TransformersEngine
from saccade.generate.ragged_cache import row_bytes
from saccade.generate.sequences import cache_bytes_of, cache_dtype
from saccade.media.store import MediaStore
from saccade.models.kv_cache import GIB, state_bytes
from saccade.record.trajectory import EpisodeLimits
from saccade.rl.engines.settings import LOCAL
from saccade.rl.train.settings import RlSettings
from saccade.training.learner import Learner
from saccade.training.weights import export


@asynccontextmanager
async def open_engine(settings: RlSettings, learner: Learner, media: MediaStore, out: Path) -> AsyncIterator[Engine]:
    """What samples for the policy that learns: itself, or servers that read its weights from the folder `out/served`.

    Servers that the run starts itself, by its first process, have ended when the block is left.

    Raises:
        SettingsError: an address is none, or there are too few GPUs.
        UnavailableError: vLLM is to be started and not installed.
        ModelLostError: a server that was started did not come up.
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
            from saccade.rl.train.server_engine import server_engine

            engine = await server_engine(settings, learner, media, out, stack)
        stack.push_async_callback(engine.close)
        yield engine


def most_context(settings: RlSettings, checkpoint: int) -> int:
    """Most tokens of an episode: what the recipe, else the dialect says, and never more than the checkpoint reads."""
    dialect = load_dialect(settings.recipe.dialect)
    own = settings.recipe.rollout.limits or EpisodeLimits()
    most = limits_with(dialect.limits, **own.model_dump()).context_tokens
    return checkpoint if most is None else min(most, checkpoint)


def cache_of_batch(settings: RlSettings, longest: int, bytes_per_token: int, state: int = 0) -> float:
    """Bytes of what each batch that decodes in this process keeps, with episodes of up to `longest` tokens.

    `state` is what an episode takes beside keys and values, in bytes.

    Raises:
        SettingsError: the longest episode does not fit them.
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


async def sync_weights(engine: Engine, learner: Learner) -> None:
    """Let `engine` sample with the weights as they are now; every process calls it, the first one sends.

    Raises:
        ModelError: the engine cannot.
    """
    if not engine.in_process:
        from saccade.rl.engines.server import ServerEngine

        snapshot = await asyncio.to_thread(learner.snapshot)
        free_gpu(learner)
        if snapshot is not None:
            await engine.update_weights(lambda folder: export(snapshot, folder, "auto"))
        elif isinstance(engine, ServerEngine):
            engine.pool.look_again()
    learner.processes.barrier()


async def rest_servers(engine: Engine, learner: Learner) -> None:
    """Before an update: servers on the GPUs that train sleep until `sync_weights`; every process calls it.

    Raises:
        ModelError: one does not sleep.
    """
    if engine.in_process:
        return
    from saccade.rl.engines.server import ServerEngine

    if isinstance(engine, ServerEngine) and engine.shared:
        if learner.processes.is_main:
            await engine.sleep()
        learner.processes.barrier()


def free_gpu(learner: Learner) -> None:
    """Give back what torch keeps of this process's GPU, for a server that wakes there."""
    if learner.processes.device.type == "cuda":
        torch.cuda.empty_cache()
    learner.processes.barrier()
