"""Servers as the engine of a run: those that it is given, or vLLM's that it starts. Imported where a run has some."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import torch

from saccade.media.store import MediaStore
from saccade.rl.engines.memory_folder import memory_folder
from saccade.rl.engines.server import ServerEngine
from saccade.rl.engines.server_http import Connection
from saccade.rl.engines.settings import VLLM
from saccade.rl.engines.vllm_process import vllm_servers
from saccade.rl.train.episode_room import most_context
from saccade.rl.train.settings import RlSettings
from saccade.training.learner import Learner
from saccade.training.weights import export


async def server_engine(
    settings: RlSettings, learner: Learner, media: MediaStore, out: Path, stack: AsyncExitStack
) -> ServerEngine:
    """The engine; what was started for it ends with `stack`. Raises as `open_engine`."""
    addresses, folder = settings.engine.addresses, _weights_folder(settings, learner, out, stack)
    if settings.engine.source == VLLM:
        addresses = await _start(settings, learner, folder, out, stack)
    connections = [Connection(address, retry=settings.retry) for address in addresses]
    return ServerEngine(connections, learner.trained, media, folder, shared=settings.engine.shared)


def _weights_folder(settings: RlSettings, learner: Learner, out: Path, stack: AsyncExitStack) -> Path:
    """Where the first process writes new weights."""
    if settings.engine.weights == "disk" or not learner.processes.is_main:
        return out / "served"
    trained = learner.trained
    numbers = sum(weight.numel() for weight in trained.checkpoint.model.parameters())
    twice = 2 * numbers * (2 if trained.low_precision else 4)  # those of before stay until the new ones are there
    return stack.enter_context(memory_folder(twice)) / "served"


async def _start(
    settings: RlSettings, learner: Learner, folder: Path, out: Path, stack: AsyncExitStack
) -> tuple[str, ...]:
    """The addresses of servers that were started, the same in every process."""
    started: tuple[str, ...] = ()
    processes, snapshot = learner.processes, learner.snapshot()
    free_gpu(learner)
    if snapshot is not None:
        export(snapshot, folder, "auto")  # with the limits of pictures that the run has
        most = most_context(settings, snapshot.encoder.context_tokens)
        servers = await stack.enter_async_context(
            vllm_servers(settings.engine, folder, most, out / "servers", processes.count)
        )
        started = tuple(server.address for server in servers)
    return processes.all_gather(started)[0]


def free_gpu(learner: Learner) -> None:
    """Give back what torch keeps of this process's GPU, for a server that wakes there."""
    if learner.processes.device.type == "cuda":
        torch.cuda.empty_cache()
    learner.processes.barrier()
