"""Open the engine of a run and give it new weights. Imports torch; import this module late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from saccade.media.store import MediaStore
from saccade.tokens.caches import state_bytes
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.sequences import cache_bytes_of, cache_dtype
from saccade.tokens.turn import Engine
from saccade.training.learner import Learner
from saccade.training.rl.engines.settings import LOCAL
from saccade.training.rl.server_engine import cache_of_batch, most_context
from saccade.training.rl.settings import RlSettings
from saccade.training.weights import export


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
            from saccade.training.rl.server_engine import server_engine

            engine = await server_engine(settings, learner, media, out, stack)
        stack.push_async_callback(engine.close)
        yield engine


async def sync_weights(engine: Engine, learner: Learner) -> None:
    """Let `engine` sample with the weights as they are now; every process calls it, the first one sends.

    Raises `ModelError`: the engine cannot.
    """
    if not engine.in_process:
        from saccade.training.rl.engines.server import ServerEngine
        from saccade.training.rl.server_engine import free_gpu

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
    from saccade.training.rl.engines.server import ServerEngine

    if isinstance(engine, ServerEngine) and engine.shared:
        if learner.processes.is_main:
            await engine.sleep()
        learner.processes.barrier()
