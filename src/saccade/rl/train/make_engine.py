"""The engine of a run, and how it comes by new weights. Imports torch; import this module late."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

from saccade.generate.base import Engine
from saccade.generate.in_process import TransformersEngine
from saccade.media.store import MediaStore
from saccade.rl.engines.server import ServerEngine
from saccade.rl.engines.server_http import Connection
from saccade.rl.train.settings import RlSettings
from saccade.training.parallel import Processes
from saccade.training.weights import Trainable, export


def make_engine(settings: RlSettings, trained: Trainable, media: MediaStore, weights: Path) -> Engine:
    """What samples for `trained`: itself, or a server that reads its weights from the folder `weights`.

    Raises:
        SettingsError: the server's address is none, or it cannot serve this family.
    """
    if settings.engine == "local":
        return TransformersEngine(trained, media, most_tokens=settings.max_tokens_per_batch)
    return ServerEngine(Connection(settings.engine, retry=settings.retry), trained, media, weights)


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
